# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions whose answer was told somewhere in a long prompt, at a known depth.

Every prompt tells several items, so that an answer must find its own: a model that lost a part of its context gives
another item's value, or none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from .arithmetic import Case
from .sized_prompts import Prompts

ITEMS = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa"
).split()
_VALUES = range(1000, 10_000)
_JITTER = 0.05  # of the prompt, so that no two prompts tell at the same places


def depths(count: int, rng: random.Random) -> list[float]:
    """`count` places from the start (0) to the end (1) of a prompt, each a little off an even spread; one: anywhere."""
    if count == 1:
        return [rng.random()]
    even = (number / (count - 1) for number in range(count))
    return [min(1.0, max(0.0, depth + rng.uniform(-_JITTER, _JITTER))) for depth in even]


def draw_recall(
    prompts: Prompts, tokens: int, told_at: Sequence[float], asked: int, rng: random.Random
) -> Case:
    """A prompt of about `tokens` tokens that tells an item at each depth and asks for that at told_at[asked]."""
    items = rng.sample(ITEMS, len(told_at))
    values = rng.sample(_VALUES, len(told_at))
    told = [
        (depth, f"The code for item {item} is {value}.")
        for depth, item, value in zip(told_at, items, values, strict=True)
    ]
    task = f"What is the code for item {items[asked]}?"
    return Case(prompts.draw(tokens, task, told), str(values[asked]), "number")
