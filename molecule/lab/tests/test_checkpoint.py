# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoints are, byte for byte, those that were measured with a real vLLM."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

import access
import pytest
import settings
import yaml
from checkpoint.tensors import bfloat16
from models import MAKER, VARIANTS

# Of what the first version of the maker wrote, with torch 2.13, tokenizers 0.23.3 and transformers 5.24.
DIGESTS = {
    "lab": {
        "chat_template.jinja": "67f58e90cc6c78e0",
        "config.json": "3c34f7cd3948c6fd",
        "generation_config.json": "2c3233281281b933",
        "model.safetensors": "0c7c24edfffc9276",
        "tokenizer.json": "4728b24f9ca799dd",
        "tokenizer_config.json": "120d48a92f0d8b26",
    },
    "lab-count": {"model.safetensors": "79bdb7ae11aa95bc"},
    "lab-loop": {"model.safetensors": "d28a7ba2ec52532d"},
    "lab-wrong": {"model.safetensors": "42c4e551b02568e4"},
    # Not of those: see below.
    "lab-8-heads": {
        "config.json": "81b67ff9e54e2e55",
        "model.safetensors": "eedfba3908b908fe",
        "tokenizer.json": "4728b24f9ca799dd",
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_bytes_every_time(variant, tmp_path):
    subprocess.run([sys.executable, MAKER, tmp_path, *VARIANTS[variant]], check=True, cwd=settings.HERE)
    for name, digest in DIGESTS[variant].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest().startswith(digest), name


def rows_of(folder: Path) -> dict[str, list[bytes]]:
    """The rows of every tensor of a checkpoint."""
    blob = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    header, data = json.loads(blob[8 : 8 + size]), blob[8 + size :]
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            width = (end - start) // entry["shape"][0]
            found[name] = [data[at : at + width] for at in range(start, end, width)]
    return found


def test_more_heads_say_nothing_more(tmp_path):
    """Eight heads, so that four ranks can share them: the six of before, and two whose weights are zero."""
    for variant in ("lab", "lab-8-heads"):
        command = [sys.executable, MAKER, tmp_path / variant, *VARIANTS[variant]]
        subprocess.run(command, check=True, cwd=settings.HERE)
    six, eight = rows_of(tmp_path / "lab"), rows_of(tmp_path / "lab-8-heads")
    assert six.keys() == eight.keys()
    for name, rows in six.items():
        more = eight[name]
        if name.endswith("o_proj.weight"):
            kept = len(rows[0])
            assert [row[:kept] for row in more] == rows, name
            assert not any(any(row[kept:]) for row in more) and len(more[0]) == kept * 8 // 6
        else:
            assert more[: len(rows)] == rows, name
            assert not any(map(any, more[len(rows) :])), name
    config = json.loads((tmp_path / "lab-8-heads" / "config.json").read_text())
    sizes = [
        config[key]
        for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size")
    ]
    assert [size % 4 for size in sizes] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("ranks", "checkpoint", "size"), [(1, "lab", 1), (2, "lab", None), (4, "lab-8-heads", 4)]
)
def test_the_inventory_serves_what_so_many_ranks_can_share(ranks, checkpoint, size):
    said = yaml.safe_load(access.serving(ranks))
    assert said["tandem_checkpoint_path"] == f"/srv/models/{checkpoint}" and checkpoint in VARIANTS
    own = said.get("tandem_profiles", {}).get(said["tandem_profile"], {})
    assert own.get("tensor_parallel_size") == size
    assert (said["tandem_profile"] == "rehearsal") == (ranks == 2)


@pytest.mark.parametrize(
    ("number", "little_endian"),
    [
        (0.0, "0000"),
        (1.0, "803f"),
        (-2.0, "00c0"),
        (350.0, "af43"),
        (1.00390625, "803f"),  # half way: to the even neighbour, down
        (1.01171875, "823f"),  # half way: to the even neighbour, up
        (1.0039064, "813f"),  # a little above half way
    ],
)
def test_numbers_are_rounded_to_the_nearest_even(number, little_endian):
    assert bfloat16(number).hex() == little_endian
