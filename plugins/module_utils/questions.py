# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What generation_check asks: the caller's own cases or a suite, with thinking off, on or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .arithmetic import Case, draw_products, product_asked
from .judge import kind_of
from .numerals import read_number
from .quality import QUALITY

POSITIVE = (
    "questions",
    "concurrency",
    "max_tokens",
    "max_tokens_thinking",
    "request_timeout",
    "total_timeout",
)


# The longest answer by whether the model is to think, the thoughts included.
MAX_TOKENS = {False: 64, True: 2048}


@dataclass(frozen=True)
class Question:
    case: Case
    thinking: bool
    max_tokens: int


def own_case(given: Mapping[str, Any]) -> Case:
    """A case as its caller meant it; ValueError where a number is wanted and none is given."""
    expected = given["expected"]
    if expected is None and given["answer_kind"] in (None, "number"):
        expected = product_asked(given["prompt"])
    kind = given["answer_kind"] or kind_of(expected)
    if kind == "number" and read_number(expected or "") is None:
        raise ValueError(
            f"{given['prompt']!r} expects {expected!r}, wanted a number, because answer_kind is number"
        )
    if kind == "text" and not (expected or "").strip():
        raise ValueError(f"{given['prompt']!r} expects nothing, wanted a text, because answer_kind is text")
    return Case(given["prompt"], expected, kind)


def questions_of(params: Mapping[str, Any]) -> list[Question]:
    """What to ask; ValueError with every bad option at once."""
    given = {name: params[name] for name in POSITIVE if params[name] is not None}
    wrong = [f"{name} is {value}, wanted more than 0" for name, value in given.items() if value <= 0]
    wrong += [f"{name} is empty" for name in ("cases", "thinking") if params[name] == []]
    low, high = params["operands"] if len(params["operands"]) == 2 else (1, 0)
    if low > high:
        wrong.append(f"operands are {params['operands']}, wanted the smallest and the largest")
    cases: list[Case] = []
    for own in params["cases"] or []:
        try:
            cases.append(own_case(own))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    if params["suite"] == "quality":
        cases = list(QUALITY)
    count = params["questions"] or params["concurrency"]
    limit = {False: params["max_tokens"], True: params["max_tokens_thinking"]}
    return [
        Question(case, thinking, limit[thinking])
        for thinking in params["thinking"]
        for case in cases or draw_products(count, low, high)
    ]
