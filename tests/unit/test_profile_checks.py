# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engine, checkpoint, flags and driver of a profile fit together, or a finding says which does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils import profile as profiles
from ansible_collections.tandem.spark.plugins.plugin_utils.profile_checks import (
    check,
    read_flags,
    swa_index_width,
    tokens,
    vllm_release,
)

FILES = Path(__file__).parents[2] / "roles" / "profile" / "files"
FOLDER, FLAGS = FILES / "profiles", FILES / "flags"
SCHEMA = yaml.safe_load((FILES / "profile_schema.yml").read_text())
NAMES = profiles.names(FOLDER)


def loaded(name: str = "v4-flash-next", **overrides) -> dict:
    return profiles.load(name, FOLDER, overrides, SCHEMA)


def found(profile: dict, driver: str | None = "580.142") -> list:
    nodes = {"spark-a": {"gpu": {"driver": driver}}, "spark-b": None}
    return list(check(profile, nodes, FLAGS, profiles.runnable(FOLDER)))


def flags(**values) -> dict:
    return {"engine": {"flags": {name.replace("_", "-"): value for name, value in values.items()}}}


def speculative(**values) -> dict:
    return flags(speculative_config=values)


def rule(k_rule: str, k: int) -> dict:
    return {"speculation": {"k_rule": k_rule}, **speculative(num_speculative_tokens=k)}


@pytest.mark.parametrize("name", NAMES)
def test_what_ships_has_no_fault_but_that_it_cannot_be_run_yet(name):
    profile = loaded(name)
    errors = [note.id for note in found(profile) if note.severity == "error"]
    wanted = ["profile.not_runnable"] if "not_runnable" in profile else []
    # No source tells the whole digest of its image, so whoever takes the profile names it.
    wanted += ["container.image.digest"] if profile["runtime"]["kind"] == "container" else []
    assert errors == wanted


def test_what_cannot_be_run_yet_is_refused_with_its_own_sentence():
    profile = loaded("v4-flash-next", not_runnable="there is no such machine")
    (note,) = [note for note in found(profile) if note.severity == "error"]
    assert note.summary.endswith(profile["not_runnable"])
    assert "v4-flash-next" in note.remedy


DIGEST = "sha256:08241111" + "0" * 56


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ({"digest": DIGEST}, []),
        ({}, ["container.image.digest"]),
        ({"digest": "sha256:" + "1" * 64}, ["container.image.digest_other"]),
        ({"digest": "sha256:" + "1" * 64, "digest_begins": None}, []),
        ({"digest": DIGEST[:-1]}, ["container.image.digest_other"]),
        ({"digest": "08241111", "digest_begins": None}, ["container.image.digest_other"]),
    ],
)
def test_an_image_is_named_by_what_is_in_it(image, wanted):
    profile = loaded("v4-flash-384k-container", runtime={"image": image})
    assert [note.id for note in found(profile) if note.severity == "error"] == wanted


def test_the_message_for_a_missing_digest_says_how_it_begins():
    (note,) = [note for note in found(loaded("v4-flash-384k-container")) if note.severity == "error"]
    assert "sha256:08241111" in note.remedy and "hazyumps/deepseek-v4-flash-gb10:" in note.summary


@pytest.mark.parametrize(
    ("driver", "wanted"), [("580.142", []), ("580.159.03", ["profile.driver.required"]), (None, [])]
)
def test_a_profile_may_be_of_one_driver_alone(driver, wanted):
    profile = loaded("v4-flash-preview-container", runtime={"image": {"digest": DIGEST}})
    notes = [note for note in found(profile, driver) if note.severity == "error"]
    assert [note.id for note in notes] == wanted
    assert all("tandem_driver_version=580.142" in note.remedy for note in notes)


def test_ray_wants_one_python_to_its_last_number():
    profile = loaded(rendezvous="ray", **flags(distributed_executor_backend="ray"))
    nodes = {host: {"python": {"version": version}} for host, version in (("a", "3.12.3"), ("b", "3.12.7"))}
    notes = list(check(profile, nodes, FLAGS, profiles.runnable(FOLDER)))
    (note,) = [note for note in notes if note.severity == "error"]
    assert note.id == "profile.ray.python" and "a: 3.12.3, b: 3.12.7" in note.summary
    nodes["b"] = nodes["a"]
    assert not [note for note in check(profile, nodes, FLAGS, []) if note.severity == "error"]


def test_what_is_built_can_be_planned_by_who_wants_to_try_it():
    tried = {"not_runnable": None}
    assert [
        note.id for note in found(loaded("v4-flash", **tried), "595.84") if note.severity == "error"
    ] == []
    broken = {**tried, "runtime": {"build": {"sources": {"deepgemm": {"revision": "main"}}}}}
    (note,) = [note for note in found(loaded("v4-flash", **broken), "595.84") if note.severity == "error"]
    assert note.id == "build.plan.wrong" and "sources.deepgemm.revision is 'main'" in note.summary


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({}, []),
        # ranks and how they find each other
        ({"tensor_parallel_size": 3}, ["profile.ranks.heads"]),
        ({"tensor_parallel_size": 0}, ["profile.ranks.heads"]),
        ({"tensor_parallel_size": 4}, []),
        (flags(distributed_executor_backend="ray"), ["profile.ray.nnodes"]),
        ({"tensor_parallel_size": 1, **flags(distributed_executor_backend="ray")}, []),
        ({"rendezvous": "ray"}, ["profile.ray.backend"]),
        ({"rendezvous": "ray", **flags(distributed_executor_backend="ray")}, []),
        (
            {
                "rendezvous": "ray",
                "engine": {
                    "flags": {"distributed-executor-backend": "ray"},
                    "environment": {"RAY_memory_monitor_refresh_ms": 250},
                },
            },
            ["profile.ray.memory_monitor"],
        ),
        (
            {
                "rendezvous": "ray",
                "runtime": {
                    "kind": "container",
                    "image": {"name": "x:1", "digest": "sha256:" + "0" * 64, "licence": "MIT"},
                },
                **flags(distributed_executor_backend="ray"),
            },
            ["profile.ray.container"],
        ),
        # the draft
        (flags(speculative_config=None), []),
        (flags(speculative_config="five"), ["profile.speculation.unreadable"]),
        (flags(speculative_config=[1]), ["profile.speculation.unreadable"]),
        (speculative(method=None), ["profile.speculation.unreadable"]),
        (flags(speculative_config='{"method": "dspark", "num_speculative_tokens": 5}'), []),
        (speculative(method="mtp"), ["profile.speculation.method"]),
        (speculative(method="deepseek_mtp"), ["profile.speculation.method"]),
        (speculative(method="ngram"), ["profile.speculation.method"]),
        (speculative(method="eagle3", model="/srv/models/draft"), []),
        ({"checkpoint": {"draft": None}}, ["profile.speculation.method"]),
        ({"checkpoint": {"draft": None}, **speculative(method="ngram")}, []),
        ({"checkpoint": {"draft": {"method": "mtp"}}, **speculative(method="deepseek_mtp")}, []),
        # its length
        (speculative(num_speculative_tokens=None), ["profile.speculation.k_missing"]),
        (speculative(num_speculative_tokens=0), ["profile.speculation.k"]),
        (speculative(num_speculative_tokens="five"), ["profile.speculation.k"]),
        (speculative(num_speculative_tokens=True), ["profile.speculation.k"]),
        (rule("any", 7), ["profile.speculation.k_unusual"]),
        (rule("any", 3), ["profile.speculation.k_unusual"]),
        (rule("at_least_block", 5), []),
        (rule("at_least_block", 4), ["profile.speculation.k"]),
        (rule("at_least_block", 7), ["profile.speculation.k_unusual"]),
        (rule("equals_block", 5), []),
        (rule("equals_block", 7), ["profile.speculation.k"]),
        # FlashInfer, at (32, 192)
        ({"runtime": {"pins": {"flashinfer-python": "0.6.17"}}}, ["profile.speculation.top_k"]),
        ({"runtime": {"pins": {"flashinfer-python": "0.6.16.post3"}}}, ["profile.speculation.top_k"]),
        ({"runtime": {"pins": {"flashinfer-python": "0.6.18.dev20260807"}}}, ["profile.speculation.top_k"]),
        ({"runtime": {"pins": {"flashinfer-python": "0.6.18.dev20260811"}}}, []),
        ({"runtime": {"pins": {"flashinfer-python": "0.6.18"}}}, []),
        ({"runtime": {"pins": {"flashinfer-python": "0.6.17"}}, **flags(speculative_config=None)}, []),
        ({"runtime": {"pins": {"flashinfer-python": "of a checkout"}}}, []),
        (
            {"runtime": {"pins": {"flashinfer-python": "0.6.18"}}, **rule("any", 200)},
            ["profile.speculation.k_unusual", "profile.speculation.top_k"],
        ),
        # cache and context
        (flags(kv_cache_dtype="bfloat16"), ["profile.kv_cache.dtype"]),
        (flags(kv_cache_dtype="nvfp4_ds_mla"), ["profile.kv_cache.dtype"]),
        (flags(kv_cache_dtype="auto"), []),
        (flags(kv_cache_dtype=None), []),
        (flags(max_model_len=1572864), ["profile.context.too_long"]),
        (flags(max_model_len=1048576), []),
        (flags(max_model_len="1M"), []),
        (flags(max_model_len="2m"), ["profile.context.too_long"]),
        (flags(max_model_len="auto"), []),
        (flags(max_model_len="long"), ["profile.context.unreadable"]),
        # what the checkpoint needs
        (flags(tokenizer_mode="auto"), ["profile.flag.needed"]),
        (flags(reasoning_parser=None, tokenizer_mode=None), ["profile.flag.needed"] * 2),
        # what the release knows
        (flags(swap_space=4), ["profile.flag.unknown"]),
        (flags(max_num_seq=4), ["profile.flag.unknown"]),
        (flags(calculate_kv_scales=True), ["profile.flag.unknown"]),
        (flags(enable_prefix_caching="yes"), ["profile.flag.kind"]),
        (flags(enable_prefix_caching=False), []),
        (flags(max_num_batched_tokens=True), ["profile.flag.kind"]),
        ({"runtime": {"pins": {"vllm": "0.31.0"}}, **flags(swap_space=4)}, ["profile.flag.unchecked"]),
        ({"runtime": {"pins": {"vllm": "../0.33.0"}}}, ["profile.flag.unchecked"]),
        ({"runtime": {"pins": {"vllm": None}}}, ["profile.flag.unchecked"]),
        # graphs
        (flags(max_num_seqs=4), ["profile.graphs.sequences"]),
        (flags(max_num_seqs=16, compilation_config={"cudagraph_mode": "NONE"}), []),
        (
            flags(max_num_seqs=16, compilation_config={"cudagraph_mode": "PIECEWISE"}),
            ["profile.graphs.sequences"],
        ),
        (flags(max_num_seqs=16, enforce_eager=True), []),
        # all at once
        (
            {"tensor_parallel_size": 5, **flags(kv_cache_dtype="fp16", swap_space=1, max_model_len=2000000)},
            [
                "profile.context.too_long",
                "profile.flag.unknown",
                "profile.kv_cache.dtype",
                "profile.ranks.heads",
            ],
        ),
    ],
)  # one row a line
def test_each_fault_is_found(overrides, wanted):
    assert sorted(note.id for note in found(loaded(**overrides))) == wanted


@pytest.mark.parametrize(
    ("toolkit", "driver", "wanted"),
    [
        ("13.0", "580.142", []),
        ("13.2", "595.84", []),
        ("13.2", "610.43.02", []),
        ("13.2", "580.173.02", ["profile.toolkit.newer"]),
        ("13.1", "580.142", ["profile.toolkit.newer"]),
        ("13.2", "570.86", ["profile.toolkit.driver"]),
        ("13.0", None, []),
        ("13.9", "580.142", []),
        (None, "470.1", []),
    ],
)
def test_the_toolkit_against_the_driver(toolkit, driver, wanted):
    notes = found(loaded(runtime={"cuda_toolkit": toolkit}), driver)
    assert [note.id for note in notes] == wanted
    assert all(note.hosts == ("spark-a",) for note in notes)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (flags(max_num_seq=4), "max-num-seqs"),
        (speculative(num_speculative_tokens=None), "to 5, the block of its draft"),
        (rule("equals_block", 7), "Set num_speculative_tokens to 5"),
        (speculative(method="mtp"), "Set the method to dspark"),
        (flags(max_model_len=1572864), "Set max-model-len to 1048576"),
    ],
)
def test_the_remedy_names_what_to_write(overrides, words):
    (note,) = found(loaded(**overrides))
    assert words in note.remedy


@pytest.mark.parametrize(
    ("window", "k", "width"),
    [(128, 0, 128), (128, 1, 192), (128, 5, 192), (128, 64, 192), (128, 65, 256), (0, 0, 0)],
)
def test_the_width_of_the_draft(window, k, width):
    assert swa_index_width(window, k) == width


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (393216, 393216),
        ("384k", 384000),
        ("384K", 393216),
        ("1m", 1000000),
        ("1.5k", 1500),
        ("auto", None),
        (-1, None),
    ],
)
def test_a_length_as_vllm_reads_it(written, read):
    assert tokens(written) == read


@pytest.mark.parametrize("written", ["", "long", "1.5K", "-5", True, 1.5, [1], "12x"])
def test_what_is_no_length(written):
    with pytest.raises(ValueError):
        tokens(written)


@pytest.mark.parametrize("file", sorted(FLAGS.glob("*.txt")), ids=lambda file: file.stem)
def test_a_list_of_flags_can_be_read(file):
    known = read_flags(file.read_text())
    assert set(known.values()) == {"value", "either", "on", "switch"}
    assert known["max-model-len"] == "value" and known["enable-prefix-caching"] == "switch"
    assert len(known) > 200


# Whose parser was not asked yet for its flags: `make flags` wants the release itself.
UNASKED = ["v4-flash-main-ray"]
RUN_HERE = [name for name in NAMES if name in profiles.runnable(FOLDER) and name not in UNASKED]


@pytest.mark.parametrize("name", [name for name in RUN_HERE if loaded(name)["runtime"]["kind"] == "wheels"])
def test_the_flags_of_what_can_be_run_are_known(name):
    assert (FLAGS / f"vllm-{vllm_release(loaded(name))}.txt").is_file()
