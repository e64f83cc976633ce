# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a checkpoint is, told from its tensors: stored how, with which draft, and whether anything is left out."""

from __future__ import annotations

import pretend_checkpoint as pretend
import pytest
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint_structure
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint import kind_findings, read
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_structure import Draft
from ansible_collections.tandem.spark.plugins.module_utils.safetensors import Tensor

PREVIEW = {"dspark_block_size": None, "dspark_target_layer_ids": None}


def structure(made, **changes):
    tensors = {name: Tensor(dtype, tuple(shape)) for name, (dtype, shape) in made.items()}
    return checkpoint_structure.of(pretend.config(**changes), tensors)


def without(made, *parts):
    return {name: tensor for name, tensor in made.items() if not any(part in name for part in parts)}


def test_0731_is_told_by_its_tensors_not_by_its_configuration(tmp_path):
    """config.json says fp8, one draft layer and five ratios for two layers."""
    found = read(pretend.write(tmp_path / "m", pretend.tensors()))
    assert (found.experts, found.bad, found.notes) == ("mxfp4", [], ())
    assert found.draft == Draft("dspark", 5, 3, (0, 1), "mxfp4")
    assert set(found.dtypes) == {"BF16", "F8_E4M3", "F8_E8M0", "I8"}


def test_the_preview_has_one_mtp_layer():
    found = structure(pretend.tensors(draft=1, markov=False), **PREVIEW)
    assert found.draft == Draft("mtp", None, 1, (), "mxfp4") and found.findings == ()


@pytest.mark.parametrize(
    ("made", "changes", "experts"),
    [
        (pretend.tensors(stored="nvfp4", draft_stored="nvfp4"), {}, "nvfp4"),
        (pretend.tensors(stored="fp8", draft_stored="fp8"), {}, "fp8"),
        (pretend.tensors(stored="bf16", draft_stored="bf16"), {}, "bf16"),
        (pretend.tensors(stored="int8", draft_stored="int8"), {}, "int8"),
        (without(pretend.tensors(draft=0), ".scale"), {**PREVIEW, "num_nextn_predict_layers": 0}, "int8"),
        ({**pretend.tensors(), **pretend.block("layers.1", 4, "bf16")}, {}, "bf16+mxfp4"),
        (without(pretend.tensors(), ".experts."), {}, None),
        (
            {"model.layers.0.mlp.experts.gate_up_proj": ("BF16", (4, 8, 8))},
            {"num_nextn_predict_layers": 0},
            "bf16",
        ),
    ],
)
def test_how_experts_are_stored(made, changes, experts):
    assert structure(made, **changes).experts == experts


def test_draft_layers_behind_the_last_one():
    """As DeepSeek-V3 and its conversions number them."""
    made = {
        f"model.{name}".replace("mtp.0", "layers.2"): tensor
        for name, tensor in pretend.tensors(draft=1).items()
    }
    assert structure(without(made, "markov"), **PREVIEW).draft == Draft("mtp", None, 1, (), "mxfp4")


@pytest.mark.parametrize(
    ("made", "changes", "ids", "evidence"),
    [
        (pretend.tensors(), {}, [], ""),
        (
            pretend.tensors(),
            {"text_config": {"n_routed_experts": 5}, "n_routed_experts": None},
            ["checkpoint.experts.missing", "checkpoint.draft.incomplete"],
            "layers.0.ffn has 4 of 5 experts",
        ),
        (
            without(pretend.tensors(), "layers.1.ffn.experts.3."),
            {},
            ["checkpoint.experts.missing"],
            "layers.1.ffn has 3 of 4 experts",
        ),
        (
            without(pretend.tensors(), "mtp.2.ffn.experts.0."),
            {},
            ["checkpoint.draft.incomplete"],
            "mtp.2.ffn has 3 of 4 experts",
        ),
        (
            without(pretend.tensors(), *(f"mtp.{n}.ffn.experts" for n in range(3))),
            {},
            ["checkpoint.draft.incomplete"],
            "the draft has no experts",
        ),
        (without(pretend.tensors(), "mtp.1."), {}, ["checkpoint.draft.incomplete"], "mtp.1 is missing"),
        (
            without(pretend.tensors(), "markov"),
            {},
            ["checkpoint.draft.incomplete"],
            "a Markov head is missing",
        ),
        (pretend.tensors(draft=0), {}, ["checkpoint.draft.gone"], "dspark_block_size 5"),
        (pretend.tensors(draft=0), PREVIEW, ["checkpoint.draft.gone"], "num_nextn_predict_layers 1"),
        (pretend.tensors(), PREVIEW, ["checkpoint.draft.unsized"], "markov_head"),
        (pretend.tensors(draft_stored="bf16"), {}, ["checkpoint.draft.requantised"], ""),
        ({f"mtp.{'9' * 5000}.x": ("BF16", (1,))}, {"num_nextn_predict_layers": "1", **PREVIEW}, [], ""),
    ],
)  # one row a line
def test_what_is_left_out_is_named(made, changes, ids, evidence):
    found = structure(made, **changes)
    assert [note.id for note in found.findings] == ids
    assert evidence in "".join(note.evidence for note in found.findings)


@pytest.mark.parametrize(
    ("expected", "ids"),
    [
        ({}, []),
        ({"shards": None, "bytes": None, "draft": None}, []),
        ({"shards": 3, "draft": {"method": "dspark", "block_size": 5}}, []),
        ({"shards": 48}, ["checkpoint.kind.differs"]),
        ({"bytes": 166886535336}, ["checkpoint.kind.differs"]),
        ({"bytes": 189_500}, []),  # 188,750 and the headers of another tool
        ({"draft": {"method": "mtp", "block_size": None}}, ["checkpoint.draft.differs"]),
        ({"draft": {"method": "dspark", "block_size": 7}}, ["checkpoint.draft.differs"]),
    ],
)
def test_look_alikes_are_told_apart(tmp_path, expected, ids):
    found = read(pretend.write(tmp_path / "m", pretend.tensors()))
    assert [note.id for note in kind_findings(found, expected)] == ids


def test_a_profile_of_0731_over_the_preview(tmp_path):
    preview = pretend.write(
        tmp_path / "m", pretend.tensors(draft=1, markov=False), shards=2, settings=pretend.config(**PREVIEW)
    )
    expected = {"shards": 48, "draft": {"method": "dspark", "block_size": 5}}
    kind, draft = kind_findings(read(preview), expected)
    assert kind.summary.endswith("2 shards, wanted 48 shards")
    assert "carry the draft mtp, the profile wants the draft dspark for blocks of 5" in draft.summary
