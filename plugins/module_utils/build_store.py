# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a build leaves on a node: the wheels that are finished, each under its digest, and what is half done.

Below the one folder:

sources/          archives, each under what it was checked by
requires/         wheels of the build requirements
work/DIGEST/      one wheel in the making: trees, environment, log; removed once it is finished
wheels/DIGEST/    the wheel, and record.json, which is written last
log/              what the compilers said, one file for each digest
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from .build_plan import normal
from .checkpoint_seals import save
from .runtime import sha256_of

RECORD = "record.json"
KEPT = 2  # finished wheels of one name, the wanted one among them
_WHEEL = re.compile(r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
FOLDERS = ("sources", "requires", "work", "wheels", "log")


def named(file: str) -> tuple[str, str] | None:
    """(name, version) that a wheel's file name says, the name as indexes have it; None where it is no wheel's."""
    found = _WHEEL.fullmatch(file)
    return (normal(found[1]), found[2]) if found else None


def built(folder: Path, digest: str) -> dict[str, Any] | None:
    """{name, version, file, sha256, seconds, tools} of a finished wheel that lies there whole; None where none does."""
    place = folder / "wheels" / digest
    try:
        record = json.loads((place / RECORD).read_text(encoding="utf-8"))
        wheel = place / record["file"]
        whole = wheel.parent == place and sha256_of(wheel) == record["sha256"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return record if whole and isinstance(record.get("version"), str) else None


def finish(folder: Path, digest: str, wheel: Path, more: Mapping[str, Any]) -> dict[str, Any]:
    """Moves a new wheel to its place and writes its record last. OSError."""
    name, version = named(wheel.name) or ("", "")
    place = folder / "wheels" / digest
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    shutil.move(wheel, place / wheel.name)
    (place / wheel.name).chmod(0o644)
    record = {"name": name, "version": version, "file": wheel.name, "sha256": sha256_of(place / wheel.name)}
    record.update(more)
    _settle(place / wheel.name)
    save(place / RECORD, record)
    return record


def _settle(path: Path) -> None:
    """On the disk before its record is: after a power cut a record without its wheel would only look finished."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def half_done(folder: Path, digests: Sequence[str]) -> list[str]:
    """The digests of which a part is built."""
    return [digest for digest in digests if (folder / "work" / digest).is_dir()]


def size(folder: Path) -> int:
    """Bytes that a folder takes on the disk; links are not followed."""
    total = 0
    for root, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except OSError:
                continue
    return total


def superfluous(folder: Path, wanted: Mapping[str, str]) -> list[Path]:
    """What may go when all of `wanted` ({name: digest}) is built: older wheels, half-done work, sources."""
    keep = set(wanted.values())
    going = [path for path in _entries(folder / "work") if path.name not in keep]
    by_name: dict[str, list[tuple[float, Path]]] = {}
    for place in _entries(folder / "wheels"):
        record = built(folder, place.name)
        if record is None:
            going.append(place)
        elif place.name not in keep:
            by_name.setdefault(record["name"], []).append((_age(place), place))
    for name, places in by_name.items():
        left = KEPT - (1 if name in wanted else 0)
        going += [place for _when, place in sorted(places, reverse=True)[left:]]
    return sorted(going)


def strangers(folder: Path, wanted: Collection[str]) -> list[Path]:
    """Archives that no wheel of this plan is made of."""
    return [path for path in _entries(folder / "sources") if path.name not in wanted]


def remove(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """When it was last changed; somebody else may remove it at this moment."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
