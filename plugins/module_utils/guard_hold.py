# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hold: while one is taken, the guard of the whole group looks on and does nothing.

A roll-out, or an operator, takes it on every rank under its own name. It ends when it is dropped, when its time is
over, or, if it has a time, with the boot: whoever took it may have died. One without a time outlives reboots.
What was not proven holds it too: a release that nobody read an answer of is nobody's to keep alive.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from . import engine_state, files, records

# The playbooks that hold it. Whatever ends with a proven release ends their holds, and no operator's.
ROLLOUT, STOP, DRIVER = PLAYBOOKS = ("rollout", "stop", "driver")
NOTHING_PROVEN, OTHER_RELEASE = "nothing-was-proven", "release-not-proven"
APPLIED = "var/lib/tandem/applied"
# One with a time lies where a reboot forgets it.
TIMED, ENDLESS = FOLDERS = ("run/tandem/holds", "var/lib/tandem/holds")
OWNER = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
LONGEST_S = 7 * 86400.0


class HoldError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Hold:
    """left_s: None where it has no end."""

    owner: str
    left_s: float | None


def _paths(root: Path, owner: str) -> dict[str, str]:
    if not OWNER.fullmatch(owner):
        raise HoldError(
            f"{owner!r} cannot own a hold, wanted a word of at most 32 of a-z, 0-9, dot, dash and _."
        )
    return {folder: str(root / folder / f"{owner}.json") for folder in FOLDERS}


def _remove(path: str) -> bool:
    there = files.look(path, with_content=False).state != "absent"
    files.apply(files.Wanted(path, "absent"), files.Found("file"))
    return there


def take(root: Path, owner: str, seconds: float | None, now: float | None = None) -> None:
    """Takes a hold, or gives one that the owner already has a new time. Raises HoldError and files.FilesError."""
    paths = _paths(root, owner)
    if seconds is not None and not 0 < seconds <= LONGEST_S:
        raise HoldError(
            f"{seconds:g} s is no time for a hold, wanted more than 0 and at most {LONGEST_S:.0f}."
        )
    now = time.monotonic() if now is None else now
    content = json.dumps({"until_s": None if seconds is None else now + seconds}).encode()
    path, other = paths[ENDLESS if seconds is None else TIMED], paths[TIMED if seconds is None else ENDLESS]
    wanted = files.Wanted(path, content=content + b"\n", mode=0o644)
    files.apply(wanted, files.look(path, with_content=False))
    _remove(other)


def drop(root: Path, owner: str) -> bool:
    """Drops it; True where there was one."""
    there = [_remove(path) for path in _paths(root, owner).values()]
    return any(there)


def holds(root: Path, now: float | None = None) -> list[Hold]:
    """The holds that are in force. A file that cannot be read is a hold without an end, until somebody removes it."""
    now = time.monotonic() if now is None else now
    found = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).glob("*.json")):
        until = (records.read_json(path) or {}).get("until_s")
        if not isinstance(until, (int, float)) or isinstance(until, bool):
            found.append(Hold(path.stem, None))
        elif now < until <= now + LONGEST_S:
            found.append(Hold(path.stem, until - now))
    return found


def holder(root: Path) -> str | None:
    """Who or what holds the guard of this rank; None where it is free."""
    taken = holds(root)
    if taken:
        return taken[0].owner
    applied = engine_state.text(root / APPLIED)
    if not applied:
        return NOTHING_PROVEN
    return None if engine_state.current(root) == applied else OTHER_RELEASE


def drop_playbooks(root: Path) -> list[str]:
    """Drops what the playbooks hold; the owners that held something. Raises files.FilesError."""
    return [owner for owner in PLAYBOOKS if drop(root, owner)]
