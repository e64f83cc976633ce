# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only the guard of the head does: hear the others, decide with the rules, and ask the engine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .guard_group import Group, Heard, News
from .guard_probe import Prober, WarmUp
from .guard_rules import HEALTHY, Action, Order, Report
from .guard_setup import Setup


class Head:
    def __init__(self, setup: Setup, memory: Mapping[str, Any] | None, prober: Prober, warm_up: WarmUp):
        self._setup, self._prober, self._warm_up = setup, prober, warm_up
        self._group = Group(setup.ranks, setup.limits, time.monotonic(), lambda: os.urandom(4).hex(), memory)
        self._lock = threading.Lock()  # hear() and snapshot() come from other threads
        self._heard: dict[int, Heard] = {}
        self._again = threading.Event()

    def again(self) -> None:
        """Try again after giving up."""
        self._again.set()

    def memory(self) -> dict[str, Any]:
        return self._group.memory()

    def hear(self, report: Report) -> Order:
        """What the head answers to another rank; ValueError for a rank that is none."""
        if not 0 < report.rank < self._setup.ranks:
            raise ValueError(f"rank {report.rank} is no other rank of a group of {self._setup.ranks}")
        with self._lock:
            self._heard[report.rank] = Heard(report, time.monotonic())
            return self._group.order(report.rank)

    def decide(self, report: Report, do: Callable[[Action], None]) -> Order:
        """One step of the group, with what its own rank reports; returns that rank's order."""
        news = News(
            self._prober.answer(), self._prober.counters(), self._warm_up.ended(), self._again.is_set()
        )
        self._again.clear()
        with self._lock:
            now = time.monotonic()
            self._heard[0] = Heard(report, now)
            actions = self._group.tick(now, self._heard, news)
            order = self._group.order(0)
        for action in actions:
            do(action)
        return order

    def do(self, action: Action) -> bool:
        """False where it is none of the head's."""
        if action.kind == "ask":
            self._prober.ask(action.value)
        elif action.kind == "count":
            self._prober.count()
        elif action.kind == "warm_up":
            self._warm_up.start(action.value)
        elif action.kind == "abandon":
            self._warm_up.abandon()
        else:
            return False
        return True

    def end(self) -> None:
        self._warm_up.abandon()

    def snapshot(self, now: float) -> dict[str, Any]:
        """The head's part of what guard_page shows."""
        with self._lock:
            state, why = self._group.state(now)
            life = self._group.start.life if self._group.start else None
            answer = life.answer if life else None
            return {
                "state": state,
                "why": why,
                "healthy": state in HEALTHY,
                "epoch": self._group.start.epoch if self._group.start else None,
                "recoveries": self._group.recoveries,
                "failures": self._group.failures,
                "answer": {
                    "outcome": answer.outcome if answer else None,
                    "why": answer.why if answer else None,
                    "seconds": answer.seconds if answer else None,
                    "tokens_per_s": answer.tokens_per_s if answer else None,
                    "right_age_s": round(now - life.right_at, 1)
                    if life and life.right_at is not None
                    else None,
                },
                "ranks_seen": [self._seen(rank, host, now) for rank, host in enumerate(self._setup.hosts)],
            }

    def _seen(self, rank: int, host: str, now: float) -> dict[str, Any]:
        heard = self._heard.get(rank)
        if heard is None:
            return {"host": host}
        report = heard.report
        told = {"host": host, "unit": report.unit, "age_s": round(now - heard.at, 1), "hold": report.hold}
        return {**told, "facts": report.facts}
