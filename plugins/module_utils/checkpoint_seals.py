# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the bytes in a checkpoint folder: which of its files were read and found right, and when.

A file counts as known while its size, its inode and the time of its last change are those of then. So what was
downloaded yesterday need not be read again; `tandem_checkpoint_verify: sha256` reads it anyway.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from .checkpoint_manifest import Entry, Manifest

SEALS = ".tandem-verified.json"


def _traces(path: Path) -> list[int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return [info.st_size, info.st_mtime_ns, info.st_ino]


def read(folder: Path) -> dict[str, dict]:
    """{file: {"hash", "traces"}} as it was written; empty where there is none that can be read."""
    try:
        content = json.loads((folder / SEALS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def known(folder: Path, manifest: Manifest) -> set[str]:
    """The manifest's files whose bytes were right, and that nobody touched since."""
    seals = read(folder)
    return {
        name
        for name, entry in manifest.files.items()
        if isinstance(seal := seals.get(name), dict)
        and seal.get("hash") == (entry.sha256 or entry.git)
        and seal.get("hash")
        and seal.get("traces") == _traces(folder / name)
    }


def write(folder: Path, right: Mapping[str, Entry]) -> None:
    """Remembers these files, and those of before that are as they were. OSError."""
    seals = {
        name: seal for name, seal in read(folder).items() if seal.get("traces") == _traces(folder / name)
    }
    for name, entry in right.items():
        seals[name] = {"hash": entry.sha256 or entry.git, "traces": _traces(folder / name)}
    save(folder / SEALS, seals)


def save(path: Path, content: object) -> None:
    """JSON, written beside its place and renamed over it."""
    partial = path.with_name(f"{path.name}.new")
    partial.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(partial, path)
