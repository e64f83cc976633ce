# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guards of a group tell each other, how long they wait, and what a rank's guard may do to its unit. Pure.

One guard runs on each rank. Each obeys orders (Rank, here); the one of rank 0 also gives them (guard_group.Group).
Times are seconds of a clock that only moves forward; the wall clock decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

# What a unit is. queued: systemd will start it; preparing: its ExecStartPre run; stopping: somebody asked for it;
# ending, restarting: it died. Units have Restart=always, so one that is down was stopped by somebody.
UNIT_STATES = (
    "down",
    "queued",
    "preparing",
    "active",
    "stopping",
    "ending",
    "restarting",
    "unknown",
)
UP = ("preparing", "active")
# What the head says of the group. Of these only ready and busy are healthy.
STATES = (
    *("adopting", "held", "off", "stopping", "waiting", "starting", "warming"),
    *("ready", "busy", "wrong", "no-progress", "given-up"),
)
HEALTHY = ("ready", "busy")
RUN, STOP, NOTHING = "run", "stop", "nothing"
WANTS = (RUN, STOP, NOTHING)
_LONGEST_TEXT = 200
_STOP_AGAIN_S = 5.0
_START_AGAIN_S = 10.0


@dataclass(frozen=True)
class Limits:
    """Seconds and counts. Of a pair with weights of 79 GiB a rank, whose cold compile took up to 36 minutes."""

    lost_s: float = 40.0
    boot_s: float = 3600.0
    probe_interval_s: float = 15.0
    probe_timeout_s: float = 30.0
    stall_s: float = 600.0  # instead of probe_timeout_s for the first answers of a start, which may compile
    busy_s: float = 1800.0
    hard_cap_s: float = 3600.0
    warm_up_s: float = 3900.0
    memory_wait_s: float = 120.0
    stuck_s: float = 60.0
    bad_answers: int = 5
    most_recoveries: int = 6

    @property
    def fresh_s(self) -> float:
        """How long a right answer vouches for the next one."""
        return self.probe_interval_s + self.probe_timeout_s + 5

    def pause_s(self, failures: int) -> float:
        return 0.0 if failures < 3 else min(300.0, 10.0 * 2.0 ** (failures - 3))


class Action(NamedTuple):
    """What the guard shall do now.

    kind: start, stop (value: hard), ask and warm_up (value: a ticket that the result carries), count, abandon,
    say (value: a line for the journal), note (value: (outcome, reason) for the history).
    """

    kind: str
    value: Any = None


@dataclass(frozen=True)
class Unit:
    state: str = "unknown"
    invocation: str | None = None


@dataclass(frozen=True)
class Report:
    """What a rank tells the head. free: the memory of its last start came back.

    compiling and cache (a mark that changes as the JIT cache grows): None where it was not asked to look.
    facts: what is shown of it, and decides nothing.
    """

    rank: int
    unit: str = "unknown"
    invocation: str | None = None
    epoch: str | None = None
    by_hand: bool = False
    hold: str | None = None
    free: bool = True
    compiling: bool | None = None
    cache: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """What the head tells a rank. invocation: the start that belongs to this epoch, if it is known; look: for signs."""

    want: str
    epoch: str | None = None
    hard: bool = True
    invocation: str | None = None
    look: bool = False
    state: str = ""


def as_dict(said: Report | Order) -> dict[str, Any]:
    return asdict(said)


_OPTIONAL_TEXT = (str, type(None))
_KINDS: dict[type, dict[str, tuple[type, ...]]] = {
    Report: {
        "rank": (int,),
        "unit": (str,),
        "invocation": _OPTIONAL_TEXT,
        "epoch": _OPTIONAL_TEXT,
        "by_hand": (bool,),
        "hold": _OPTIONAL_TEXT,
        "free": (bool,),
        "compiling": (bool, type(None)),
        "cache": _OPTIONAL_TEXT,
        "facts": (dict,),
    },
    Order: {
        "want": (str,),
        "epoch": _OPTIONAL_TEXT,
        "hard": (bool,),
        "invocation": _OPTIONAL_TEXT,
        "look": (bool,),
        "state": (str,),
    },
}


def read(kind: type, said: Any) -> Any:
    """A Report or an Order from what came over the wire. ValueError for anything that is none."""
    kinds = _KINDS[kind]
    if not isinstance(said, dict) or set(said) != set(kinds):
        raise ValueError(f"wanted exactly {', '.join(kinds)}")
    for name, allowed in kinds.items():
        value = said[name]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise ValueError(f"{name} is of a wrong kind")
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            raise ValueError(f"{name} is too long")
    if kind is Report and said["unit"] not in UNIT_STATES:
        raise ValueError("unit is in no state that a unit can be in")
    if kind is Order and said["want"] not in WANTS:
        raise ValueError("want is no order")
    return kind(**said)


class Rank:
    """What the guard of one rank does to its own unit: obey, or stop it where the head is silent.

    leads: this is the head's own rank, which always hears its orders.
    """

    def __init__(
        self, limits: Limits, now: float, *, leads: bool = False, memory: Mapping[str, Any] | None = None
    ):
        known = memory or {}
        self._limits, self._leads = limits, leads
        self._heard, self._order = now, None
        self._stopped_at = self._started_at = float("-inf")
        self._silent = False
        self.epoch = known.get("epoch") if isinstance(known.get("epoch"), str) else None
        self.ran = known.get("ran") is True and self.epoch is not None
        self.by_hand = known.get("by_hand") is True

    def memory(self) -> dict[str, Any]:
        """What a guard that is started anew must know, until the next boot."""
        return {"epoch": self.epoch, "ran": self.ran, "by_hand": self.by_hand}

    def observe(self, unit: Unit) -> None:
        """Takes note of a look, before it is reported."""
        if self.epoch is not None and unit.state == "active":
            self.ran = True
        if self.ran and unit.state == "down":
            self.by_hand = True
        if unit.state not in ("down", "unknown"):
            self.by_hand = False

    def tick(self, now: float, unit: Unit, order: Order | None, hold: str | None) -> list[Action]:
        """order: what the head said since the last tick, None where it said nothing."""
        if hold:  # somebody else is in charge of this unit
            self.epoch, self.ran, self.by_hand, self._heard, self._order = None, False, False, now, order
            return []
        if order is not None:
            self._heard, self._order, self._silent = now, order, False
        elif not self._leads and now - self._heard > self._limits.lost_s:
            return self._without_head(now, unit)
        if self._order is None or self._order.want == NOTHING:
            return []
        if self._order.want == STOP:
            return self._stop(now, unit, self._order.hard)
        return self._run(now, unit, order) if order is not None else []

    def _without_head(self, now: float, unit: Unit) -> list[Action]:
        said = [] if self._silent else [Action("say", f"the head is silent for {self._limits.lost_s:.0f} s")]
        self._silent, self._order = True, None
        return [*said, *self._stop(now, unit, True)]

    def _stop(self, now: float, unit: Unit, hard: bool) -> list[Action]:
        self.epoch, self.ran = None, False
        if unit.state == "down" or now - self._stopped_at < _STOP_AGAIN_S:
            return []
        self._stopped_at = now
        return [Action("stop", hard)]

    def _run(self, now: float, unit: Unit, order: Order) -> list[Action]:
        if self.epoch == order.epoch:
            # A start that systemd dropped, because something that the unit requires failed.
            if self.ran or unit.state != "down" or now - self._started_at < _START_AGAIN_S:
                return []
        elif unit.state in UP and unit.invocation and unit.invocation == order.invocation:
            self.epoch, self.ran = order.epoch, unit.state == "active"
            return []
        elif unit.state != "down":  # it belongs to another epoch
            return [] if unit.state == "unknown" else self._stop(now, unit, True)
        self.epoch, self.ran, self._started_at, self._stopped_at = order.epoch, False, now, float("-inf")
        return [Action("start")]


class MemoryReturn:
    """Whether the memory of the last start came back. GiB; what is available without a unit is the measure."""

    SLACK_GIB = 4.0
    STILL_S = 5.0

    def __init__(self) -> None:
        self._before: float | None = None
        self._best, self._grew_at = 0.0, 0.0
        self._down = False

    def tick(self, now: float, down: bool, available_gib: float | None) -> bool:
        """True where a start finds what the one before found, or, where none is known, what no longer grows."""
        if not down or available_gib is None:
            self._down = False
            return not down or available_gib is None
        if not self._down:
            self._down, self._best, self._grew_at = True, available_gib, now
        if available_gib > self._best + 0.25:
            self._best, self._grew_at = available_gib, now
        if self._before is not None:
            back = available_gib >= self._before - self.SLACK_GIB
        else:
            back = now - self._grew_at >= self.STILL_S
        if back:
            self._before = available_gib
        return back
