# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint folder as its safetensors headers describe it; no weight is read."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import checkpoint_structure
from .checkpoint_manifest import Bad
from .findings import Finding, finding
from .safetensors import HeaderError, Tensor, read_header

INDEX = "model.safetensors.index.json"
SAME_SIZE = {"bytes": 0.01}


class CheckpointError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass
class Checkpoint:
    """`bad` has an entry for each shard that cannot be used; `revision` is equal for equal folders.

    extra: files of weights that the index does not name. experts, draft: see checkpoint_structure. notes: findings
    about the structure, empty while a shard is bad, since what it holds is unknown.
    """

    model: str | None = None
    expected: int = 0
    present: int = 0
    bad: list[Bad] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    dtypes: dict[str, int] = field(default_factory=dict)
    experts: str | None = None
    draft: checkpoint_structure.Draft | None = None
    notes: tuple[Finding, ...] = ()
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


def _shards(index: Path) -> dict[str, list[str]]:
    """{file: its tensors}, as an index says."""
    weight_map = _read_json(index).get("weight_map")
    shards = defaultdict(list)
    for tensor, name in weight_map.items() if isinstance(weight_map, dict) else ():
        shards[name if isinstance(name, str) else ""].append(tensor)
    if not shards or not all(name and name == os.path.basename(name) for name in shards):
        raise CheckpointError(f"{index} has no weight_map from tensors to files. Copy the checkpoint again.")
    return dict(sorted(shards.items()))


def _no_config(path: Path) -> str:
    snapshots = sorted(each for each in path.glob("snapshots/*") if (each / "config.json").is_file())
    if snapshots:
        return (
            f"{path} is a folder of a Hugging Face cache, the checkpoint in it is {snapshots[-1]}. "
            "Set tandem_checkpoint_path to that; a missing refs/main does not matter then."
        )
    return (
        f"{path} holds no config.json, and no other rank has it. Set tandem_checkpoint_source to hub or to a folder "
        "that has the weights (docs/weights.md), put them there, or correct tandem_checkpoint_path."
    )


def read(path: Path) -> Checkpoint:
    """Reads config, index and the header of every shard.

    Raises CheckpointError where the folder is no checkpoint at all; a shard that cannot be used is in `bad`.
    """
    if not (path / "config.json").is_file():
        raise CheckpointError(_no_config(path))
    config = _read_json(path / "config.json")
    there = sorted(shard.name for shard in path.glob("*.safetensors"))
    if (path / INDEX).is_file():
        shards = _shards(path / INDEX)
    else:
        shards = {name: [] for name in there or ["model.safetensors"]}
    architectures = config.get("architectures")
    model = str(architectures[0]) if isinstance(architectures, list) and architectures else None
    found = Checkpoint(model, expected=len(shards), extra=[name for name in there if name not in shards])
    digest, tensors = hashlib.sha256(), {}
    for extra in ("config.json", "tokenizer.json", INDEX):
        if (path / extra).is_file():
            digest.update((path / extra).read_bytes())
    for name, wanted in shards.items():
        if not (path / name).is_file():
            found.bad.append(Bad(name, "missing", f"{name} is missing"))
            continue
        found.present += 1
        raw, inside, bad = _shard(path / name, wanted)
        if bad:
            found.bad.append(bad)
            continue
        size = (path / name).stat().st_size
        digest.update(f"{name} {size}\n".encode() + raw)
        found.bytes += size
        tensors.update(inside)
    found.dtypes = dict(sorted(Counter(tensor.dtype for tensor in tensors.values()).items()))
    structure = checkpoint_structure.of(config, tensors)
    found.experts, found.draft = structure.experts, structure.draft
    found.notes = () if found.bad else structure.findings
    found.revision = digest.hexdigest()[:16]
    return found


def _shard(path: Path, wanted: Iterable[str]) -> tuple[bytes, dict[str, Tensor], Bad | None]:
    """The raw header of a shard, its tensors, and why it cannot be used."""
    try:
        raw, tensors = read_header(path)
    except HeaderError as error:
        problem = "truncated" if error.truncated else "corrupt"
        return b"", {}, Bad(path.name, problem, f"{path.name} has {error}")
    except OSError as error:
        return b"", {}, Bad(path.name, "unreadable", f"{path.name} cannot be read ({error.strerror})")
    if lost := [name for name in wanted if name not in tensors]:
        said = f"{path.name} has not the tensors that the index names in it ({len(lost)}, such as {lost[0]})"
        return raw, tensors, Bad(path.name, "other_revision", said)
    return raw, tensors, None


def file_findings(bad: Iterable[Bad], extra: Iterable[str]) -> Iterator[Finding]:
    """A finding for each kind of problem, with the files in its evidence."""
    said = defaultdict(list)
    for each in bad:
        said[each.problem].append(each.said)
    for problem, sentences in sorted(said.items()):
        yield finding(f"checkpoint.shard.{problem}", evidence="; ".join(sentences))
    if names := list(extra):
        yield finding("checkpoint.shard.extra", evidence=", ".join(names))


def kind_findings(found: Checkpoint, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """What was found against what a profile says: shards, bytes, draft {method, block_size}; None is not compared."""
    if found.bad:
        return
    wanted = {key: expected[key] for key in ("shards", "bytes") if expected.get(key) is not None}
    seen = {key: {"shards": found.expected, "bytes": found.bytes}[key] for key in wanted}
    # Sizes are published with the headers and without them, which is far less than what tells two checkpoints apart.
    if any(abs(seen[key] - wanted[key]) > SAME_SIZE.get(key, 0) * wanted[key] for key in wanted):
        yield finding("checkpoint.kind.differs", found=_spelled(seen), wanted=_spelled(wanted))
    draft = expected.get("draft")
    if not draft:
        return
    carried = {
        "method": found.draft and found.draft.method,
        "block_size": found.draft and found.draft.block_size,
    }
    if any(value is not None and carried.get(key) != value for key, value in draft.items()):
        yield finding("checkpoint.draft.differs", found=_draft(carried), wanted=_draft(draft))


def _spelled(values: Mapping[str, int]) -> str:
    return ", ".join(f"{value} {key}" for key, value in values.items())


def _draft(draft: Mapping[str, Any]) -> str:
    if not draft.get("method"):
        return "no draft"
    block = draft.get("block_size")
    return f"the draft {draft['method']}" + (f" for blocks of {block}" if block else "")
