# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group of nodes in virtual time: the real rules of the guard, with systemd, engine and link as they were measured.

What the engine does here was seen of a real one on two ranks: a worker outlives its head and says nothing; a head ends
some seconds after its worker, with code 0; a frozen rank or a lost link stalls both, and after a minute the head ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import Progress
from ansible_collections.tandem.spark.plugins.module_utils.guard_group import Group, Heard, News
from ansible_collections.tandem.spark.plugins.module_utils.guard_life import Answer
from ansible_collections.tandem.spark.plugins.module_utils.guard_rules import (
    Action,
    Limits,
    MemoryReturn,
    Order,
    Rank,
    Report,
    Unit,
)

BOOT_S, WARM_S, STALL_ENDS_S, GUARD_BACK_S, REBOOT_S = 40, 10, 61, 2, 10


@dataclass
class SimUnit:
    """A unit with Restart=always. epoch: what its guard started it for; joined: the engine that it is part of."""

    state: str = "down"
    invocation: str | None = None
    since: float = 0.0
    epoch: str | None = None
    joined: int | None = None
    frozen: bool = False
    undying: bool = False

    def go(self, state: str, now: float) -> None:
        self.state, self.since = state, now
        if state in ("down", "restarting", "ending"):
            self.joined, self.frozen = None, False


@dataclass
class Guard:
    rank: Rank
    group: Group | None
    heard: dict[int, Heard] = field(default_factory=dict)
    memory: MemoryReturn = field(default_factory=MemoryReturn)
    asked: tuple[int, float] | None = None
    counting: bool = False
    warming: tuple[int, float] | None = None
    warm_still: int = 0
    look: bool = False


@dataclass
class Node:
    number: int
    unit: SimUnit = field(default_factory=SimUnit)
    powered: bool = True
    guard: Guard | None = None
    back_at: float = 0.0
    run: dict = field(default_factory=dict)  # /run: what a guard remembers until the next boot
    hold: str | None = None
    compiling: bool = False
    cache: int = 0


class World:
    def __init__(self, ranks: int = 2, limits: Limits | None = None):
        self.now = 1000.0
        self.limits = limits or Limits()
        self.nodes = [Node(number) for number in range(ranks)]
        self.link = True
        self.engine: int | None = None  # the engine that is up or boots
        self.boot_left = 0.0
        self.stalled_since: float | None = None
        self.tokens = 0
        self.busy = self.prefill = self.wrong = self.dumb = False
        self.memory_leaks = False
        self.starts: list[tuple[float, int, str]] = []
        self.log: list[str] = []
        self.notes: list[tuple[float, str, str]] = []
        self.states: list[tuple[float, str]] = []
        self.again = False
        self._number = 0

    # Faults, and what undoes them.

    def kill(self, rank: int) -> None:
        unit = self.nodes[rank].unit
        if unit.state in ("active", "preparing"):
            unit.go("restarting", self.now)

    def freeze(self, rank: int) -> None:
        unit = self.nodes[rank].unit
        unit.frozen = unit.state == "active"

    def power(self, rank: int, on: bool) -> None:
        node = self.nodes[rank]
        node.powered = on
        node.unit, node.guard, node.run = SimUnit(since=self.now), None, {}
        node.back_at = self.now + REBOOT_S

    def kill_guard(self, rank: int) -> None:
        self.nodes[rank].guard, self.nodes[rank].back_at = None, self.now + GUARD_BACK_S

    def stop_by_hand(self, rank: int) -> None:
        unit = self.nodes[rank].unit
        if unit.state in ("active", "preparing", "restarting"):
            unit.go("stopping", self.now)

    def start_by_hand(self, rank: int) -> None:
        unit = self.nodes[rank].unit
        if unit.state == "down" and self.nodes[rank].powered:
            unit.epoch = "by hand"
            self._begin(unit)

    # What can be seen.

    @property
    def head(self) -> Group | None:
        guard = self.nodes[0].guard
        return guard.group if guard else None

    @property
    def state(self) -> str:
        return self.head.state(self.now)[0] if self.head else "no guard"

    @property
    def healthy(self) -> bool:
        """Every rank is part of the engine, which is up and can answer."""
        return self._together() and self.boot_left <= 0 and not self._stalled()

    def epochs(self) -> set[str | None]:
        return {node.unit.epoch for node in self.nodes if node.unit.state != "down"} - {"by hand"}

    # Time.

    def run(self, seconds: float) -> None:
        for _second in range(int(seconds)):
            self.step()

    def until(self, state: str, within_s: float) -> float:
        """Seconds until the head's guard says so."""
        began = self.now
        while self.now - began < within_s:
            self.step()
            if self.state == state:
                return self.now - began
        raise AssertionError(
            f"{state} was not reached within {within_s} s, but {self.state}: {self.log[-12:]}"
        )

    def step(self) -> None:
        self.now += 1
        for node in self.nodes:
            self._systemd(node)
        self._engine()
        for node in self.nodes:
            self._guard(node)
        assert len(self.epochs()) <= 1, f"two epochs at once: {self.epochs()} at {self.now}: {self.log[-12:]}"
        if not self.states or self.states[-1][1] != self.state:
            self.states.append((self.now, self.state))

    def _begin(self, unit: SimUnit) -> None:
        self._number += 1
        unit.invocation = f"start-{self._number}"
        unit.go("preparing", self.now)

    def _systemd(self, node: Node) -> None:
        unit, age = node.unit, self.now - node.unit.since
        if unit.undying and unit.state != "active":
            return
        if unit.state == "preparing" and age >= 1:
            # tandem fabric --env refuses to start without a carrier.
            unit.go("active" if self.link or len(self.nodes) == 1 else "restarting", self.now)
        elif unit.state == "restarting" and age >= 5:
            self._begin(unit)
        elif unit.state == "stopping" and age >= (20 if unit.frozen else 3):
            unit.go("down", self.now)

    def _together(self) -> bool:
        return self.engine is not None and all(
            node.powered and node.unit.state == "active" and node.unit.joined == self.engine
            for node in self.nodes
        )

    def _stalled(self) -> bool:
        cut = not self.link and len(self.nodes) > 1
        return cut or any(node.unit.frozen for node in self.nodes)

    def _engine(self) -> None:
        head = self.nodes[0].unit
        fresh = [node.unit for node in self.nodes if node.unit.state == "active" and node.unit.joined is None]
        if len(fresh) == len(self.nodes) and not self._stalled():
            self._number += 1
            self.engine, self.boot_left, self.stalled_since = self._number, BOOT_S, None
            for unit in fresh:
                unit.joined = self.engine
        if self.engine is None or head.joined != self.engine:
            self.stalled_since = None
            return
        if not self._together() or self._stalled():
            self.stalled_since = self.stalled_since or self.now
            lost = not self._together() and self.link and all(node.powered for node in self.nodes)
            if self.now - self.stalled_since >= (3 if lost else STALL_ENDS_S) and not head.frozen:
                head.go("restarting", self.now)  # code 0
            return
        self.stalled_since = None
        if not any(node.compiling for node in self.nodes):
            self.boot_left -= 1
            self.tokens += 7 if (self.busy or self.prefill) and self.boot_left <= 0 else 0

    # Guards.

    def _guard(self, node: Node) -> None:
        if not node.powered:
            return
        if node.guard is None:
            if self.now < node.back_at:
                return
            leads = node.number == 0
            rank = Rank(self.limits, self.now, leads=leads, memory=node.run.get("rank"))
            group = (
                Group(len(self.nodes), self.limits, self.now, self._epoch, node.run.get("group"))
                if leads
                else None
            )
            node.guard = Guard(rank, group)
        guard = node.guard
        unit = Unit(node.unit.state, node.unit.invocation)
        guard.rank.observe(unit)
        report = self._report(node, guard)
        if guard.group:
            guard.heard[0] = Heard(report, self.now)
            for action in guard.group.tick(self.now, guard.heard, self._news(guard)):
                self._act(node, guard, action)
            order = guard.group.order(0)
        else:
            order = self._exchange(node, report)
        if order is not None:
            guard.look = order.look
        for action in guard.rank.tick(self.now, unit, order, node.hold):
            self._act(node, guard, action)
        node.run = {"rank": guard.rank.memory(), "group": guard.group.memory() if guard.group else None}

    def _epoch(self) -> str:
        self._number += 1
        return f"epoch-{self._number}"

    def _exchange(self, node: Node, report: Report) -> Order | None:
        head = self.nodes[0]
        if not (self.link and head.powered and head.guard and head.guard.group):
            return None
        head.guard.heard[node.number] = Heard(report, self.now)
        return head.guard.group.order(node.number)

    def _report(self, node: Node, guard: Guard) -> Report:
        unit = node.unit
        available = 30.0 if unit.state != "down" else min(110.0, 30.0 + 25.0 * (self.now - unit.since))
        if self.memory_leaks:
            available = min(available, 60.0)
        return Report(
            node.number,
            unit.state,
            unit.invocation,
            guard.rank.epoch,
            guard.rank.by_hand,
            node.hold,
            guard.memory.tick(self.now, unit.state == "down", available),
            node.compiling if guard.look else None,
            str(node.cache) if guard.look else None,
        )

    def _news(self, guard: Guard) -> News:
        answer = counters = warm = None
        if guard.asked:
            answer = self._answer(*guard.asked)
            if answer:
                guard.asked = None
        if guard.counting:
            guard.counting = False
            counters = None if self.nodes[0].unit.frozen else Progress(self.tokens, self.tokens, 0.1, 0)
        if guard.warming:
            ticket, left = guard.warming
            if not self._together():
                warm, guard.warming = (ticket, "the API went away"), None
            elif left <= 0:
                warm, guard.warming = (ticket, None), None
            elif self.healthy:
                guard.warming, guard.warm_still = (ticket, left - 1), 0
            elif guard.warm_still >= self.limits.stall_s:
                warm, guard.warming = (ticket, "stalled"), None
            else:
                guard.warm_still += 1
        again, self.again = self.again, False
        return News(answer, counters, warm, again)

    def _answer(self, ticket: int, asked_at: float) -> Answer | None:
        head = self.nodes[0].unit
        if head.state != "active" or self.engine is None or head.joined != self.engine or self.boot_left > 0:
            return Answer(ticket, "unreachable", "connection refused")
        if self.dumb:
            return Answer(ticket, "unreachable", "HTTP 500")
        if not self.healthy or self.prefill or any(node.compiling for node in self.nodes):
            return Answer(ticket, "late") if self.now - asked_at > self.limits.busy_s else None
        return Answer(ticket, "degenerate", "1. 2. 3.") if self.wrong else Answer(ticket, "right", "391", 0.2)

    def _act(self, node: Node, guard: Guard, action: Action) -> None:
        unit = node.unit
        self.log.append(f"{self.now:.0f} rank {node.number}: {action.kind} {action.value}")
        if action.kind == "start":
            running = [other.unit for other in self.nodes if other is not node and other.unit.state != "down"]
            old = [other for other in running if other.epoch not in (guard.rank.epoch, "by hand")]
            assert not old, f"rank {node.number} starts {guard.rank.epoch} beside {old}"
            assert unit.state == "down"
            unit.epoch = guard.rank.epoch
            self.starts.append((self.now, node.number, unit.epoch))
            self._begin(unit)
        elif action.kind == "stop" and unit.state != "down":
            if action.value and not unit.undying:
                unit.go("down", self.now)
            elif unit.state != "stopping":
                unit.go("stopping", self.now)
        elif action.kind == "ask":
            guard.asked = (action.value, self.now)
        elif action.kind == "count":
            guard.counting = True
        elif action.kind == "warm_up":
            guard.warming, guard.warm_still = (action.value, WARM_S), 0
        elif action.kind == "abandon":
            guard.asked = guard.warming = None
        elif action.kind == "note":
            self.notes.append((self.now, *action.value))
