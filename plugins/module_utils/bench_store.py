# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a bench: a line of JSON for each draw, written as it ends, so that a run that was cut off goes on.

The first line says of which stack and which plan the draws are; the last one, that the run came to its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = 1  # of the file's shape
_SUFFIX = ".jsonl"


class BenchStoreError(Exception):
    """The record cannot be written; the text says why and what to do."""


def fingerprint(value: Any) -> str:
    """Sixteen hex digits for plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Store:
    """The record of one run. path: None keeps nothing. draws: those that were there when it was opened."""

    def __init__(self, path: Path | None, header: Mapping[str, Any], draws: list[dict[str, Any]]):
        self.path, self.header, self.draws = path, header, draws

    def add(self, drawn: Mapping[str, Any]) -> None:
        self._append({"draw": drawn})

    def finish(self, ended: str | None) -> None:
        """ended: why the run did not come to its end, None where it did."""
        if ended is None:
            self._append({"finished": _now()})

    def _append(self, line: Mapping[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise BenchStoreError(f"{self.path} cannot be written: {error.strerror}") from error


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def open_store(
    folder: str | None, stack: Mapping[str, Any], plan: Mapping[str, Any], *, resume: bool
) -> Store:
    """The newest run of this stack and plan that was cut off, or a new one."""
    header = {
        "version": VERSION,
        "at": _now(),
        "fingerprint": fingerprint(stack),
        "plan_fingerprint": fingerprint(plan),
        "stack": stack,
        "plan": plan,
    }
    if folder is None:
        return Store(None, header, [])
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchStoreError(f"the folder {folder} cannot be made: {error.strerror}") from error
    if resume:
        for path in sorted(root.glob(f"*{_SUFFIX}"), reverse=True):
            found = read(path)
            if found and not found["finished"] and _same(found["header"], header):
                _end_last_line(path)
                return Store(path, found["header"], found["draws"])
    stamp = header["at"].replace(":", "").replace("-", "")
    path = _free(root, f"{stamp}-{header['fingerprint'][:8]}")
    store = Store(path, header, [])
    store._append({"header": header})
    return store


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other[key] for key in ("version", "fingerprint", "plan_fingerprint"))


def _free(root: Path, stem: str) -> Path:
    """A name that no run has: two may begin within one second."""
    for number in range(1000):
        path = root / f"{stem}{f'-{number}' if number else ''}{_SUFFIX}"
        if not path.exists():
            return path
    raise BenchStoreError(f"{root} has a thousand runs of {stem}; move some of them away")


def _end_last_line(path: Path) -> None:
    """What was cut off in the middle of a line stays a line of its own, which readers pass over."""
    try:
        text = path.read_bytes()
        if text and not text.endswith(b"\n"):
            with path.open("ab") as stream:
                stream.write(b"\n")
    except OSError as error:
        raise BenchStoreError(f"{path} cannot be continued: {error.strerror}") from error


def read(path: Path) -> dict[str, Any] | None:
    """{header, draws, finished} of a record; None where it is none. A line that was cut off is passed over."""
    header: dict[str, Any] | None = None
    draws: list[dict[str, Any]] = []
    finished = False
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict):
            continue
        if isinstance(entry.get("header"), dict):
            header = entry["header"]
        elif isinstance(entry.get("draw"), dict) and _SHAPE <= set(entry["draw"]):
            draws.append(entry["draw"])
        finished = finished or "finished" in entry
    return None if header is None else {"header": header, "draws": draws, "finished": finished}


_SHAPE = {"row", "number", "streams", "tokens_per_s", "counted", "void", "asked", "succeeded"}
