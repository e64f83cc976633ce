# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions whose answers are known: products drawn fresh each time, so that no cache and no habit answers them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .numerals import find_numbers

_WORDINGS = (
    "What is {a} x {b}?",
    "How much is {a} × {b}?",
    "Please tell me: what is {a} times {b}?",
    "Work out {a} * {b} and give the result.",
)
_PRODUCT = re.compile(r"(?<![\w.])(\d{1,9})\s*(?:[x×*]|times)\s*(\d{1,9})(?![\w.]*\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """One question. expected: None where any sane text will do. answer_kind: number, text or open."""

    prompt: str
    expected: str | None
    answer_kind: str


def draw_products(count: int, low: int, high: int, rng: random.Random | None = None) -> Iterator[Case]:
    """`count` products of two operands in low..high: every product different, so that streams can be told apart.

    Raises ValueError if the range has too few.
    """
    rng = rng or random.SystemRandom()
    products: set[int] = set()
    while len(products) < count:
        for _attempt in range(1000):
            a, b = rng.randint(low, high), rng.randint(low, high)
            # 1 x 23 is answered by repeating an operand, and a product asked twice tells no streams apart.
            if a * b not in products and a * b not in (a, b):
                break
        else:
            raise ValueError(
                f"operands {low} to {high} give too few different products for {count} questions"
            )
        products.add(a * b)
        wording = _WORDINGS[rng.randrange(len(_WORDINGS))]
        yield Case(wording.format(a=a, b=b), str(a * b), "number")


def product_asked(prompt: str) -> str | None:
    """The answer to a prompt that asks for one product ("17 x 23"), None if it asks for anything else."""
    found = _PRODUCT.findall(prompt)
    if len(found) != 1 or len(find_numbers(prompt)) > 2:
        return None
    return str(int(found[0][0]) * int(found[0][1]))
