# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The build as a unit of the node: begun once, looked at, followed. It goes on when whoever began it goes away.

The unit is transient: a reboot leaves nothing of it, and the next run begins it anew in what was built until then. It
runs as the user that the engine runs as, sees no network unless a wheel says why it must, writes to its folder alone,
and is the first that the kernel ends where memory is short.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import commands, engine_state
from .build_run import PROGRESS, STATE

UNIT = "tandem-build.service"
STATE_FOLDER = "/run/tandem-build"  # RuntimeDirectory= of the unit
PROGRAM = "/opt/tandem/bin/tandem"
LOOK_EVERY_S = 1.0
GOING = ("active", "activating", "deactivating", "reloading")


class UnitError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Outcome:
    """How a build ended. state: done, failed, interrupted or going. finding: of a failure, as a dict."""

    state: str
    wheel: str | None = None
    finding: Mapping[str, Any] | None = None
    result: str | None = None


def command(
    job: str, folder: str, user: str, network: bool, memory_bytes: int | None, limit_s: int
) -> list[str]:
    """The words that begin the unit. memory_bytes: what it may have at most, None for no bound of its own."""
    properties = {
        "Type": "exec",
        "User": user,
        "Group": user,
        "UMask": "0022",
        "RuntimeDirectory": "tandem-build",
        "RuntimeDirectoryPreserve": "yes",
        "RuntimeMaxSec": limit_s,
        "Nice": 10,
        "IOSchedulingClass": "idle",
        # A compiler that is killed for memory must not take the builder along, who can say what happened.
        "OOMScoreAdjust": 900,
        "OOMPolicy": "continue",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "ReadWritePaths": folder,
        "PrivateNetwork": "no" if network else "yes",
        "ProtectKernelTunables": "yes",
        "ProtectControlGroups": "yes",
        "RestrictSUIDSGID": "yes",
        "TimeoutStopSec": 20,
    }
    if memory_bytes is not None:
        properties["MemoryMax"] = memory_bytes
    words = [
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={UNIT}",
        "--description=Engine from source (tandem.spark)",
    ]
    words += [f"--property={name}={value}" for name, value in properties.items()]
    return [*words, PROGRAM, "build", job, f"--state={STATE_FOLDER}"]


def going() -> bool:
    """Whether a build works on this node now."""
    return (engine_state.units((UNIT,)).get(UNIT) or {}).get("active") in GOING


def told(state: Path) -> dict[str, Any]:
    """What the last build of this boot tells of itself; empty where there was none."""
    try:
        content = json.loads((state / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def begin(words: Sequence[str], state: Path) -> None:
    """Starts the unit. Raises UnitError with systemd's own words."""
    for name in (STATE, PROGRESS):
        (state / name).unlink(missing_ok=True)
    answer = commands.ask(words, timeout_s=60, with_errors=True)
    if not answer.ok:
        said = answer.out.strip() or f"it ended with {answer.rc}"
        raise UnitError(f"The unit {UNIT} could not be started: {said}. See `journalctl -u {UNIT}`.")


def follow(
    state: Path,
    say: Callable[[str], None],
    limit_s: float,
    is_going: Callable[[], bool] = going,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Hands on what the builder says until it ends, or until the time is over; then it goes on without us."""
    until = clock() + limit_s
    handed = 0
    while True:
        alive = is_going()  # asked before its last lines are read, so that none is missed
        handed = _hand_on(state / PROGRESS, handed, say)
        if not alive:
            return _ended(told(state))
        if clock() > until:
            return Outcome("going", told(state).get("wheel"))
        sleep(LOOK_EVERY_S)


def _hand_on(path: Path, handed: int, say: Callable[[str], None]) -> int:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return handed
    for line in lines[handed:]:
        say(line)
    return max(handed, len(lines))


def _ended(content: Mapping[str, Any]) -> Outcome:
    """A builder that says it still runs, and does not, was ended by somebody else."""
    state = content.get("state")
    if state in ("done", "failed"):
        return Outcome(state, content.get("wheel"), content.get("finding"))
    return Outcome("interrupted", content.get("wheel"))
