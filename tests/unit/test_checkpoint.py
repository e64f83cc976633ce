# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint folder, whole and damaged."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint import (
    CheckpointError,
    file_findings,
    read,
)


def shard(dtype="BF16", size=4, cut=0, length=None, name="a"):
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            name: {"dtype": dtype, "shape": [size // 2], "data_offsets": [0, size]},
        }
    ).encode()
    content = (len(header) if length is None else length).to_bytes(8, "little") + header + bytes(size)
    return content[: len(content) - cut]


def headed(text):
    return len(text).to_bytes(8, "little") + text.encode() + b"xx"


NOT_TENSORS = (
    '{"a":[1]}',
    '{"a":{"dtype":"I8"}}',
    '{"a":{"data_offsets":[0,2]}}',
    '{"a":{"dtype":"I8","data_offsets":[0]}}',
    '{"a":{"dtype":"I8","data_offsets":["0","x"]}}',
    '{"a":{"dtype":"I8","data_offsets":[0,1e999]}}',
    '{"a":{"dtype":["I8"],"data_offsets":[0,2]}}',
    '{"a":{"dtype":null,"data_offsets":[0,2]}}',
    '{"a":{"dtype":"I8","data_offsets":[0,2]}}',
    '{"a":{"dtype":"I8","data_offsets":[0,2],"shape":2}}',
    '{"a":{"dtype":"I8","data_offsets":[0,2],"shape":["2"]}}',
    "[" * 60_000,
)


def folder(path, shards, index=None):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"architectures": ["LabForCausalLM"]}))
    for name, content in shards.items():
        (path / name).write_bytes(content)
    if index:
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return path


def test_a_whole_folder(tmp_path):
    shards = {"model-1.safetensors": shard(), "model-2.safetensors": shard("I8", 6, name="b")}
    found = read(folder(tmp_path / "m", shards, {"a": "model-1.safetensors", "b": "model-2.safetensors"}))
    assert (found.model, found.expected, found.present, found.bad) == ("LabForCausalLM", 2, 2, [])
    assert found.dtypes == {"BF16": 1, "I8": 1} and found.bytes == sum(map(len, shards.values()))


def test_one_file_needs_no_index(tmp_path):
    found = read(folder(tmp_path / "m", {"model.safetensors": shard()}))
    assert (found.expected, found.present, found.bad) == (1, 1, [])


@pytest.mark.parametrize(
    ("content", "problem", "why"),
    [
        (None, "missing", "missing"),
        (b"", "truncated", "no safetensors header"),
        (b"\x00" * 7, "truncated", "no safetensors header"),
        (shard(cut=2), "truncated", "its header wants"),
        (shard()[:20], "truncated", "no safetensors header"),
        (shard(length=2**62), "corrupt", "no safetensors header"),
        (shard() + b"x", "corrupt", "its header wants"),
        (shard(name="c"), "other_revision", "(1, such as a)"),
        ((20).to_bytes(8, "little") + b"not json, but enough", "corrupt", "damaged"),
        *((headed(text), "corrupt", "damaged") for text in NOT_TENSORS),
    ],
)
def test_a_damaged_shard_is_named(tmp_path, content, problem, why):
    shards = {} if content is None else {"s.safetensors": content}
    found = read(folder(tmp_path / "m", shards, {"a": "s.safetensors"}))
    (bad,) = found.bad
    assert (bad.file, bad.problem) == ("s.safetensors", problem)
    assert "s.safetensors" in bad.said and why in bad.said


def test_the_revision_is_that_of_the_content(tmp_path):
    same = [read(folder(tmp_path / name, {"model.safetensors": shard()})).revision for name in "ab"]
    others = [
        read(folder(tmp_path / name, content)).revision
        for name, content in (
            ("c", {"model.safetensors": shard("F16")}),
            ("d", {"other.safetensors": shard()}),
        )
    ]
    assert same[0] == same[1] and len({same[0], *others}) == 3


def test_what_the_index_does_not_name_is_extra(tmp_path):
    found = read(
        folder(tmp_path / "m", {"s.safetensors": shard(), "old.safetensors": b""}, {"a": "s.safetensors"})
    )
    assert (found.bad, found.extra) == ([], ["old.safetensors"])
    assert [note.id for note in file_findings(found.bad, found.extra)] == ["checkpoint.shard.extra"]


def test_a_cache_of_the_hub_says_where_its_checkpoint_is(tmp_path):
    """All blobs are there and refs/main is not: an engine that is offline finds nothing by the model's name."""
    snapshot = tmp_path / "models--x--y" / "snapshots" / "9e165c"
    snapshot.parent.mkdir(parents=True)
    folder(snapshot, {"model.safetensors": shard()})
    with pytest.raises(CheckpointError, match=f"the checkpoint in it is {snapshot}"):
        read(tmp_path / "models--x--y")


@pytest.mark.parametrize("weight_map", [None, [], {}, {"a": 1}, {"a": ["s"]}, {"a": "../s"}, {"a": "/s"}])
def test_an_index_that_names_no_files(tmp_path, weight_map):
    path = folder(tmp_path / "m", {"s": shard()})
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match="weight_map"):
        read(path)


@pytest.mark.parametrize("architectures", [None, [], 5, {"a": 1}])
def test_a_model_without_a_name_is_unknown(tmp_path, architectures):
    path = folder(tmp_path / "m", {"model.safetensors": shard()})
    (path / "config.json").write_text(json.dumps({"architectures": architectures}))
    assert read(path).model is None


@pytest.mark.parametrize("text", [None, "{", "[]", "[" * 60_000])
def test_a_folder_that_is_no_checkpoint(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        read(tmp_path)
