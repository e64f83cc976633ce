# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint folder as its safetensors headers describe it; no weight is read.

Format: https://huggingface.co/docs/safetensors (8 bytes little-endian header length, JSON header, data).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# A header names every tensor of a shard; the largest known is under 1 MiB. More is a damaged length field.
MAX_HEADER_BYTES = 100 << 20


class CheckpointError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass
class Checkpoint:
    """`bad` has a sentence for each shard that cannot be used; `revision` is equal for equal folders."""

    model: str | None = None
    expected: int = 0
    present: int = 0
    bad: list[str] = field(default_factory=list)
    dtypes: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    revision: str = ""


def _read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} cannot be read as JSON: {error}. Copy the checkpoint again."
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object. Copy the checkpoint again.")
    return content


def _shards(index: Path) -> list[str]:
    """The file names that an index gives to its tensors."""
    weight_map = _read_json(index).get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else ()
    if not names or not all(isinstance(name, str) and name == os.path.basename(name) for name in names):
        raise CheckpointError(f"{index} has no weight_map from tensors to files. Copy the checkpoint again.")
    return sorted(set(names))


def _header(path: Path) -> tuple[bytes, Counter[str]]:
    """The raw header of one shard and its tensors' types; CheckpointError says why it cannot be used."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
            raise CheckpointError(f"{path.name} has {size} bytes and no safetensors header")
        raw = stream.read(length)
    try:
        tensors = [entry for name, entry in json.loads(raw).items() if name != "__metadata__"]
        end = max((int(entry["data_offsets"][1]) for entry in tensors), default=0)
        dtypes = Counter(entry["dtype"] for entry in tensors)
        ",".join(dtypes)  # they are words
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise CheckpointError(f"{path.name} has a damaged safetensors header") from None
    if size != 8 + length + end:
        raise CheckpointError(f"{path.name} has {size} bytes, its header wants {8 + length + end}")
    return raw, dtypes


def read(path: Path) -> Checkpoint:
    """Reads config, index and the header of every shard.

    Raises CheckpointError where the folder is no checkpoint at all; a shard that cannot be used is in `bad`.
    """
    if not (path / "config.json").is_file():
        raise CheckpointError(
            f"{path} holds no config.json. Put the checkpoint there on every rank, or set tandem_checkpoint_path."
        )
    config = _read_json(path / "config.json")
    index = path / "model.safetensors.index.json"
    if index.is_file():
        names = _shards(index)
    else:
        names = sorted(shard.name for shard in path.glob("*.safetensors")) or ["model.safetensors"]
    architectures = config.get("architectures")
    model = str(architectures[0]) if isinstance(architectures, list) and architectures else None
    found = Checkpoint(model, expected=len(names))
    digest, dtypes = hashlib.sha256(), Counter()
    for extra in ("config.json", "tokenizer.json", "model.safetensors.index.json"):
        if (path / extra).is_file():
            digest.update((path / extra).read_bytes())
    for name in names:
        shard = path / name
        if not shard.is_file():
            found.bad.append(f"{name} is missing")
            continue
        found.present += 1
        try:
            raw, types = _header(shard)
        except CheckpointError as error:
            found.bad.append(str(error))
            continue
        except OSError as error:
            found.bad.append(f"{name} cannot be read ({error.strerror})")
            continue
        digest.update(f"{name} {shard.stat().st_size}\n".encode() + raw)
        found.bytes += shard.stat().st_size
        dtypes += types
    found.dtypes = dict(sorted(dtypes.items()))
    found.revision = digest.hexdigest()[:16]
    return found
