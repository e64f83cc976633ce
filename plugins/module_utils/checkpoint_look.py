# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a checkpoint: its headers, its files against a manifest, and what a profile says of it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import checkpoint
from .checkpoint_manifest import Entry, Manifest, compare_hashes, compare_sizes, load
from .findings import Finding, finding, worst_first

# The engine's unit has ProtectHome and PrivateTmp.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")


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
    user: str | None = None,
) -> Look:
    """verify: headers, sizes (which wants a manifest) or sha256. expected: see checkpoint.kind_findings.

    user: who shall be able to read it; None is not looked at.

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
        *(reader_findings(path, user) if user else ()),
    ]
    return Look(found, worst_first(findings), digests)


def _all_of(path: Path) -> Manifest:
    """Every file of the folder, with nothing to compare it with."""
    files = (each for each in path.rglob("*") if each.is_file())
    names = [each.relative_to(path).as_posix() for each in files]
    return Manifest({name: Entry() for name in names if not name.startswith(".")})


def reader_findings(path: Path, user: str) -> Iterator[Finding]:
    """What keeps the engine's user from the weights: another owner, or its unit, which hides what is people's own."""
    real = Path(os.path.realpath(path))
    hidden = next((each for each in HIDDEN if real.is_relative_to(each)), None)
    if hidden:
        yield finding("checkpoint.reader.hidden", path=path, folder=hidden)
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return  # not made yet
    groups = {account.pw_gid, *(each.gr_gid for each in grp.getgrall() if user in each.gr_mem)}
    shards = [each for each in sorted(path.iterdir()) if each.is_file() and not each.name.startswith(".")]
    wanted = (
        [(each, 0o1) for each in reversed(real.parents)] + [(real, 0o5)] + [(each, 0o4) for each in shards]
    )
    shut = [each for each, bits in wanted if not _lets(each.stat(), bits, account.pw_uid, groups)]
    if shut:
        info = shut[0].stat()
        said = f"{shut[0]} belongs to {info.st_uid}:{info.st_gid} with mode {stat.S_IMODE(info.st_mode):04o}"
        yield finding("checkpoint.reader.shut", evidence=said, count=len(shut), user=user)


def _lets(info: os.stat_result, bits: int, user: int, groups: set[int]) -> bool:
    if user == 0:
        return True
    shift = 6 if info.st_uid == user else 3 if info.st_gid in groups else 0
    return (info.st_mode >> shift) & bits == bits


def sentence(path: Path, note: Finding) -> str:
    """A finding as one line for whoever reads the run."""
    evidence = f": {note.evidence}" if note.evidence else ""
    return f"{path}: {note.summary}{evidence}. {note.remedy}. [{note.id}]"
