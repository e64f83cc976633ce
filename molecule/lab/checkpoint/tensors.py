# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bfloat16 tensors and the safetensors file that holds them, with nothing but the standard library."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path


def bfloat16(number: float) -> bytes:
    """Little-endian, rounded to nearest, ties to even, by way of float32 as PyTorch does it."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


class Tensor:
    """Zeros of a given shape; single elements are set by their place: tensor[row, column] = 1.0."""

    def __init__(self, *shape: int):
        self.shape = shape
        self.data = bytearray(2 * math.prod(shape))

    def __setitem__(self, place: int | tuple[int, ...], number: float) -> None:
        index = 0
        for size, position in zip(self.shape, place if isinstance(place, tuple) else (place,), strict=True):
            if not 0 <= position < size:
                raise IndexError(f"{place} in a tensor of {self.shape}")
            index = index * size + position
        self.data[2 * index : 2 * index + 2] = bfloat16(number)


def save(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file: the length of the header, the header in JSON padded to 8 bytes, the data."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        end = offset + len(tensors[name].data)
        header[name] = {"dtype": "BF16", "shape": tensors[name].shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].data)
