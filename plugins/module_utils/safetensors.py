# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of one safetensors file; no weight is read.

Format: https://huggingface.co/docs/safetensors (8 bytes little-endian header length, JSON header, data).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

# A header names every tensor of a shard; the largest known is under 1 MiB. More is a damaged length field.
MAX_HEADER_BYTES = 100 << 20


class HeaderError(Exception):
    """Why a file cannot be used. `truncated`: it is shorter than its header says."""

    def __init__(self, text: str, truncated: bool = False):
        super().__init__(text)
        self.truncated = truncated


class Tensor(NamedTuple):
    """dtype as the file spells it (BF16, F8_E4M3, F8_E8M0, I8 …); shape in elements of that type."""

    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> tuple[bytes, dict[str, Tensor]]:
    """The raw header and its tensors by name.

    Raises HeaderError where the file is damaged or not as long as its header says, OSError where it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or not 2 <= length <= MAX_HEADER_BYTES:
            raise HeaderError(f"{size} bytes and no safetensors header", truncated=size < 8)
        if length > size - 8:
            raise HeaderError(f"{size} bytes, and no safetensors header of {length} in them", truncated=True)
        raw = stream.read(length)
    try:
        entries = json.loads(raw)
        entries.pop("__metadata__", None)
        end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        tensors = {name: Tensor(entry["dtype"], tuple(entry["shape"])) for name, entry in entries.items()}
        ",".join({tensor.dtype for tensor in tensors.values()})  # they are words,
        sum(sum(tensor.shape) for tensor in tensors.values())  # and these are numbers
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise HeaderError("a damaged safetensors header") from None
    if size != 8 + length + end:
        raise HeaderError(
            f"{size} bytes, its header wants {8 + length + end}", truncated=size < 8 + length + end
        )
    return raw, tensors
