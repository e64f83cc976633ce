# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an engine that has not answered still works: its counters move, or compilers run beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from . import compilers, engine_metrics
from .engine_metrics import EngineMetricsError, Progress


@dataclass(frozen=True)
class Signs:
    """One look. progress: None where the counters could not be read; trouble: why, else None."""

    progress: Progress | None
    compilers: dict[int, str]
    trouble: str | None = None

    def __str__(self) -> str:
        told = [f"{', '.join(sorted(set(self.compilers.values())))} at work"] if self.compilers else []
        if self.progress is None:
            return "; ".join([self.trouble or "no counters were read", *told])
        counts = (self.progress.prompt_tokens, self.progress.generation_tokens)
        prompt, generated = ("an unknown number of" if count is None else f"{count:.0f}" for count in counts)
        return "; ".join([f"the engine has counted {prompt} prompt and {generated} generated tokens", *told])


def signs_of(url: str, *, verify: bool = True, timeout: float) -> Signs:
    """Look at the counters of the endpoint and at the compilers of this machine."""
    try:
        progress = engine_metrics.progress_of(engine_metrics.fetch(url, verify=verify, timeout=timeout))
    except EngineMetricsError as error:
        return Signs(None, compilers.at_work(), str(error))
    return Signs(progress, compilers.at_work())


class Watch:
    """How long nothing has moved. Counters that cannot be read are no sign of life, and no sign of a change."""

    def __init__(self, look: Callable[[], Signs]):
        self._look = look
        self._moved = time.monotonic()
        self._progress: Progress | None = None
        self._compilers: dict[int, str] = {}
        self.signs = Signs(None, {})

    @property
    def still_s(self) -> float:
        return time.monotonic() - self._moved

    def moved(self) -> None:
        """Something else showed that the engine works: an answer."""
        self._moved = time.monotonic()

    def look(self) -> Signs:
        self.signs = self._look()
        progress = self.signs.progress or self._progress
        known_before = self._progress is not None
        if (known_before and progress != self._progress) or self.signs.compilers != self._compilers:
            self.moved()
        self._progress, self._compilers = progress, self.signs.compilers
        return self.signs
