# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at clocks and power, with the tokens of the engine before and after it; module power_info returns it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from . import commands, power
from .engine_metrics import EngineMetricsError, Progress, fetch, progress_of
from .findings import Finding, finding
from .prometheus_text import Page

COMMAND = ("nvidia-smi", f"--query-gpu={','.join(power.FIELDS)}", "--format=csv")
BY_HAND = "nvidia-smi -q -d CLOCK,POWER,UTILIZATION,PERFORMANCE"


@dataclass(frozen=True)
class Question:
    """text: what nvidia-smi printed elsewhere; None asks it here. url: an endpoint whose tokens tell of progress."""

    text: str | None = None
    url: str | None = None
    seconds: float = 5.0
    verify: bool = True
    cap_mhz: float | None = None


@dataclass(frozen=True)
class World:
    """What a look asks; tests put their own in."""

    ask: Callable[..., commands.Answer] = commands.ask
    fetch: Callable[..., Page] = fetch
    sleep: Callable[[float], None] = time.sleep


def look(question: Question, world: World = World()) -> tuple[dict[str, Any], list[Finding]]:
    """{gpus, tokens_moved} and everything that was found."""
    notes: list[Finding] = []
    before = _progress(question, world, notes)
    if before is not None:
        world.sleep(question.seconds)
    text = world.ask(COMMAND).out if question.text is None else question.text
    samples = power.read_query(text) or power.read_csv(text)
    moved = power.tokens_moved(before, None if before is None else _progress(question, world, notes))
    if not samples:
        notes.append(finding("host.look.failed", subject="The power state of the GPU", command=BY_HAND))
    gpus = []
    for sample in samples:
        judged = power.judge(sample, moved, question.cap_mhz)
        gpus.append({**asdict(sample), "reasons": _listed(sample.reasons), "verdict": judged.state})
        notes += judged.findings
    return {"gpus": gpus, "tokens_moved": moved}, notes


def _listed(reasons: tuple[str, ...] | None) -> list[str] | None:
    return None if reasons is None else list(reasons)


def _progress(question: Question, world: World, notes: list[Finding]) -> Progress | None:
    if question.url is None:
        return None
    try:
        return progress_of(world.fetch(question.url, verify=question.verify))
    except EngineMetricsError as error:
        notes.append(finding("status.metrics.unknown", why=error, url=question.url.rstrip("/")))
        return None
