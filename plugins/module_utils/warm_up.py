# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warm an engine up: run every shape of work once that real traffic will bring, before it brings it.

Kernels compile lazily, one shape at a time, on each rank for itself; under tensor parallelism the other ranks wait
meanwhile inside a collective. Prompts of growing size, a burst, a burst of long prompts and one sustained decode reach
the shapes that matter. Answers are not judged here: tokens are counted, by the server's `usage` alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from .chat import Endpoint, Reply, ask
from .findings import Finding, finding
from .signs_of_life import Signs, Watch, signs_of
from .sized_prompts import Prompts
from .warm_up_plan import Ask, Phase, Plan

LOOK_EVERY_S = 2.0
LOOK_TIMEOUT_S = 10.0
_SAY_EVERY_S = 15.0
_SPARE_S = (
    5.0  # a request outlives the warm-up by this, so that it is the warm-up that says what took too long
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class WarmUp:
    """phases: {name, requests, seconds, tokens, prompt_tokens[]} of each that began, the last one perhaps cut short.

    requests, tokens: answered and generated, as the server counted them.
    """

    phases: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return self.trouble is None

    @property
    def trouble(self) -> Finding | None:
        """What ended the warm-up before its time."""
        return next((found for found in self.findings if found.severity == "error"), None)


class _Ended(Exception):
    """The warm-up cannot go on."""

    def __init__(self, trouble: Finding):
        super().__init__(trouble.summary)
        self.trouble = trouble


@dataclass(frozen=True)
class _Answer:
    ask: Ask
    prompt: str
    reply: Reply


def warm_up(
    endpoint: Endpoint,
    plan: Plan,
    *,
    say: Say = lambda line: None,
    look: Callable[[], Signs] | None = None,
    rng: random.Random | None = None,
) -> WarmUp:
    """Run the phases of the plan, the first trouble ends them. Raises for nothing that a server can do.

    say: takes a line of progress. look: the signs of life, by default the endpoint's counters and this machine's
    compilers. Requests that are open when the warm-up ends are left to their own end, shortly after the total timeout.
    """
    return _WarmUp(endpoint, plan, say, look, rng).run()


class _WarmUp:
    def __init__(
        self,
        endpoint: Endpoint,
        plan: Plan,
        say: Say,
        look: Callable[[], Signs] | None,
        rng: random.Random | None,
    ):
        self.endpoint, self.plan, self.say = endpoint, plan, say
        self.prompts = Prompts(rng)
        self.look_every_s = min(LOOK_EVERY_S, plan.stall_s / 4)
        patience = min(LOOK_TIMEOUT_S, plan.stall_s)
        self.watch = Watch(look or (lambda: signs_of(endpoint.url, verify=endpoint.verify, timeout=patience)))
        self.deadline = time.monotonic() + plan.total_timeout_s
        self.phases: list[dict[str, Any]] = []

    def run(self) -> WarmUp:
        findings: list[Finding] = []
        try:
            for phase in self.plan.phases:
                findings += self._run_phase(phase)
        except _Ended as end:
            findings.append(end.trouble)
            self.say(f"{end.trouble.summary}: {end.trouble.evidence}")
        return WarmUp(tuple(self.phases), tuple(findings))

    def _run_phase(self, phase: Phase) -> list[Finding]:
        began = time.monotonic()
        done = {"name": phase.name, "requests": 0, "seconds": 0.0, "tokens": 0, "prompt_tokens": []}
        self.phases.append(done)
        short: list[Finding] = []
        try:
            for batch in phase.batches:
                for answer in self._ask_together(phase.name, batch):
                    self._count(done, answer)
                    short = _short(phase, answer)
        finally:
            done["seconds"] = round(time.monotonic() - began, 2)
        self.say(
            f"{phase.name}: done, {done['requests']} requests, {sum(done['prompt_tokens'])} prompt tokens, "
            f"{done['tokens']} generated tokens in {done['seconds']:.1f} s"
        )
        return short

    def _count(self, done: dict[str, Any], answer: _Answer) -> None:
        reply = answer.reply
        done["requests"] += 1
        done["tokens"] += reply.completion_tokens
        done["prompt_tokens"].append(reply.prompt_tokens)
        self.prompts.measure(answer.prompt, reply.prompt_tokens)
        self.say(
            f"{done['name']}: {reply.prompt_tokens} prompt tokens, {reply.completion_tokens} generated tokens"
        )

    def _ask_together(self, phase: str, batch: Sequence[Ask]) -> Iterator[_Answer]:
        """The answers as they come; _Ended for the first request that fails, for a stall and for the timeout."""
        answers: SimpleQueue[_Answer] = SimpleQueue()
        self.watch.moved()
        for wanted in batch:
            prompt = self.prompts.draw(wanted.prompt_tokens, wanted.task)
            # Daemons, because a request that hangs must not hold up the end of the process.
            threading.Thread(target=self._ask_one, args=(wanted, prompt, answers), daemon=True).start()
        for number in range(len(batch)):
            answer = self._next(phase, answers, f"{number} of {len(batch)} requests answered")
            trouble = _trouble(answer.reply)
            if trouble:
                raise _Ended(
                    finding(
                        "engine.warmup.failed",
                        evidence=trouble,
                        phase=phase,
                        url=self.endpoint.url.rstrip("/"),
                    )
                )
            yield answer

    def _ask_one(self, wanted: Ask, prompt: str, answers: SimpleQueue[_Answer]) -> None:
        reply = ask(
            self.endpoint,
            prompt,
            thinking=False,
            max_tokens=wanted.max_tokens,
            timeout=max(0.0, self.deadline - time.monotonic()) + _SPARE_S,
            ignore_eos=True,
        )
        answers.put(_Answer(wanted, prompt, reply))

    def _next(self, phase: str, answers: SimpleQueue[_Answer], so_far: str) -> _Answer:
        said = time.monotonic()
        while True:
            left = self.deadline - time.monotonic()
            try:
                answer = answers.get(timeout=max(0.0, min(self.look_every_s, left)))
            except Empty:
                self._still_waiting(phase, so_far)
            else:
                self.watch.moved()
                return answer
            if time.monotonic() - said >= _SAY_EVERY_S:
                said = time.monotonic()
                self.say(f"{phase}: {so_far}; {self.watch.signs}")

    def _still_waiting(self, phase: str, so_far: str) -> None:
        """_Ended if it has taken too long."""
        if time.monotonic() >= self.deadline:
            seconds = f"{self.plan.total_timeout_s:g}"
            raise _Ended(finding("engine.warmup.timeout", evidence=so_far, phase=phase, seconds=seconds))
        signs = self.watch.look()
        if self.watch.still_s >= self.plan.stall_s:
            evidence = f"{so_far}; {signs}"
            seconds = f"{self.plan.stall_s:g}"
            raise _Ended(finding("engine.warmup.stalled", evidence=evidence, phase=phase, seconds=seconds))


def _trouble(reply: Reply) -> str | None:
    """Why a reply is none to count, None if it can be counted."""
    if reply.fault:
        return reply.fault
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return "the answer has no `usage`, so its tokens cannot be counted"
    return None


def _short(phase: Phase, answer: _Answer) -> list[Finding]:
    tokens, wanted = answer.reply.completion_tokens, answer.ask.max_tokens
    if phase.name != "sustained" or tokens >= wanted:
        return []
    return [finding("engine.warmup.short", tokens=tokens, wanted=wanted)]
