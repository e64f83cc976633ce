# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When an engine is wedged, and what an honest health check says of it. Pure; times as in guard_rules.

A wedge: a question stays unanswered for a time-out, and in all of that time no token was counted, nothing of the KV
cache moved, and no rank compiled. A long prefill moves the counters, a cold compile has compilers or a growing cache.
The question is left open, since one that is asked again would wait at the end of the engine's queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .engine_metrics import Progress
from .guard_rules import Limits, Report

# right and the three below are judged answers. unreachable: refused, reset, or HTTP 5xx; unclear: HTTP 4xx or a cut
# stream, where the engine may well be in order; late: given up after busy_s.
OUTCOMES = ("right", "wrong", "degenerate", "inconclusive", "unreachable", "unclear", "late")
BAD = ("wrong", "degenerate")


@dataclass(frozen=True)
class Answer:
    """What came of a question. ticket: that of the action which asked it."""

    ticket: int
    outcome: str
    why: str = ""
    seconds: float | None = None
    tokens_per_s: float | None = None


class Life:
    """The signs of life of one start of the group."""

    def __init__(self, limits: Limits, now: float):
        self._limits = limits
        self._began = now
        self._counters: Progress | None = None
        self._caches: dict[int, str] = {}
        self.asked_at: float | None = None
        self.moved_at = now
        self.generated_at = now
        self.right_at: float | None = None
        self.missed_at: float | None = None
        self.ended_at = float("-inf")
        self.bad = 0
        self.answer: Answer | None = None

    def ask(self, now: float) -> None:
        """A question was sent. What moved before it says nothing."""
        self.asked_at = self.moved_at = now
        self._counters, self._caches = None, {}

    def count(self, now: float, counters: Progress | None) -> None:
        """Counters that could not be read are no sign of life, and no sign of a change."""
        if counters is None:
            return
        before, self._counters = self._counters, counters
        if before is not None and before != counters:
            self.moved_at = now
            if before.generation_tokens != counters.generation_tokens:
                self.generated_at = now

    def look(self, now: float, reports: Mapping[int, Report]) -> None:
        """Compilers and caches. After the hard cap they count no longer: they could go on for ever."""
        for rank, report in reports.items():
            grown = report.cache is not None and self._caches.get(rank, report.cache) != report.cache
            if report.cache is not None:
                self._caches[rank] = report.cache
            if (grown or report.compiling) and not self._past_cap(now):
                self.moved_at = now

    def take(self, now: float, answer: Answer) -> None:
        self.asked_at, self.ended_at = None, now
        if answer.outcome != "late":
            self.answer = answer
        if answer.outcome == "right":
            self.right_at, self.bad = now, 0
        elif answer.outcome in BAD:
            self.bad += 1
        if answer.outcome != "unreachable":
            self.missed_at = None
        elif self.missed_at is None:
            self.missed_at = now

    def _past_cap(self, now: float) -> bool:
        last = max(self._began, self.generated_at, self.right_at or self._began)
        return now - last > self._limits.hard_cap_s

    def late(self, now: float) -> bool:
        return self.asked_at is not None and now - self.asked_at >= self._limits.probe_timeout_s

    def wedged(self, now: float, patience_s: float, reports: Mapping[int, Report], ranks: int) -> str | None:
        """Why this is a wedge; None while it is none, or while a rank has not told whether it compiles."""
        if self.asked_at is None or now - self.asked_at < patience_s:
            return None
        if self._past_cap(now):
            return f"nothing was generated or answered within the last {self._limits.hard_cap_s:.0f} s"
        if now - self.moved_at < patience_s:
            return None
        if sum(report.compiling is not None for report in reports.values()) < ranks:
            return None
        return (
            f"wedged: a question is unanswered for {now - self.asked_at:.0f} s, and for {now - self.moved_at:.0f} s "
            "no counter moved and no rank compiled"
        )

    def health(self, now: float) -> tuple[str, str]:
        """(ready, busy, wrong or no-progress; why) of an engine that is warm."""
        limits, answer = self._limits, self.answer
        if answer is not None and answer.outcome in BAD:
            return "wrong", f"the last answer was {answer.outcome}: {answer.why}"
        if self.right_at is None:
            return "no-progress", "no right answer yet"
        age = now - self.right_at
        if age <= limits.fresh_s:
            return "ready", f"a right answer {age:.0f} s ago"
        moving = self.asked_at is not None and now - self.moved_at <= limits.probe_timeout_s
        if moving and age <= limits.busy_s:
            return "busy", f"the last right answer is {age:.0f} s old, and the counters move"
        if moving:
            return "no-progress", f"no right answer for {age:.0f} s, although the counters move"
        why = f"; the last question: {answer.outcome}, {answer.why}" if answer and answer.why else ""
        return "no-progress", f"no right answer for {age:.0f} s{why}"
