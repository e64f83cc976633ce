# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank remembers: one record per release and circumstances, the release proven last, and a history.

Circumstances are driver, kernel and boot options: what was proven or rejected under others says nothing here.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from . import files, run_settings

STATE = "var/lib/tandem"
_HISTORY_BYTES = 1 << 16
CIRCUMSTANCES = ("driver", "kernel", "boot_options")
OUTCOMES = ("proven", "rejected", "unproven", "stopped")  # the last two are remembered in the history only
OF_TRIALS = ("right", "wrong")  # of a point of tune.yml: in the history only, and never proven or rejected


def read_json(path: Path) -> dict | None:
    """The map that a file holds; None where there is none, or only a part of it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def circumstances(runs_as: Mapping) -> str:
    """Eight hex digits that stand for driver, kernel and boot options."""
    text = json.dumps([runs_as.get(name) for name in CIRCUMSTANCES])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def proof_path(root: Path, digest: str, runs_as: Mapping) -> Path:
    return root / STATE / "proofs" / f"{digest}.{circumstances(runs_as)}.json"


def read_proof(root: Path, digest: str | None, runs_as: Mapping) -> dict | None:
    """The record of a release under these circumstances."""
    return read_json(proof_path(root, digest, runs_as)) if digest else None


def _here(root: Path, runs_as: Mapping, outcome: str) -> dict[str, dict]:
    """{release: record} of this outcome under these circumstances."""
    paths = sorted((root / STATE / "proofs").glob(f"*.{circumstances(runs_as)}.json"))
    found = {path.name.split(".")[0]: read_json(path) for path in paths}
    return {digest: record for digest, record in found.items() if record and record.get("outcome") == outcome}


def rejected(root: Path, runs_as: Mapping) -> dict[str, str]:
    """{release: reason} of what was rejected under these circumstances."""
    return {digest: str(record.get("reason")) for digest, record in _here(root, runs_as, "rejected").items()}


def proven(root: Path, runs_as: Mapping) -> dict[str, str]:
    """{release: when} of what was proven under these circumstances, the newest first."""
    found = {digest: str(record.get("at", "")) for digest, record in _here(root, runs_as, "proven").items()}
    return dict(sorted(found.items(), key=lambda item: item[1], reverse=True))


def proven_elsewhere(root: Path, digest: str | None, runs_as: Mapping) -> list[dict]:
    """What this release ran as where it was proven under other circumstances."""
    paths = sorted((root / STATE / "proofs").glob(f"{digest}.*.json")) if digest else []
    records = [read_json(path) for path in paths if path != proof_path(root, digest, runs_as)]
    return [record.get("ran_as") or {} for record in records if record and record.get("outcome") == "proven"]


def write(root: Path, event: str, record: Mapping, runs_as: Mapping) -> None:
    """Keeps a record, and adds its line to the history.

    `record` has digest, outcome and reason, and whatever else is to be remembered. What is unproven or was stopped is
    remembered in the history only: the next run tries it again. Raises files.FilesError where the disk refuses.
    """
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    settings = run_settings.read(root / "opt/tandem/releases" / record["digest"])
    whole = {**record, "at": at, "ran_as": dict(runs_as), "settings": settings}
    wanted = []
    if record["outcome"] in ("proven", "rejected"):
        path = str(proof_path(root, record["digest"], runs_as))
        wanted.append(files.Wanted(path, content=_json(whole, indent=1), mode=0o644))
    if record["outcome"] == "proven":
        applied = str(root / STATE / "applied")
        wanted.append(files.Wanted(applied, content=f"{record['digest']}\n".encode(), mode=0o644))
    for item in wanted:
        files.apply(item, files.look(item.path, with_content=False))
    kept = ("digest", "outcome", "reason", "seconds")
    note(root, event, {**{name: record[name] for name in kept if name in record}, "settings": settings}, at)


def note_trial(root: Path, event: str, record: Mapping) -> None:
    """Adds a line for a release that was only tried: nothing that a roll-out, a start or the guard would go by."""
    settings = run_settings.read(root / "opt/tandem/releases" / record["digest"])
    kept = {name: record[name] for name in ("digest", "outcome", "reason", "seconds") if name in record}
    note(root, event, {**kept, "settings": settings})


def note(root: Path, event: str, record: Mapping, at: str | None = None) -> None:
    """Adds a line to the history alone. Raises files.FilesError where the disk refuses."""
    at = at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    _append(root / STATE / "history.jsonl", {"at": at, "event": event, **record})


def history(root: Path, lines: int) -> tuple[list[dict], str | None]:
    """(the last `lines` of the history, why they are not whole). No history is none: nothing was rolled out yet."""
    try:
        with open(root / STATE / "history.jsonl", "rb") as stream:
            stream.seek(0, os.SEEK_END)
            cut = stream.tell() > _HISTORY_BYTES
            stream.seek(-_HISTORY_BYTES if cut else 0, os.SEEK_END if cut else os.SEEK_SET)
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return [], None
    except OSError as error:
        return [], error.strerror or str(error)
    entries, trouble = [], None
    for line in text.splitlines()[1 if cut else 0 :][-lines:]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            entries.append(entry)
        else:
            trouble = f"a line is no JSON object: {line[:60]!r}"
    return entries, trouble


def _json(content: Mapping, indent: int | None = None) -> bytes:
    return (json.dumps(content, indent=indent, sort_keys=True) + "\n").encode()


def _append(path: Path, line: Mapping) -> None:
    """One write of one line: a reader never sees half of it, a crash loses at most this one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), "wb", buffering=0) as stream:
            stream.write(_json(line))
            os.fsync(stream.fileno())
    except OSError as error:
        raise files.FilesError(
            f"{path} could not be written: {error.strerror or error}. Check free space (df -h {path.parent})."
        ) from error
