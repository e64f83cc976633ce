# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard of a rank as it is seen from outside: whether it runs and what of, who holds it, what it says."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import guard_hold, records

UNIT = "tandem-guard.service"
SECRET = "etc/tandem/guard.secret"
STATE_FILE = "run/tandem/guard.json"
# What a guard read when it was started. One that was made of something else is started anew.
_PARTS = ("opt/tandem/lib/tandem/*.py", "etc/tandem/plan.json", SECRET, f"etc/systemd/system/{UNIT}")
# States that lead to a group that answers, without anybody's help.
RECOVERING = ("adopting", "stopping", "waiting", "starting", "warming")
FRESH_S = 15.0  # a guard writes its state every five seconds


def made_of(root: Path) -> str:
    """A mark of what a guard that was started now would be made of."""
    mark = hashlib.sha256()
    for part in _PARTS:
        for path in sorted(root.glob(part)):
            mark.update(f"{path.name}\0{_sha256(path)}\n".encode())
    return mark.hexdigest()[:16]


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def secret_mark(root: Path) -> str | None:
    """What tells one secret from another and nothing else; None where there is none that a guard would take."""
    path = root / SECRET
    try:
        info = path.stat()
    except OSError:
        return None
    if stat.S_IMODE(info.st_mode) != 0o600 or not info.st_size:
        return None
    known = _sha256(path)
    return known[:16] if known else None


def snapshot(root: Path, *, live: bool = True) -> dict[str, Any] | None:
    """What the guard wrote, and age_s, how long ago; None where none has run since the boot."""
    told = (records.read_json(root / STATE_FILE) or {}).get("snapshot")
    if not isinstance(told, dict):
        return None
    written = told.get("monotonic_s")
    known = live and isinstance(written, (int, float))
    return {**told, "age_s": round(time.monotonic() - written, 1) if known else None}


def look(root: Path, unit: Mapping[str, Any] | None) -> dict[str, Any]:
    """unit: what systemd says of the guard's unit, as engine_state.units returns it.

    {active, fresh, secret, holds, state, why}: fresh where it is made of what lies there now; state and why are what it
    says of the group, None where it does not say it now.
    """
    told = snapshot(root) or {}
    active = (unit or {}).get("active") == "active"
    age = told.get("age_s")
    speaks = active and isinstance(age, (int, float)) and age <= FRESH_S
    return {
        "active": active,
        "fresh": active and told.get("made_of") == made_of(root),
        "secret": secret_mark(root),
        "holds": [{"owner": hold.owner, "left_s": hold.left_s} for hold in guard_hold.holds(root)],
        "state": told.get("state") if speaks else None,
        "why": told.get("why") if speaks else None,
    }
