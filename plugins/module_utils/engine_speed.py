# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast an engine generates: a few stories asked one by one and many at once, each of them read.

Tokens are those of `usage`, never of the stream's chunks; a text that fell apart is no throughput.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arithmetic import Case
from .chat import Endpoint
from .engine_metrics import EngineMetricsError, fetch
from .findings import Finding, worst_first
from .generation import Patience, check, findings_of
from .judge import worst_of
from .proof import Conclusion, conclude
from .questions import Question, draw_story
from .spec_decode import Counters, counters_of, report

Say = Callable[[str], None]
_OTHERS = 1.05  # what an engine generated above what was asked for, before others must have asked too


@dataclass(frozen=True)
class Wish:
    """streams: how many at once, one setting after the other. draws: stories for each stream, of max_tokens each."""

    streams: Sequence[int]
    draws: int
    max_tokens: int
    request_timeout_s: float
    total_timeout_s: float


@dataclass(frozen=True)
class Speed:
    """points: a map for each setting of streams, as `_figures` makes it. conclusion: as a proof concludes of texts."""

    points: tuple[dict[str, Any], ...]
    cases: tuple[dict[str, Any], ...]
    conclusion: Conclusion
    findings: tuple[Finding, ...]
    seconds: float


def problems(wish: Wish) -> list[str]:
    """Every number that cannot be measured with."""
    found = [f"streams has {each}, wanted 1 or more" for each in wish.streams if each < 1]
    if not wish.streams:
        found.append("streams is empty")
    for name in ("draws", "max_tokens", "request_timeout_s", "total_timeout_s"):
        if getattr(wish, name) <= 0:
            found.append(f"{name} is {getattr(wish, name):g}, wanted more than 0")
    return found


def measure(
    endpoint: Endpoint, wish: Wish, *, say: Say = lambda line: None, rng: random.Random | None = None
) -> Speed:
    """Ask, read and count. Raises for nothing that a server can do; ValueError names every bad number.

    Ends after the first setting with an answer that is not right.
    """
    if wrong := problems(wish):
        raise ValueError("; ".join(wrong))
    rng = rng or random.SystemRandom()
    began = time.monotonic()
    deadline = began + wish.total_timeout_s
    points, cases, conclusion = [], [], Conclusion("unproven", "nothing was asked")
    for streams in wish.streams:
        figures, answers = _point(endpoint, wish, streams, deadline, rng)
        conclusion = conclude(answers, streams)
        say(f"{streams} at once: {_line(figures)}; {conclusion.outcome}, {conclusion.reason}")
        points.append(figures)
        cases += answers
        if conclusion.outcome != "proven":
            break
    seconds = round(time.monotonic() - began, 2)
    findings = tuple(worst_first(findings_of(cases, endpoint.url)))
    return Speed(tuple(points), tuple(cases), conclusion, findings, seconds)


def _point(
    endpoint: Endpoint, wish: Wish, streams: int, deadline: float, rng: random.Random
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    stories = [draw_story(rng) for _number in range(streams * wish.draws)]
    before = _counters(endpoint)
    began = time.monotonic()
    answers = check(
        endpoint,
        [Question(Case(story, None, "open"), False, wish.max_tokens) for story in stories],
        concurrency=streams,
        patience=Patience(wish.request_timeout_s, wish.total_timeout_s),
        ask_again=False,
        deadline=deadline,
    )
    seconds = time.monotonic() - began
    return _figures(answers, streams, seconds, before, _counters(endpoint), endpoint.url), answers


def _figures(
    answers: Sequence[Mapping[str, Any]],
    streams: int,
    seconds: float,
    before: Counters | None,
    after: Counters | None,
    url: str,
) -> dict[str, Any]:
    """What was measured with so many streams; None where it cannot be told."""
    tokens = sum(answer["completion_tokens"] or 0 for answer in answers)
    counted = report(after, before, f"{url}/metrics")[0] if before and after else {}
    generated = None if counted.get("reset") else counted.get("generation_tokens")
    length = counted.get("mean_accepted_length")
    each = _median(answers, "tokens_per_s")
    return {
        "streams": streams,
        "requests": len(answers),
        "verdict": worst_of([answer["verdict"] for answer in answers]),
        "tokens": tokens,
        "seconds": round(seconds, 2),
        "tokens_per_s": round(tokens / seconds, 2) if tokens and seconds > 0 else None,
        "stream_tokens_per_s": each,
        "ttft_s": _median(answers, "ttft_s"),
        "acceptance": counted.get("acceptance"),
        "mean_accepted_length": length,
        "steps_per_s": round(each / length, 2) if each and length else None,
        "disturbed": None if generated is None else generated > _OTHERS * tokens,
    }


def _median(answers: Sequence[Mapping[str, Any]], name: str) -> float | None:
    told = [answer[name] for answer in answers if answer[name] is not None]
    return round(statistics.median(told), 4) if told else None


def _counters(endpoint: Endpoint) -> Counters | None:
    try:
        return counters_of(fetch(endpoint.url, verify=endpoint.verify))
    except EngineMetricsError:
        return None


def _line(figures: Mapping[str, Any]) -> str:
    def shown(value: float | None, what: str) -> str:
        return f"{'unknown' if value is None else f'{value:.1f}'} {what}"

    told = [
        shown(figures["tokens_per_s"], "tok/s in all"),
        shown(figures["stream_tokens_per_s"], "for each stream"),
    ]
    if figures["acceptance"] is not None:
        told.append(f"acceptance {figures['acceptance']:.1%}")
    if figures["disturbed"]:
        told.append("others asked meanwhile, so it is too low")
    return ", ".join(told)
