# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine counted during one draw: tokens, drafts, hits of the prefix cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from . import spec_decode
from .prometheus_text import Page
from .spec_decode import Counters

_COUNTED = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
}
_WATCHED = (spec_decode.DRAFTS, spec_decode.DRAFTED, spec_decode.ACCEPTED, spec_decode.GENERATED)


@dataclass(frozen=True)
class Reading:
    """One reading of the counters, summed over engines; None where the page does not have them.

    broken: the names whose value is no number.
    """

    speculation: Counters
    prompt_tokens: int | None
    cached_tokens: int | None
    preemptions: int | None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counted:
    """The difference of two readings. reset: the engine was started anew in between, and nothing here holds."""

    speculation: Mapping[str, Any]
    prompt_tokens: int | None
    cached_tokens: int | None
    preemptions: int | None
    reset: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read(page: Page) -> Reading:
    whole = {key: page.total(name) for key, name in _COUNTED.items()}
    broken = [
        name
        for name in (*_WATCHED, *_COUNTED.values())
        if any(not math.isfinite(sample.value) for sample in page.samples(name))
    ]
    return Reading(
        spec_decode.counters_of(page),
        **{key: None if value is None else round(value) for key, value in whole.items()},
        broken=tuple(broken),
    )


def between(before: Reading, after: Reading, source: str) -> Counted:
    speculation, _findings = spec_decode.report(after.speculation, before.speculation, source)
    differences = {key: _less(getattr(after, key), getattr(before, key)) for key in _COUNTED}
    backwards = any(value is not None and value < 0 for value in differences.values())
    kept = {key: value for key, value in speculation.items() if key != "counters"}
    return Counted(kept, **differences, reset=speculation["reset"] or backwards)


def _less(now: int | None, before: int | None) -> int | None:
    return None if now is None else now - (before or 0)
