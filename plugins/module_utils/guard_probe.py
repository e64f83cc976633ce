# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard of the head asks its own engine, in threads, so that no answer is waited for."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from . import engine_metrics
from .arithmetic import draw_products
from .chat import Endpoint, Reply, ask
from .engine_metrics import EngineMetricsError, Progress
from .guard_life import Answer
from .judge import judge

OPERANDS = (10, 99)
MAX_TOKENS = 64
_COUNT_LIMIT_S = 5.0
_VERDICTS = {"correct": "right", "wrong": "wrong", "degenerate": "degenerate", "inconclusive": "inconclusive"}


def outcome_of(reply: Reply, seconds: float, timeout_s: float) -> str | None:
    """What an answer that did not end well tells of the engine; None for one that can be judged."""
    if reply.fault is None:
        return None
    if seconds >= timeout_s - 1:
        return "late"
    # A refusal (a key, a name, too many requests) and a cut stream come from an engine that may well be in order.
    return "unclear" if reply.reached or reply.fault.startswith("HTTP 4") else "unreachable"


class Prober:
    """Fresh products, one at a time. `endpoint` is asked each time: another release may listen elsewhere."""

    def __init__(self, endpoint: Callable[[], tuple[Endpoint, tuple[int, int]]], timeout_s: float):
        self._endpoint, self._timeout_s = endpoint, timeout_s
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._counts: SimpleQueue[Progress | None] = SimpleQueue()
        self._counting = False

    def ask(self, ticket: int) -> None:
        threading.Thread(target=self._ask, args=(ticket,), daemon=True).start()

    def count(self) -> None:
        """Sends for the counters, unless the last time is still waited for."""
        if not self._counting:
            self._counting = True
            threading.Thread(target=self._count, daemon=True).start()

    def answer(self) -> Answer | None:
        """The next answer; None while there is none."""
        return _next(self._answers)

    def counters(self) -> Progress | None:
        return _next(self._counts)

    def _ask(self, ticket: int) -> None:
        try:
            self._answers.put(self._asked(ticket))
        except Exception as error:  # whatever it is, the guard must hear of it
            self._answers.put(Answer(ticket, "unclear", f"could not ask: {error}"))

    def _asked(self, ticket: int) -> Answer:
        endpoint, (low, high) = self._endpoint()
        (case,) = draw_products(1, low, high)
        began = time.monotonic()
        reply = ask(endpoint, case.prompt, thinking=False, max_tokens=MAX_TOKENS, timeout=self._timeout_s)
        seconds = time.monotonic() - began
        outcome, why = outcome_of(reply, seconds, self._timeout_s), reply.fault or ""
        if outcome is None:
            judged = judge(
                case.prompt, case.expected, case.answer_kind, reply.text, reply.reasoning, reply.finish_reason
            )
            outcome, why = _VERDICTS[judged.verdict], judged.why
        return Answer(ticket, outcome, why[:200], round(seconds, 2), reply.tokens_per_s)

    def _count(self) -> None:
        try:
            page = engine_metrics.fetch(self._endpoint()[0].url, timeout=_COUNT_LIMIT_S)
            self._counts.put(engine_metrics.progress_of(page))
        except Exception as error:
            if not isinstance(error, EngineMetricsError):
                print(f"counters could not be read: {error!r}", flush=True)
        finally:
            self._counting = False


def _next(queue: SimpleQueue):
    try:
        return queue.get_nowait()
    except Empty:
        return None


class WarmUp:
    """`tandem warmup` as a process of its own: it needs memory and time, and ends with the start that it warms."""

    def __init__(self, words: Sequence[str]):
        self._command = [sys.executable, "-s", "-m", str(__package__), "warmup", *words]
        self._process: subprocess.Popen | None = None
        self._ticket = 0

    def start(self, ticket: int) -> None:
        self.abandon()
        self._ticket = ticket
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)

    def abandon(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ended(self) -> tuple[int, str | None] | None:
        """(ticket, trouble or None), once."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        return (
            self._ticket,
            None if code == 0 else f"it ended with {code}, its reason stands above in the journal",
        )
