# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an engine fits the unified memory of a node, before it is started.

CPU and GPU share one memory, so the utilization is a share of the host's. It is never judged by itself: only what
is available now, and what would be left of it, decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .findings import Finding, finding

GIB = 1 << 30
# Activations, communication and graphs: 0.78 of 121.69 GiB less 79.17 of weights and 10.04 of KV cache, as measured.
OVERHEAD_GIB = 5.7
HEADROOM_GIB = 2.0
ROOMY_GIB = 8.0  # bursts of 7.4 GiB within 3 s were seen
SHM_GIB = 16.0
_LARGEST = 1e15


class MemoryPlanError(Exception):
    """Every number that cannot be planned with, in one text."""


@dataclass(frozen=True)
class Wish:
    """What is there and what is wanted, for one rank. None is not said; one of the two ways to size the cache is."""

    mem_total_gib: float
    mem_available_gib: float
    weights_gib_per_rank: float
    gpu_memory_utilization: float | None = None
    kv_cache_bytes: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    kv_bytes_per_token: float | None = None
    headroom_gib: float = HEADROOM_GIB
    overhead_gib: float = OVERHEAD_GIB
    shm_gib: float | None = None


@dataclass(frozen=True)
class MemoryPlan:
    """fits: no finding is an error. kv_tokens and concurrency are None where the wish does not say enough."""

    fits: bool
    kv_gib: float
    kv_tokens: int | None
    concurrency: float | None
    left_for_host_gib: float
    reason: str
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        names = ("fits", "kv_gib", "kv_tokens", "concurrency", "left_for_host_gib", "reason")
        return {name: getattr(self, name) for name in names}


POSITIVE = (
    "mem_total_gib",
    "weights_gib_per_rank",
    "gpu_memory_utilization",
    "kv_cache_bytes",
    "max_model_len",
    "max_num_seqs",
    "kv_bytes_per_token",
    "shm_gib",
)
# A host whose memory is exhausted has 0 GiB available; that is a reading and no mistake.
NOT_NEGATIVE = ("mem_available_gib", "headroom_gib", "overhead_gib")


def problems(wish: Wish) -> list[str]:
    """What is wrong with the numbers themselves; empty where they can be planned with."""
    found = []
    for name in POSITIVE + NOT_NEGATIVE:
        value = getattr(wish, name)
        if value is None:
            continue
        least = 0 if name in NOT_NEGATIVE else math.ulp(0.0)
        if not isinstance(value, (int, float)) or not least <= value <= _LARGEST:
            wanted = "0 or more" if name in NOT_NEGATIVE else "more than 0"
            found.append(f"{name} is {value}, and must be a number, {wanted}")
    share = wish.gpu_memory_utilization
    if isinstance(share, (int, float)) and share > 1:
        found.append(f"gpu_memory_utilization is {share}, and is a share of the memory: 0.78, not 78")
    if share is None and wish.kv_cache_bytes is None:
        found.append(
            "neither gpu_memory_utilization nor kv_cache_bytes is given, so the KV cache has no size"
        )
    if not found and wish.mem_available_gib > wish.mem_total_gib:
        found.append(
            f"mem_available_gib is {wish.mem_available_gib}, more than mem_total_gib, {wish.mem_total_gib}"
        )
    return found


def plan(wish: Wish) -> MemoryPlan:
    """Plan one rank; MemoryPlanError names every number that is none."""
    wrong = problems(wish)
    if wrong:
        raise MemoryPlanError("; ".join(wrong))
    fixed_gib = wish.weights_gib_per_rank + wish.overhead_gib
    if wish.kv_cache_bytes is None:
        taken_gib = wish.gpu_memory_utilization * wish.mem_total_gib
        kv_gib = taken_gib - fixed_gib
    else:
        kv_gib = wish.kv_cache_bytes / GIB
        taken_gib = fixed_gib + kv_gib
    kv_gib = max(kv_gib, 0.0)
    tokens = int(kv_gib * GIB / wish.kv_bytes_per_token) if wish.kv_bytes_per_token else None
    left_gib = round(wish.mem_available_gib - taken_gib, 2)
    findings = (*_space(wish, taken_gib, left_gib), *_cache(wish, taken_gib, kv_gib, tokens), *_shm(wish))
    errors = [each.summary for each in findings if each.severity == "error"]
    concurrency = round(tokens / wish.max_model_len, 2) if tokens is not None and wish.max_model_len else None
    return MemoryPlan(
        fits=not errors,
        kv_gib=round(kv_gib, 2),
        kv_tokens=tokens,
        concurrency=concurrency,
        left_for_host_gib=left_gib,
        reason=". ".join(errors) or _fitting(wish, taken_gib, left_gib, kv_gib, tokens, concurrency),
        findings=findings,
    )


def _space(wish: Wish, taken_gib: float, left_gib: float) -> list[Finding]:
    figures = {
        "total_gib": wish.mem_total_gib,
        "available_gib": wish.mem_available_gib,
        "headroom_gib": wish.headroom_gib,
        "left_gib": left_gib,
        "roomy_gib": ROOMY_GIB,
        "way_out": _way_out(wish),
    }
    # With a cache of fixed size the utilization only admits: so much must be free at the start.
    admitted_gib = (wish.gpu_memory_utilization or 0.0) * wish.mem_total_gib
    asked_gib = max(taken_gib, admitted_gib)
    if round(asked_gib, 2) > wish.mem_available_gib:
        return [finding("memory.plan.not_free", taken_gib=round(asked_gib, 2), **figures)]
    if left_gib < wish.headroom_gib:
        return [finding("memory.plan.no_headroom", **figures)]
    return [finding("memory.plan.tight", **figures)] if left_gib < ROOMY_GIB else []


def _cache(wish: Wish, taken_gib: float, kv_gib: float, tokens: int | None) -> list[Finding]:
    if kv_gib <= 0:
        figures = {"weights_gib": wish.weights_gib_per_rank, "overhead_gib": wish.overhead_gib}
        way_out = _way_out(wish)
        return [finding("memory.plan.no_kv", budget_gib=round(taken_gib, 2), way_out=way_out, **figures)]
    if tokens is not None and wish.max_model_len and tokens < wish.max_model_len:
        figures = {"kv_tokens": tokens, "max_model_len": wish.max_model_len}
        return [finding("memory.plan.kv_short", way_out=_way_out(wish), **figures)]
    return []


def _shm(wish: Wish) -> list[Finding]:
    if wish.shm_gib is None or wish.shm_gib <= SHM_GIB:
        return []
    return [finding("memory.plan.shm", shm_gib=wish.shm_gib, largest_gib=SHM_GIB)]


def _way_out(wish: Wish) -> str:
    """The largest setting that leaves the headroom, in the words of the engine's options."""
    most_gib = wish.mem_available_gib - wish.headroom_gib
    fixed_gib = wish.weights_gib_per_rank + wish.overhead_gib
    if most_gib <= fixed_gib:
        return (
            f"no setting helps while {wish.mem_available_gib} GiB are available, since weights and engine take "
            f"{fixed_gib:.2f} and the host keeps {wish.headroom_gib}"
        )
    share = math.floor(most_gib / wish.mem_total_gib * 100 + 1e-9) / 100
    cache = math.floor((most_gib - fixed_gib) * GIB)
    if wish.kv_cache_bytes is None:
        return f"a gpu-memory-utilization of up to {share:.2f} leaves the host its part"
    also = f", with a gpu-memory-utilization of up to {share:.2f}" if wish.gpu_memory_utilization else ""
    return f"a kv-cache-memory-bytes of up to {cache}{also} leaves the host its part"


def _fitting(
    wish: Wish,
    taken_gib: float,
    left_gib: float,
    kv_gib: float,
    tokens: int | None,
    concurrency: float | None,
) -> str:
    words = [
        f"The engine takes {taken_gib:.2f} of {wish.mem_available_gib} GiB that are available and leaves {left_gib}",
        f"the KV cache has {kv_gib:.2f} GiB",
    ]
    if tokens is None:
        words.append("how many tokens that is stays unknown without kv_bytes_per_token")
    else:
        words.append(f"that is {tokens} tokens")
        if concurrency is not None:
            words.append(f"{concurrency} requests of {wish.max_model_len}")
        if wish.max_num_seqs:
            words.append(f"{tokens // int(wish.max_num_seqs)} tokens for each of {wish.max_num_seqs} at once")
    return ", ".join(words)
