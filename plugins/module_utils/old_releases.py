# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases and environments a node keeps; an environment of an engine takes several GiB.

Kept: what runs, what was proven last, the newest that were proven (a roll-back goes there), and the newest that were
written (a rejected one is likely to be tried again with another setting).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from . import engine_state, records

KEPT = 4
RUNTIMES = "opt/tandem/runtime"


def _folders(path: Path) -> list[Path]:
    """The real folders in it, the newest first; hidden ones are an installer's scratch."""
    try:
        found = [entry for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except FileNotFoundError:
        return []
    return sorted(
        (entry for entry in found if not entry.name.startswith(".")),
        key=lambda entry: entry.stat().st_mtime,
        reverse=True,
    )


def _proven(root: Path) -> list[str]:
    """Every release proven under whatever circumstances, the newest proof first."""
    found = [records.read_json(path) or {} for path in (root / records.STATE / "proofs").glob("*.json")]
    proofs = [record for record in found if record.get("outcome") == "proven"]
    newest_first = sorted(proofs, key=lambda record: str(record.get("at")), reverse=True)
    return list(dict.fromkeys(str(record.get("digest")) for record in newest_first))


def _old_releases(root: Path, in_force: Iterable[str | None]) -> tuple[list[Path], list[Path]]:
    """(those that may go, those that stay)."""
    releases = _folders(root / engine_state.RELEASES[1:])
    proven = [name for name in _proven(root) if any(name == folder.name for folder in releases)]
    kept = {*in_force, *proven[:KEPT], *(folder.name for folder in releases[:KEPT])}
    return (
        [folder for folder in releases if folder.name not in kept],
        [folder for folder in releases if folder.name in kept],
    )


def prune(root: Path) -> tuple[list[str], list[str]]:
    """(what was removed, below /opt/tandem; what could not be removed, and why).

    Nothing goes where a release that stays does not say which environment it runs in.
    """
    state = engine_state.look(root, {})
    old, kept = _old_releases(root, (state["current"], state["applied"]))
    links = [folder / "runtime" for folder in kept]
    unclear = [str(link) for link in links if not link.is_symlink()]
    if not kept or unclear:
        return [], [f"{link} is no link to an environment, so nothing was removed" for link in unclear]
    needed = {os.path.basename(os.readlink(link)) for link in links}
    environments = [folder for folder in _folders(root / RUNTIMES) if folder.name not in needed]
    removed, troubles = [], []
    for folder in [*old, *environments]:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            troubles.append(f"{error.filename or folder} could not be removed: {error.strerror or error}")
        else:
            removed.append(f"{folder.parent.name}/{folder.name}")
    return removed, troubles
