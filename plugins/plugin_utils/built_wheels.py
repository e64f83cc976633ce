# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels that were built here, as the controller keeps them, and the lock list that has them beside those of an index.

    CACHE/built/DIGEST/     the wheel and record.json, as on the node that built it
    CACHE/locks/NAME.txt    the profile's list, with what was built in place of what the index has of that name

So a second run needs no node to know that all is built, and every rank gets the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.build_plan import Plan, normal
from ansible_collections.tandem.spark.plugins.module_utils.build_store import RECORD
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_seals import save
from ansible_collections.tandem.spark.plugins.module_utils.runtime import sha256_of

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==")


def kept(cache: Path, digest: str) -> dict[str, Any] | None:
    """The record of a wheel that lies on the controller whole, with its `path`; None where none does."""
    place = cache / "built" / digest
    try:
        record = json.loads((place / RECORD).read_text(encoding="utf-8"))
        path = place / record["file"]
        whole = path.parent == place and path.stat().st_size == record["bytes"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return {**record, "path": str(path)} if whole else None


def keep(cache: Path, digest: str, record: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    """Takes a wheel that was brought from a node; None where it is not what its record says. OSError."""
    if sha256_of(path) != record["sha256"]:
        return None
    place = cache / "built" / digest
    place.mkdir(parents=True, exist_ok=True)
    os.replace(path, place / record["file"])
    save(place / RECORD, {**record, "bytes": (place / record["file"]).stat().st_size})
    return kept(cache, digest)


def entries(lock: str) -> list[str]:
    """The entries of a lock list, each with its lines of hashes; comments are left out."""
    found: list[str] = []
    for line in lock.splitlines():
        if _ENTRY.match(line):
            found.append(line)
        elif found and line[:1].isspace() and line.strip():
            found[-1] += f"\n{line}"
    return found


def composed(lock: str, records: Sequence[Mapping[str, Any]]) -> str:
    """A lock list with the built wheels in place of the index's, in the order of their names."""
    ours = {normal(record["name"]): record for record in records}
    lines = {normal(_ENTRY.match(entry)[1]): entry for entry in entries(lock)}
    for name, record in ours.items():
        lines[name] = f"{name}=={record['version']} \\\n    --hash=sha256:{record['sha256']}"
    return "".join(f"{lines[name]}\n" for name in sorted(lines))


def placeholders(plan: Plan) -> list[dict[str, str]]:
    """Records of wheels that are still to be built, for a run that only tells what it would do."""
    return [
        {"name": wheel.name, "version": wheel.version or "0", "sha256": wheel.digest * 4}
        for wheel in plan.wheels
    ]


def write_lock(folder: Path, name: str, text: str) -> Path:
    """The list as a file; one that is right is left as it is."""
    path = folder / f"{name}.txt"
    try:
        if path.read_text(encoding="utf-8") == text:
            return path
    except OSError:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(stream.name, 0o644)
    os.replace(stream.name, path)
    return path
