# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank's unit as its guard sees it, once a second and nearly for free, and the two things that a guard does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from . import commands
from .guard_rules import Unit

PROPERTIES = ("ActiveState", "SubState", "InvocationID", "Job", "ControlGroup")
# A call of systemctl costs some 10 ms of a core. In between, a unit that is steady is watched through two small files.
LOOK_EVERY_S = 5.0
_STEADY = ("active", "down")
_ASK_S, _ACT_S = 5.0, 10.0


def parse(text: str) -> dict[str, str]:
    """`systemctl show` of one unit."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def unit_of(shown: Mapping[str, str]) -> Unit:
    """What systemd says of a unit with Restart=always, in the guard's words."""
    active, sub = shown.get("ActiveState"), shown.get("SubState", "")
    asked_for = shown.get("Job", "0") not in ("", "0")  # a pending job: somebody asked for a stop, or a start
    invocation = shown.get("InvocationID") or None
    if active in ("active", "reloading", "refreshing"):
        return Unit("active", invocation)
    if active == "activating":
        return Unit("restarting" if sub.startswith("auto-restart") else "preparing", invocation)
    if active == "deactivating":
        return Unit("stopping" if asked_for else "ending", invocation)
    if active in ("inactive", "failed"):
        return Unit("queued" if asked_for else "down", None)
    return Unit()


class LocalUnit:
    def __init__(self, name: str, root: Path = Path("/"), say: Callable[[str], None] = lambda line: None):
        self.name, self._say = name, say
        self._link = root / f"run/systemd/units/invocation:{name}"
        self._cgroups = root / "sys/fs/cgroup"
        self._group = ""
        self._looked_at = float("-inf")
        self._seen: tuple[str | None, str | None] | None = None
        self.unit = Unit()

    def look(self, now: float) -> Unit:
        """The unit as it is now; unknown where systemd does not answer."""
        seen = self._fingerprint()
        steady = self.unit.state in _STEADY and seen is not None and seen == self._seen
        if steady and now - self._looked_at < LOOK_EVERY_S:
            return self.unit
        command = ["systemctl", "show", f"--property={','.join(PROPERTIES)}", self.name]
        answer = commands.ask(command, timeout_s=_ASK_S)
        shown = parse(answer.out) if answer.ok else {}
        self._group = shown.get("ControlGroup", "")
        # Taken before the question: what changes meanwhile is seen in the next round.
        self._seen, self._looked_at = seen, now
        self.unit = unit_of(shown)
        return self.unit

    def _fingerprint(self) -> tuple[str | None, str | None] | None:
        """The start that systemd notes for its journal, and the processes of the unit; None where neither is told."""
        try:
            start: str | None = str(self._link.readlink())
        except OSError:
            start = None
        processes = None
        if self._group:
            try:
                processes = (self._cgroups / self._group.lstrip("/") / "cgroup.procs").read_text()
            except OSError:
                processes = None
        return None if start is None and not self._link.parent.is_dir() else (start, processes)

    def start(self) -> None:
        self._act("reset-failed", self.name, quiet=True)
        self._act("start", "--no-block", self.name)

    def stop(self, hard: bool) -> None:
        """hard: a rank that is stopped by SIGSTOP, or wedged, would sit out the time that a stop gives it."""
        if hard:
            self._act("kill", "--signal=SIGKILL", self.name, quiet=True)
        self._act("stop", "--no-block", self.name)

    def _act(self, *words: str, quiet: bool = False) -> None:
        self._seen = None
        answer = commands.ask(["systemctl", *words], timeout_s=_ACT_S, with_errors=True)
        if not answer.ok and not quiet:
            said = answer.out.strip() or "no answer in time"
            self._say(f"`systemctl {' '.join(words)}` ended with {answer.rc}: {said}")
