# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a checkpoint: its headers, its files against a manifest, and what a profile says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import checkpoint
from .checkpoint_manifest import Entry, Manifest, compare_hashes, compare_sizes, load
from .findings import Finding, worst_first


@dataclass(frozen=True)
class Look:
    """findings: worst first. sha256: of each file that was hashed."""

    found: checkpoint.Checkpoint
    findings: list[Finding]
    sha256: Mapping[str, str]


def look(
    path: Path,
    manifest: Path | None,
    verify: str,
    expected: Mapping[str, Any],
    say: Callable[[str], None],
    limit_s: float = float("inf"),
) -> Look:
    """verify: headers, sizes (which wants a manifest) or sha256. expected: see checkpoint.kind_findings.

    Raises CheckpointError, ManifestError, TooSlow.
    """
    found = checkpoint.read(path)
    bad, digests = [], {}
    if verify == "sizes":
        bad = compare_sizes(path, load(manifest))
    elif verify == "sha256":
        bad, digests = compare_hashes(path, load(manifest) if manifest else _all_of(path), say, limit_s)
    # What the manifest says of a file is nearer to the truth than what its own header says.
    known = {each.file for each in bad}
    bad = sorted([*bad, *(each for each in found.bad if each.file not in known)], key=lambda each: each.file)
    found = replace(found, bad=bad)
    findings = [
        *checkpoint.file_findings(bad, found.extra),
        *(() if bad else found.notes),
        *checkpoint.kind_findings(found, expected),
    ]
    return Look(found, worst_first(findings), digests)


def _all_of(path: Path) -> Manifest:
    """Every file of the folder, with nothing to compare it with."""
    files = (each for each in path.rglob("*") if each.is_file())
    names = [each.relative_to(path).as_posix() for each in files]
    return Manifest({name: Entry() for name in names if not name.startswith(".")})


def sentence(path: Path, note: Finding) -> str:
    """A finding as one line for whoever reads the run."""
    evidence = f": {note.evidence}" if note.evidence else ""
    return f"{path}: {note.summary}{evidence}. {note.remedy}. [{note.id}]"
