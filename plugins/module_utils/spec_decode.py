# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speculative decoding as the engine counts it.

acceptance = accepted / draft tokens; mean accepted length = 1 + accepted / drafts, because each verify step yields
one token of the model itself too (vLLM v1/spec_decode/metrics.py). Neither says anything about the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .findings import Finding, finding
from .kernel_files import is_number
from .prometheus_text import Page

_COUNTED = {
    "drafts": "vllm:spec_decode_num_drafts",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens",
    "generation_tokens": "vllm:generation_tokens",
}
# The counters as the page names them.
DRAFTS, DRAFTED, ACCEPTED, GENERATED = (f"{name}_total" for name in _COUNTED.values())
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
_POSITION_DIGITS = 4  # a longer number is no place in a draft
_EVIDENCE_DRAFTS = 100  # fewer drafts show no pattern
_NEARLY_ALL = 0.95


@dataclass(frozen=True)
class Counters:
    """Totals of one reading, summed over engines; None where the page does not have them.

    per_position: accepted tokens at each place of the draft. started: when the counters began, in seconds since 1970.
    """

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    per_position: tuple[int, ...] | None = None
    generation_tokens: int | None = None
    started: float | None = None

    @property
    def speculates(self) -> bool:
        return (self.drafts, self.draft_tokens, self.accepted_tokens) != (None, None, None)


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


def _positions(page: Page) -> tuple[int, ...] | None:
    accepted = {
        int(position): _whole(value) or 0
        for position, value in page.by_label(f"{_PER_POSITION}_total", "position").items()
        if is_number(position) and len(position) <= _POSITION_DIGITS
    }
    return tuple(accepted.get(position, 0) for position in range(max(accepted) + 1)) if accepted else None


def _started(page: Page) -> float | None:
    """The start of the process, or else when it made its counters; None where several processes share a page."""
    for name in (
        "process_start_time_seconds",
        *(f"{name}_created" for name in (*_COUNTED.values(), _PER_POSITION)),
    ):
        times = [sample.value for sample in page.samples(name) if math.isfinite(sample.value)]
        if times:
            return max(times)
    return None


def counters_of(page: Page) -> Counters:
    counted = {key: _whole(page.total(f"{name}_total")) for key, name in _COUNTED.items()}
    return Counters(**counted, per_position=_positions(page), started=_started(page))


def earlier(result: Mapping[str, Any]) -> Counters:
    """The counters of an earlier result of spec_decode_info; ValueError where it is none."""
    given = result.get("counters", result)
    if not isinstance(given, Mapping) or not set(given) & set(_COUNTED):
        raise ValueError(f"since has none of {', '.join(_COUNTED)}: give it a whole earlier result")
    try:
        whole = {key: None if given.get(key) is None else int(given[key]) for key in _COUNTED}
        positions = given.get("per_position")
        return Counters(
            **whole,
            per_position=None if positions is None else tuple(int(count) for count in positions),
            started=None if given.get("started") is None else float(given["started"]),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"since holds what is no count ({error}): give it a whole earlier result") from error


def was_reset(now: Counters, since: Counters) -> bool:
    """Whether the engine was started anew in between: another start, or a counter that went backwards."""
    if now.started is not None and since.started is not None and abs(now.started - since.started) > 1:
        return True
    pairs = [(getattr(now, key), getattr(since, key)) for key in _COUNTED]
    old, new = since.per_position or (), now.per_position or ()
    pairs += zip(new, old, strict=False)
    return len(new) < len(old) or any(
        after is None or after < before for after, before in pairs if before is not None
    )


def _less(now: Counters, since: Counters) -> Counters:
    """What was counted since; `since` is known not to be ahead of `now`."""
    counted = {
        key: None if getattr(now, key) is None else getattr(now, key) - (getattr(since, key) or 0)
        for key in _COUNTED
    }
    old = since.per_position or ()
    positions = now.per_position and tuple(
        count - (old[place] if place < len(old) else 0) for place, count in enumerate(now.per_position)
    )
    return Counters(**counted, per_position=positions, started=now.started)


def _ratio(part: int | None, whole: int | None, base: float = 0.0) -> float | None:
    return round(base + part / whole, 4) if whole and part is not None else None


def report(now: Counters, since: Counters | None, source: str) -> tuple[dict[str, Any], list[Finding]]:
    """What spec_decode_info returns, and its findings; the counts are those since `since`, or since a reset."""
    reset = since is not None and was_reset(now, since)
    counted = now if since is None or reset else _less(now, since)
    result = {
        "drafts": counted.drafts,
        "draft_tokens": counted.draft_tokens,
        "accepted_tokens": counted.accepted_tokens,
        "acceptance": _ratio(counted.accepted_tokens, counted.draft_tokens),
        "mean_accepted_length": _ratio(counted.accepted_tokens, counted.drafts, base=1.0),
        "per_position": None if counted.per_position is None else list(counted.per_position),
        "generation_tokens": counted.generation_tokens,
        "reset": reset,
        "counters": asdict(now),
    }
    return result, _findings(counted, reset, result["acceptance"], source)


def _findings(counted: Counters, reset: bool, acceptance: float | None, source: str) -> list[Finding]:
    found = [finding("speculation.reset", source=source)] if reset else []
    if not counted.speculates:
        missing = "speculation.unknown" if counted.generation_tokens is None else "speculation.off"
        return [*found, finding(missing, source=source)]
    drafts, tokens = counted.drafts or 0, counted.generation_tokens or 0
    if counted.drafts == 0 and tokens:
        found.append(finding("speculation.idle", tokens=tokens))
    if drafts >= _EVIDENCE_DRAFTS:
        positions = counted.per_position or ()
        if positions and positions[-1] == 0:
            evidence = f"accepted at each position: {', '.join(map(str, positions))}"
            found.append(finding("speculation.tail", evidence=evidence, length=len(positions), drafts=drafts))
        if acceptance is not None and acceptance >= _NEARLY_ALL:
            found.append(finding("speculation.nearly_all", percent=f"{acceptance:.0%}", drafts=drafts))
    return found
