# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard of the head decides for all ranks of its group. Pure: guard_rules says what the words mean.

The ranks of a group live and die together, because a worker outlives its head and a head outlives its worker. Each
start of the group is an epoch. Whatever breaks one ends it on every rank, and the next one begins only after every
rank was seen down and its memory came back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .engine_metrics import Progress
from .guard_life import Answer, Life
from .guard_rules import NOTHING, RUN, STOP, UP, Action, Limits, Order, Report
from .kernel_files import is_number

# Phases of the group, and stages of a start. Most are states too: what the group is called from outside.
ADOPTING, HELD, OFF, STOPPING, RUNNING, GIVEN_UP = (
    "adopting",
    "held",
    "off",
    "stopping",
    "running",
    "given-up",
)
STARTING, WARMING, SERVING = "starting", "warming", "serving"
REPORT_FRESH_S = 3.5  # a rank reports every second
_LOOK_AFTER_S = 2.0
_COUNT_EVERY_S = 2.0
_ASK_AGAIN_S = 3.0


@dataclass(frozen=True)
class Heard:
    report: Report
    at: float


@dataclass(frozen=True)
class News:
    """What came since the last tick. warm: (ticket, trouble or None) of a warm-up that ended."""

    answer: Answer | None = None
    counters: Progress | None = None
    warm: tuple[int, str | None] | None = None
    again: bool = False


@dataclass
class _Start:
    """One start of the group. bound: {rank: invocation} of those that were seen to run in it."""

    epoch: str
    began: float
    life: Life
    bound: dict[int, str] = field(default_factory=dict)
    stage: str = STARTING
    warm: bool = False
    ticket: int = 0
    warming_since: float = 0.0
    counted_at: float = float("-inf")


class Group:
    def __init__(
        self,
        ranks: int,
        limits: Limits,
        now: float,
        new_epoch: Callable[[], str],
        memory: Mapping[str, Any] | None = None,
    ):
        self._ranks, self._limits, self._new_epoch = ranks, limits, new_epoch
        self._heard: Mapping[int, Heard] = {}
        self._actions: list[Action] = []
        self._saved = _checked(memory)
        self._now = now
        self._ended: set[int] = set()  # in OFF: seen down, so that what starts there is an operator's
        self._ticket = 0
        self.phase, self.since, self.reason = ADOPTING, now, "the guard was started"
        self.hard = True
        self.start: _Start | None = None
        self._all_down_at: float | None = None
        self._not_before = now
        self._said_stuck = False
        self.failures: int = self._saved.get("failures", 0)
        self.recoveries: int = self._saved.get("recoveries", 0)
        if self._saved.get("given_up"):
            self.phase, self.reason = GIVEN_UP, str(self._saved.get("reason", ""))
            self._all_down_at = now if self._saved.get("left_alone") else None

    # What is told.

    def order(self, rank: int) -> Order:
        state, _why = self.state(self._now)
        if self.phase == RUNNING and self.start:
            invocation = self.start.bound.get(rank)
            return Order(
                RUN, self.start.epoch, invocation=invocation, look=self._wants_look, state=self.phase
            )
        stops = self.phase in (STOPPING, GIVEN_UP) or (self.phase == OFF and rank not in self._ended)
        return Order(STOP if stops and not self._left_alone else NOTHING, hard=self.hard, state=state)

    @property
    def _left_alone(self) -> bool:
        """Given up, and seen down: what an operator starts now is theirs."""
        return self.phase == GIVEN_UP and self._all_down_at is not None

    @property
    def _wants_look(self) -> bool:
        life = self.start.life if self.start else None
        return life is not None and life.asked_at is not None and self._now - life.asked_at >= _LOOK_AFTER_S

    def state(self, now: float) -> tuple[str, str]:
        """(one of guard_rules.STATES, why)."""
        if self.phase == RUNNING and self.start:
            if self.start.stage == SERVING:
                return self.start.life.health(now)
            answered = (
                self.start.life.right_at is not None
            )  # what follows is the answer that shows it is warm
            return (WARMING if answered else STARTING), self.reason
        if self.phase == STOPPING:
            if self._all_down_at is not None:
                return "waiting", self._waits_for(now)
            alive = [rank for rank, report in self._fresh().items() if report.unit != "down"]
            silent = [rank for rank in range(self._ranks) if rank not in self._fresh()]
            what = [f"{_ranks(alive)} to end"] * bool(alive) + [f"{_ranks(silent)} to be heard"] * bool(
                silent
            )
            return (STOPPING if alive else "waiting"), f"waits for {' and '.join(what)}: {self.reason}"
        return self.phase, self.reason

    def memory(self) -> dict[str, Any]:
        """What a guard that is started anew must know, until the next boot."""
        running = self.start if self.phase == RUNNING else None
        return {
            "given_up": self.phase == GIVEN_UP,
            "left_alone": self._left_alone,
            "reason": self.reason,
            "failures": self.failures,
            "recoveries": self.recoveries,
            "epoch": running.epoch if running else None,
            "bound": {str(rank): invocation for rank, invocation in running.bound.items()} if running else {},
            "warm": bool(running and running.warm),
        }

    # What is decided.

    def tick(self, now: float, heard: Mapping[int, Heard], news: News) -> list[Action]:
        self._now, self._heard, self._actions = now, heard, []
        holds = {rank: report.hold for rank, report in self._fresh().items() if report.hold}
        if holds:
            self._hold(holds)
        elif self.phase == HELD:
            self._saved, self.failures = {}, 0
            self._go(ADOPTING, "the hold ended")
        elif self.phase == GIVEN_UP and news.again:
            self.failures = 0
            self._go(ADOPTING, "it was told to try again")
        step = {
            ADOPTING: self._adopting,
            OFF: self._off,
            STOPPING: self._stopping,
            GIVEN_UP: self._given_up,
        }.get(self.phase)
        if step:
            step()
        if self.phase == RUNNING and self.start:
            self._running(self.start, news)
        return self._actions

    def _fresh(self) -> dict[int, Report]:
        known = self._heard.items()
        return {rank: heard.report for rank, heard in known if self._now - heard.at <= REPORT_FRESH_S}

    def _silent(self) -> list[int]:
        """Ranks that were heard too long ago, or never."""
        last = {
            rank: self._heard[rank].at if rank in self._heard else self.since for rank in range(self._ranks)
        }
        return [rank for rank, at in last.items() if self._now - max(at, self.since) > self._limits.lost_s]

    def _go(self, phase: str, reason: str) -> None:
        if (phase, reason) != (self.phase, self.reason):
            self._actions.append(Action("say", f"{self.phase} -> {phase}: {reason}"))
        if phase != RUNNING and self.start:
            self._actions.append(Action("abandon"))
            self.start = None
        self.phase, self.since, self.reason = phase, self._now, reason
        self._all_down_at, self._said_stuck = None, False

    def _hold(self, holds: Mapping[int, str]) -> None:
        who = ", ".join(sorted({f"{owner} (rank {rank})" for rank, owner in holds.items()}))
        if self.phase != HELD or self.reason != f"held by {who}":
            self._go(HELD, f"held by {who}")

    def _stop(self, reason: str, hard: bool) -> None:
        self.hard = hard
        self._go(STOPPING, reason)

    def _break(self, reason: str) -> None:
        """This start is over, and that is a failure."""
        self.failures += 1
        if self.failures > self._limits.most_recoveries:
            self.hard = True
            end = f"given up after {self._limits.most_recoveries} recoveries without a right answer; the last: {reason}"
            self._go(GIVEN_UP, end)
            self._actions.append(Action("note", ("given-up", end)))
            return
        self.recoveries += 1
        self._not_before = self._now + self._limits.pause_s(self.failures)
        self._actions.append(Action("note", ("began", reason)))
        self._stop(reason, hard=True)

    def _adopting(self) -> None:
        fresh = self._fresh()
        if len(fresh) < self._ranks:
            if silent := self._silent():
                self._stop(f"{_ranks(silent)} silent, nothing to adopt", hard=True)
            return
        if any(report.unit in ("unknown", "queued", "preparing") for report in fresh.values()):
            return  # systemd will tell soon; what may be in order is not killed meanwhile
        saved_epoch, saved_bound = self._saved.get("epoch"), self._saved.get("bound", {})
        running = {rank: report.invocation for rank, report in fresh.items() if report.unit == "active"}
        if saved_epoch and all(running.get(rank) == start for rank, start in saved_bound.items()):
            self._run(
                saved_epoch,
                saved_bound,
                self._saved.get("warm", False),
                "adopted after a restart of the guard",
            )
        elif saved_epoch:
            self._break("a rank died while the guard was away")
        elif len(running) == self._ranks and all(running.values()):
            # Whoever started them vouches for the warm-up; nobody but an answer vouches for the rest.
            self._run(self._new_epoch(), running, True, "adopted as it runs")
        elif any(report.by_hand for report in fresh.values()):
            self._part(fresh)
        else:
            self._stop("not all ranks run", hard=True)
        self._saved = {}

    def _run(self, epoch: str, bound: Mapping[int, str], warm: bool, reason: str) -> None:
        self._go(RUNNING, f"epoch {epoch}, {reason}")
        self.start = _Start(epoch, self._now, Life(self._limits, self._now), dict(bound), warm=warm)

    def _part(self, fresh: Mapping[int, Report]) -> None:
        """An operator stopped a rank. The others wait for it, and for what its operator does next."""
        by_hand = [rank for rank, report in fresh.items() if report.by_hand]
        self.hard, self._ended = False, set(by_hand)
        self._go(OFF, f"{_ranks(by_hand)} stopped by hand; the others start again with it")

    def _off(self) -> None:
        fresh = self._fresh()
        # A report from before the order to stop says nothing of its end.
        self._ended |= {
            r for r, report in fresh.items() if report.unit == "down" and self._heard[r].at > self.since
        }
        if len(fresh) < self._ranks or any(report.by_hand for report in fresh.values()):
            return
        up = {
            rank: report.invocation
            for rank, report in fresh.items()
            if report.unit in UP and report.invocation
        }
        if any(report.unit != "down" for rank, report in fresh.items() if rank not in up):
            return
        if up and set(up) <= self._ended:
            self._run(self._new_epoch(), up, False, f"{_ranks(list(up))} started by hand")
        else:
            self._stop("what was stopped by hand is wanted again", hard=True)

    def _given_up(self) -> None:
        fresh = self._fresh()
        if self._all_down_at is None and len(fresh) == self._ranks and _all_down(fresh):
            self._all_down_at = self._now

    def _stopping(self) -> None:
        # A report from before the order to stop says nothing: what was down may have been started since.
        fresh = {r: report for r, report in self._fresh().items() if self._heard[r].at > self.since}
        if any(report.by_hand for report in fresh.values()):
            self._part(fresh)
            return
        if len(fresh) < self._ranks or not _all_down(fresh):
            self._all_down_at = None
            self._tell_stuck(fresh)
            return
        if self._all_down_at is None:
            self._all_down_at = self._now
        patient = self._now - self._all_down_at < self._limits.memory_wait_s
        lacking = [rank for rank, report in fresh.items() if not report.free]
        if self._now < self._not_before or (lacking and patient):
            return
        if lacking:
            self._actions.append(
                Action("say", f"starting although the memory of {_ranks(lacking)} did not come back")
            )
        self._run(self._new_epoch(), {}, False, f"after: {self.reason}")

    def _tell_stuck(self, fresh: Mapping[int, Report]) -> None:
        alive = [rank for rank, report in fresh.items() if report.unit != "down"]
        if alive and not self._said_stuck and self._now - self.since > self._limits.stuck_s:
            self._said_stuck = True
            text = f"{_ranks(alive)} not down {self._limits.stuck_s:.0f} s after SIGKILL: if a process of it is in "
            self._actions.append(
                Action("say", f"{text}state D (ps -eo pid,stat,comm), only a reboot ends it")
            )

    def _waits_for(self, now: float) -> str:
        if now < self._not_before:
            return (
                f"the pause of {self._not_before - now:.0f} s after {self.failures} failures: {self.reason}"
            )
        return f"the memory of the last start: {self.reason}"

    # A start, from its first unit to its last answer.

    def _running(self, start: _Start, news: News) -> None:
        fresh = self._fresh()
        if silent := self._silent():
            self._break(f"{_ranks(silent)} silent for {self._limits.lost_s:.0f} s")
        elif any(report.by_hand for report in fresh.values()):
            self._part(fresh)
        elif any(report.unit == "stopping" for report in fresh.values()):
            pass  # by hand, and soon down; what others, or a warm-up, suffer of it is no fault
        elif dead := self._bind(start, fresh):
            self._break(f"{_ranks(dead)} died")
        elif trouble := self._trouble(start, fresh, news):
            self._break(trouble)
        else:
            self._go_on(start)

    def _bind(self, start: _Start, fresh: Mapping[int, Report]) -> list[int]:
        """Notes which start of each unit belongs to this one; returns the ranks whose unit is another one now.

        A unit that was never seen to run may try again and again: what it lacks (a cable) is no reason to give up.
        """
        dead = []
        for rank, report in fresh.items():
            bound = start.bound.get(rank)
            if bound is None:
                if report.unit == "active" and report.epoch == start.epoch and report.invocation:
                    start.bound[rank] = report.invocation
            elif report.unit in ("ending", "restarting", "down", "queued"):
                dead.append(rank)
            elif report.unit in ("active", "preparing") and report.invocation != bound:
                dead.append(rank)
        return dead

    def _trouble(self, start: _Start, fresh: Mapping[int, Report], news: News) -> str | None:
        """Why this start has failed, None while it has not."""
        now, limits, life = self._now, self._limits, start.life
        life.count(now, news.counters)
        if self._wants_look:
            life.look(now, fresh)
        if news.answer and life.asked_at is not None and news.answer.ticket == start.ticket:
            known = life.answer
            life.take(now, news.answer)
            if known is None or known.outcome != news.answer.outcome:
                self._actions.append(Action("say", f"asked: {news.answer.outcome}, {news.answer.why}"))
            if news.answer.outcome == "right":
                self._answered(start)
        if news.warm and start.stage == WARMING and news.warm[0] == start.ticket:
            if news.warm[1]:
                return f"the warm-up failed: {news.warm[1]}"
            start.warm, start.stage = True, STARTING
        if start.stage == WARMING:
            too_long = now - start.warming_since > limits.warm_up_s
            return f"the warm-up took more than {limits.warm_up_s:.0f} s" if too_long else None
        if life.bad >= limits.bad_answers:
            return f"{life.bad} answers in a row were bad: {life.answer.why if life.answer else ''}"
        if life.right_at is None and now - start.began > limits.boot_s:
            return f"no right answer within {limits.boot_s:.0f} s of the start"
        if life.right_at is not None:  # until then nothing listens
            if life.missed_at is not None and now - life.missed_at >= limits.probe_timeout_s:
                return f"the API does not answer: {life.answer.why if life.answer else ''}"
        patience_s = limits.probe_timeout_s if start.stage == SERVING else limits.stall_s
        return life.wedged(now, patience_s, fresh, self._ranks)

    def _answered(self, start: _Start) -> None:
        if start.stage == STARTING and not start.warm:
            start.stage, start.warming_since = WARMING, self._now
            self._ticket = start.ticket = self._ticket + 1
            self.reason = f"epoch {start.epoch} answers, and is warmed up"
            self._actions.append(Action("say", self.reason))
            self._actions.append(Action("warm_up", start.ticket))
        elif start.stage == STARTING:
            start.stage = SERVING
            seconds = self._now - start.began
            since = "its start" if start.warming_since else "it was adopted"
            self.reason = f"epoch {start.epoch} ready {seconds:.0f} s after {since}"
            self._actions.append(Action("say", self.reason))
            if self.failures:
                self._actions.append(Action("note", ("recovered", self.reason)))
            self.failures = 0

    def _go_on(self, start: _Start) -> None:
        """Ask when it is time to; count while an answer is late."""
        now, life = self._now, start.life
        if start.stage == WARMING or len(start.bound) < self._ranks:
            return
        if life.asked_at is None:
            content = start.stage == SERVING and life.answer is not None and life.answer.outcome == "right"
            pause_s = self._limits.probe_interval_s if content else _ASK_AGAIN_S
            if now - life.ended_at >= pause_s:
                self._ticket = start.ticket = self._ticket + 1
                life.ask(now)
                self._actions.append(Action("ask", start.ticket))
        elif now - life.asked_at >= _LOOK_AFTER_S and now - start.counted_at >= _COUNT_EVERY_S:
            start.counted_at = now
            self._actions.append(Action("count"))


def _all_down(reports: Mapping[int, Report]) -> bool:
    return all(report.unit == "down" for report in reports.values())


def _ranks(numbers: list[int]) -> str:
    plural = "" if len(numbers) == 1 else "s"
    return f"rank{plural} {', '.join(map(str, sorted(numbers)))}"


def _checked(memory: Mapping[str, Any] | None) -> dict[str, Any]:
    """What can be used of a remembered state; {} where it is none."""
    known = dict(memory or {})
    bound = known.get("bound")
    counts = all(isinstance(known.get(name, 0), int) for name in ("failures", "recoveries"))
    epoch = known.get("epoch")
    if not counts or not isinstance(bound, dict) or not isinstance(epoch, (str, type(None))):
        return {}
    if not all(is_number(str(rank)) and isinstance(start, str) for rank, start in bound.items()):
        return {}
    return {**known, "bound": {int(rank): start for rank, start in bound.items()}}
