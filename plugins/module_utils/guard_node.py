# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard of one rank at work: each tick it looks, speaks with the others, and does what the rules say."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import compilers, engine_state, guard_speech, jit_caches, records
from .engine_config import read_environment
from .files import FilesError
from .guard_hold import APPLIED, holder
from .guard_look import STATE_FILE, made_of
from .guard_rules import Action, MemoryReturn, Order, Rank, Report
from .guard_setup import GuardError, Setup
from .guard_unit import LocalUnit
from .kernel_files import Tree

if TYPE_CHECKING:
    from .guard_head import Head

FABRIC_ENV = "run/tandem/fabric.env"
_SAVE_EVERY_S = 5.0
_FACTS_EVERY_S = 10.0
_LOOK_EVERY_S = 3.0
_LOOK_LIMIT_S = 10.0
_HISTORY_LINES = 10
_MEM_AVAILABLE = re.compile(r"(?m)^MemAvailable:\s+(\d{1,15}) kB")

Say = Callable[[str], None]


def available_gib(root: Path) -> float | None:
    try:
        found = _MEM_AVAILABLE.search((root / "proc/meminfo").read_text())
    except OSError:
        return None
    return int(found[1]) / 2**20 if found else None


def facts(root: Path, setup: Setup) -> dict[str, Any]:
    """What is shown of this rank, and decides nothing."""
    planned = setup.plan.get("fabric")
    rails = planned.get("rails") if isinstance(planned, dict) else None
    environment = read_environment(root / FABRIC_ENV) or {}
    hcas = environment.get("NCCL_IB_HCA", "").removeprefix("=")
    index = environment.get("NCCL_IB_GID_INDEX")
    available = available_gib(root)
    return {
        "release": engine_state.current(root),
        "memory_available_gib": None if available is None else round(available, 1),
        "gids": (f"{hcas} index {index or 'left to NCCL'}" if hcas else "no HCA: sockets only")[:200]
        if environment
        else None,
        "rails": [
            {
                "netdev": str(rail.get("netdev"))[:64],
                "address": str(rail.get("address"))[:64],
                "state": _rail_state(root, rail),
            }
            for rail in (rails if isinstance(rails, list) else [])[:8]
            if isinstance(rail, dict)
        ],
    }


def _written_at(path: Path) -> str | None:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(path.stat().st_mtime))
    except OSError:
        return None


def _rail_state(root: Path, rail: dict[str, Any]) -> str:
    netdev = str(rail.get("netdev"))
    tree = Tree(str(root / "sys/class/net"))
    if netdev not in tree.names():
        return "absent"
    carrier, speed = tree.number(netdev, "carrier"), tree.number(netdev, "speed")
    if carrier is None:  # a device that is down does not tell
        return "down"
    if carrier == 0:
        return "no carrier"
    return f"{speed / 1000:g} Gb/s" if speed and speed > 0 else "up"


class Signs:
    """Whether this rank compiles: looked for in a thread, and only while the head wants to know."""

    def __init__(self, root: Path):
        self._root = root
        self._busy = False
        self._looked_at = float("-inf")
        self.compiling: bool | None = None
        self.cache: str | None = None

    def want(self, now: float, wanted: bool) -> None:
        if not wanted:
            self.compiling = self.cache = None
            self._looked_at = float("-inf")
        elif not self._busy and now - self._looked_at >= _LOOK_EVERY_S:
            self._busy, self._looked_at = True, now
            threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        try:
            self.compiling = bool(compilers.at_work(str(self._root / "proc")))
            self.cache = jit_caches.growth_mark(self._root, _LOOK_LIMIT_S)
        finally:
            self._busy = False


def remembered(root: Path) -> dict[str, Any]:
    """{rank, group}: what the guard before this one left; empty after a boot."""
    memory = (records.read_json(root / STATE_FILE) or {}).get("memory")
    return memory if isinstance(memory, dict) else {}


class Guard:
    """One rank's guard. head: what decides for the group, on rank 0 alone; the others ask it over the rails."""

    def __init__(self, setup: Setup, secret: bytes | None, say: Say, root: Path, head: Head | None = None):
        self.setup, self._secret, self._say, self._root, self._head = setup, secret, say, root, head
        self._unit = LocalUnit(setup.unit, root, say)
        known = remembered(root).get("rank")
        self._rank = Rank(setup.limits, time.monotonic(), leads=head is not None, memory=known)
        self._memory_return, self._signs = MemoryReturn(), Signs(root)
        self._order: Order | None = None
        self._heard_head_at: float | None = None
        self._facts: dict[str, Any] = {}
        self._facts_at = self._saved_at = float("-inf")
        self._saved: dict[str, Any] = {}
        self._made_of = made_of(root)
        self._troubles: set[str] = set()

    def tick(self) -> None:
        now = time.monotonic()
        report = self._look(now)
        order = self._head.decide(report, self._do) if self._head else self._call(report)
        now = time.monotonic()
        self._signs.want(now, bool(order and order.look))
        for action in self._rank.tick(now, self._unit.unit, order, report.hold):
            self._do(action)
        self._save(now)

    def _look(self, now: float) -> Report:
        unit = self._unit.look(now)
        held = holder(self._root)
        self._rank.observe(unit)
        if now - self._facts_at >= _FACTS_EVERY_S:
            self._facts, self._facts_at = facts(self._root, self.setup), now
        down = unit.state == "down"
        return Report(
            rank=self.setup.rank,
            unit=unit.state,
            invocation=unit.invocation,
            epoch=self._rank.epoch,
            by_hand=self._rank.by_hand,
            hold=held[:64] if held else None,
            free=self._memory_return.tick(now, down, available_gib(self._root) if down else None),
            compiling=self._signs.compiling,
            cache=self._signs.cache,
            facts=self._facts,
        )

    def _call(self, report: Report) -> Order | None:
        try:
            order = guard_speech.call(self.setup.speech, self._secret or b"", report)
        except guard_speech.SpeechError as error:
            self._once(f"the head is not heard: {error}")
            return None
        self._troubles.clear()
        if self._order is None or self._order.state != order.state:
            self._say(f"the head says: {order.state}")
        self._order, self._heard_head_at = order, time.monotonic()
        return order

    def _once(self, trouble: str) -> None:
        """Says it, and not again before things were in order."""
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            self._say(trouble)

    def _do(self, action: Action) -> None:
        if action.kind == "say":
            self._say(action.value)
        elif action.kind == "note":
            self._note(*action.value)
        elif action.kind == "start":
            self._say(f"start {self.setup.unit} for epoch {self._rank.epoch}")
            self._unit.start()
        elif action.kind == "stop":
            self._say(f"stop {self.setup.unit}{' by SIGKILL' if action.value else ''}")
            self._unit.stop(action.value)
        elif self._head is None or not self._head.do(action):
            raise GuardError(f"no such action: {action.kind}")

    def _note(self, outcome: str, reason: str) -> None:
        record = {"outcome": outcome, "reason": reason, "digest": engine_state.current(self._root)}
        try:
            records.note(self._root, "recovery", record)
        except FilesError as error:
            self._once(str(error))

    def snapshot(self) -> dict[str, Any]:
        """See guard_page: what is shown, and written for `tandem status`."""
        now, setup = time.monotonic(), self.setup
        told: dict[str, Any] = {
            "group": setup.group,
            "rank": setup.rank,
            "hosts": list(setup.hosts),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "monotonic_s": round(now, 1),
            "made_of": self._made_of,
            "applied": Tree(str(self._root)).text(APPLIED),
            "applied_at": _written_at(self._root / APPLIED),
            "history": records.history(self._root, _HISTORY_LINES)[0],
        }
        return {**told, **(self._head.snapshot(now) if self._head else self._own(now))}

    def _own(self, now: float) -> dict[str, Any]:
        order, at = self._order, self._heard_head_at
        known = at is not None and now - at <= self.setup.limits.lost_s
        why = "the head was never heard" if at is None else f"the head was heard {now - at:.0f} s ago"
        ranks: list[dict[str, Any]] = [{"host": host} for host in self.setup.hosts]
        ranks[self.setup.rank] |= {"unit": self._unit.unit.state, "age_s": 0.0, "facts": self._facts}
        return {"state": order.state if order and known else "silent", "why": why, "ranks_seen": ranks}

    def _save(self, now: float) -> None:
        """Written at once where something changed that a guard which is started anew must know."""
        memory = {"rank": self._rank.memory(), "group": self._head.memory() if self._head else None}
        if memory == self._saved and now - self._saved_at < _SAVE_EVERY_S:
            return
        path = self._root / STATE_FILE
        fresh = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps({"snapshot": self.snapshot(), "memory": memory}))
            os.replace(fresh, path)
        except OSError as error:
            self._once(f"{path} could not be written: {error.strerror or error}")
            return
        self._saved, self._saved_at = memory, now
