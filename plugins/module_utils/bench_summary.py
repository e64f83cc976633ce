# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From draws to rows: ranges over draws, never single numbers, and why a row does not count.

mean accepted length: tokens for each verify step. Verify steps per second = tokens per second / mean accepted length;
that times (k + 1) is the ceiling, which a draft that is always right would reach (both hold for one stream).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .bench_draw import AGAIN
from .bench_plan import Row

Drawn = Mapping[str, Any]  # Draw.as_dict(), perhaps read from a file


def verify_steps_per_s(tokens_per_s: float, mean_accepted_length: float) -> float:
    return tokens_per_s / mean_accepted_length


def ceiling_tokens_per_s(steps_per_s: float, k: int) -> float:
    """What k drafted tokens, all accepted, and the model's own one would give."""
    return steps_per_s * (k + 1)


def spread(values: Iterable[float | None], digits: int = 4) -> dict[str, float] | None:
    """{low, median, high} of the values that are known, None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    figures = {"low": min(known), "median": statistics.median(known), "high": max(known)}
    return {name: round(value, digits) for name, value in figures.items()}


def k_of(counted: Mapping[str, Any]) -> int | None:
    """How many tokens a draft has, from what was counted; None without a draft."""
    if counted.get("per_position"):
        return len(counted["per_position"])
    drafts, tokens = counted.get("drafts"), counted.get("draft_tokens")
    return round(tokens / drafts) if drafts and tokens else None


def figures_of(drawn: Drawn) -> dict[str, float | int | None]:
    """The figures of one draw; None is unknown, or does not apply."""
    counted = (drawn.get("counted") or {}).get("speculation") or {}
    answered = [stream for stream in drawn["streams"] if stream["fault"] is None]
    rate, length, k = drawn["tokens_per_s"], counted.get("mean_accepted_length"), k_of(counted)
    one = len(drawn["streams"]) == 1
    steps = verify_steps_per_s(rate, length) if one and rate and length else None
    return {
        "tokens_per_s": rate,
        "tokens_per_s_per_stream": _median(stream["tokens_per_s"] for stream in answered),
        "ttft_s": _median(stream["ttft_s"] for stream in answered),
        "prefill_tokens_per_s": _median(
            stream["prompt_tokens"] / stream["ttft_s"]
            for stream in answered
            if stream["prompt_tokens"] and stream["ttft_s"]
        ),
        "prompt_tokens": _median(stream["prompt_tokens"] for stream in answered),
        "completion_tokens": sum(stream["completion_tokens"] or 0 for stream in answered),
        "acceptance": counted.get("acceptance"),
        "mean_accepted_length": length,
        "verify_steps_per_s": steps,
        "ceiling_tokens_per_s": ceiling_tokens_per_s(steps, k) if steps and k else None,
        "client_cpu": drawn.get("client_cpu"),
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def row_of(row: Row, drawn: Sequence[Drawn], skipped: str | None = None) -> dict[str, Any]:
    """The row with the ranges over its draws. void: why nothing of it counts, None where it does.

    A draw that was disturbed by others is left out; any other that does not count voids the row. Every request of
    every draw counts for the success rate.
    """
    good = [each for each in drawn if each["void"] is None]
    bad = [each["void"] for each in drawn if each["void"] and each["void"]["kind"] != "disturbed"]
    disturbed = [each["void"] for each in drawn if each["void"] and each["void"]["kind"] == "disturbed"]
    asked = sum(each["asked"] for each in drawn)
    void = bad[0]["reason"] if bad else None
    if not good and not void:
        void = skipped or (disturbed[0]["reason"] if disturbed else "no draw was asked")
    figures = [figures_of(each) for each in good] if void is None else []
    return {
        **row.as_dict(),
        "void": void,
        "draws_counted": len(good),
        "draws_disturbed": len(disturbed),
        "success_rate": round(sum(each["succeeded"] for each in drawn) / asked, 4) if asked else None,
        "failures": _failures(drawn),
        "k": next((k for each in good if (k := _k(each)) is not None), None),
        "per_position": _per_position(good) if void is None else None,
        "figures": {name: spread(each[name] for each in figures) for name in FIGURES},
    }


FIGURES = (
    "tokens_per_s",
    "tokens_per_s_per_stream",
    "ttft_s",
    "prefill_tokens_per_s",
    "prompt_tokens",
    "completion_tokens",
    "acceptance",
    "mean_accepted_length",
    "verify_steps_per_s",
    "ceiling_tokens_per_s",
    "client_cpu",
)


def _k(drawn: Drawn) -> int | None:
    return k_of((drawn.get("counted") or {}).get("speculation") or {})


def _per_position(drawn: Sequence[Drawn]) -> list[float] | None:
    """Accepted at each place of a draft, over the drafts of all draws, 0 to 1."""
    counted = [(each.get("counted") or {}).get("speculation") or {} for each in drawn]
    counted = [each for each in counted if each.get("per_position") and each.get("drafts")]
    if not counted or len({len(each["per_position"]) for each in counted}) != 1:
        return None
    drafts = sum(each["drafts"] for each in counted)
    sums = (sum(places) for places in zip(*(each["per_position"] for each in counted), strict=True))
    return [round(accepted / drafts, 4) for accepted in sums]


def _failures(drawn: Sequence[Drawn]) -> dict[str, int]:
    """{why a request failed: how often}."""
    found: dict[str, int] = {}
    for each in drawn:
        for stream in each["streams"]:
            if stream["fault"] is not None:
                found[stream["fault"]] = found.get(stream["fault"], 0) + 1
    return found


def worth_keeping(drawn: Drawn) -> bool:
    """Whether a run that goes on takes the draw as it is: it counts, or it says something about the engine."""
    return drawn["void"] is None or drawn["void"]["kind"] not in AGAIN
