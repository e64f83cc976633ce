# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoints are, byte for byte, those that were measured with a real vLLM."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
import settings
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
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_bytes_every_time(variant, tmp_path):
    subprocess.run([sys.executable, MAKER, tmp_path, *VARIANTS[variant]], check=True, cwd=settings.HERE)
    for name, digest in DIGESTS[variant].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest().startswith(digest), name


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
