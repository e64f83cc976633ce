# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bench has the model write: prompts that no cache has seen, each with a task that can be judged."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .bench_plan import Row
from .sized_prompts import Prompts

# None of a task's words asks to count or to repeat, so a text that does either is degenerate.
_THINGS = "river lamp stone garden harbor engine clock bridge forest signal mirror window tower".split()
_TASKS = {
    "code": (
        "Write a Python program with classes, docstrings and comments that simulates how a {}, a {} and a {} depend "
        "on each other. Make it complete and at least three hundred lines long. Answer with the code alone."
    ),
    "prose": (
        "Write a story of at least two thousand words about a {}, a {} and a {}. Begin at once, without a headline."
    ),
}


_OPENING_CHARACTERS = 90  # a dozen words, so that no two prompts share a block of the cache


@dataclass(frozen=True)
class Asked:
    """One prompt. task: what stands at its end; the text is judged against it, not against the words before."""

    prompt: str
    task: str


def draw(row: Row, sized: Prompts, rng: random.Random) -> Asked:
    """A new prompt for a stream of the row. Short ones begin with some words of their own too."""
    task = _TASKS[row.content].format(*rng.sample(_THINGS, 3))
    short = int((len(task) + _OPENING_CHARACTERS) / sized.characters_per_token)
    return Asked(sized.draw(row.prompt_tokens or short, task), task)
