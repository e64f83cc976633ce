# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask questions, judge the answers: what generation_check and the proof share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from .arithmetic import Case
from .chat import Endpoint, Reply, ask
from .findings import Finding, finding, worst_first
from .judge import Judgement, judge
from .proof import answers_of_another, in_short
from .questions import Question

_LONGEST_TEXT = 20_000  # characters kept of a text in the results


@dataclass(frozen=True)
class Patience:
    """Seconds for one request and for all of them together."""

    request_s: float
    total_s: float


def _judge_reply(case: Case, reply: Reply) -> Judgement:
    judgement = judge(
        case.prompt, case.expected, case.answer_kind, reply.text, reply.reasoning, reply.finish_reason
    )
    if reply.fault is None:
        return judgement
    return Judgement("inconclusive" if reply.reached else "unreachable", reply.fault, judgement.glitches)


def _result(question: Question, reply: Reply) -> dict[str, Any]:
    judgement = _judge_reply(question.case, reply)
    return {
        "prompt": question.case.prompt,
        "expected": question.case.expected,
        "answer_kind": question.case.answer_kind,
        "thinking": question.thinking,
        "text": reply.text[:_LONGEST_TEXT],
        "reasoning": reply.reasoning[:_LONGEST_TEXT],
        "verdict": judgement.verdict,
        "why": judgement.why,
        "glitches": list(judgement.glitches),
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "ttft_s": reply.ttft_s,
        "tokens_per_s": reply.tokens_per_s,
        "finish_reason": reply.finish_reason,
        "again": None,
    }


def _ask_in_streams(
    questions: list[Question],
    concurrency: int,
    ask_one: Callable[[Question, float], Reply],
    patience: Patience,
    deadline: float,
) -> list[dict[str, Any]]:
    waiting: SimpleQueue[int] = SimpleQueue()
    for index in range(len(questions)):
        waiting.put(index)
    replies: dict[int, Reply] = {}

    def work() -> None:
        while (left := deadline - time.monotonic()) > 0:
            try:
                index = waiting.get_nowait()
            except Empty:
                return
            replies[index] = ask_one(questions[index], min(patience.request_s, left))

    # Daemons, because a name look-up cannot be cut short and must not hold up the end of the process.
    streams = [
        threading.Thread(target=work, daemon=True) for stream in range(min(concurrency, len(questions)))
    ]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join(max(0.0, deadline - time.monotonic()) + 1.0)
    late = Reply(fault=f"not answered within the total of {patience.total_s:g} s")
    return [_result(question, replies.get(index, late)) for index, question in enumerate(questions)]


def check(
    endpoint: Endpoint,
    questions: list[Question],
    *,
    concurrency: int,
    patience: Patience,
    ask_again: bool,
    deadline: float | None = None,
) -> list[dict[str, Any]]:
    """Ask all questions, `concurrency` at a time, and judge each answer.

    Returns one dict per question: its case, the judgement, the text and the measured times. With ask_again a wrong
    answer is asked for once more, alone, and that result stands under `again`. deadline: when the total time is over
    (time.monotonic) where it began earlier than this call.
    """

    def ask_one(question: Question, timeout: float) -> Reply:
        return ask(
            endpoint,
            question.case.prompt,
            thinking=question.thinking,
            max_tokens=question.max_tokens,
            timeout=timeout,
        )

    deadline = time.monotonic() + patience.total_s if deadline is None else deadline
    results = _ask_in_streams(questions, concurrency, ask_one, patience, deadline)
    for question, result in zip(questions, results, strict=True):
        if ask_again and result["verdict"] == "wrong":
            (result["again"],) = _ask_in_streams([question], 1, ask_one, patience, deadline)
    return results


def findings_of(cases: list[dict[str, Any]], url: str) -> list[Finding]:
    """One finding for each kind of trouble, with the first case that shows it."""
    found = []
    for verdict in ("unreachable", "degenerate", "wrong", "inconclusive"):
        hit = [case for case in cases if case["verdict"] == verdict]
        if hit:
            evidence = f"{in_short(hit[0]['prompt'])}: {hit[0]['why']}"
            found.append(
                finding(
                    f"generation.{verdict}",
                    evidence=evidence,
                    count=len(hit),
                    asked=len(cases),
                    url=url.rstrip("/"),
                )
            )
    for case in cases:
        other = answers_of_another(case, cases) if case["verdict"] == "wrong" else None
        if other:
            evidence = (
                f"{in_short(case['prompt'])} was answered with {other['expected']}, "
                f"as {in_short(other['prompt'])} should be"
            )
            found.append(finding("generation.crossed", evidence=evidence))
            break
    flawed = [case for case in cases if case["verdict"] == "correct" and case["glitches"]]
    if flawed:
        evidence = f"{in_short(flawed[0]['prompt'])}: {flawed[0]['glitches'][0]}"
        found.append(finding("generation.glitch", evidence=evidence, count=len(flawed), asked=len(cases)))
    return worst_first(found)
