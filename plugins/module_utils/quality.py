# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small fixed set of questions of five classes, each judged by a rule. Not an evaluation of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .arithmetic import Case

CLASSES = {
    "math": (
        Case("A train covers 180 km in 2.5 hours. What is its average speed in km/h?", "72", "number"),
        Case("What is 15 % of 240?", "36", "number"),
        Case(
            "A rectangle is 14 cm long and 9 cm wide. What is its area in square centimetres?",
            "126",
            "number",
        ),
        Case("Solve for x: 3x + 7 = 40. What is x?", "11", "number"),
    ),
    "code": (
        Case("What does this Python program print? print(sum(n * n for n in range(5)))", "30", "number"),
        Case("In Python, what does len({1, 2, 2, 3}) return?", "3", "number"),
        Case("In Python, what does 'spark'[::-1] evaluate to?", "kraps", "text"),
        Case(
            "Which Python keyword begins the definition of a function? Answer with the keyword.",
            "def",
            "text",
        ),
    ),
    "factual": (
        Case("What is the capital of Australia?", "Canberra", "text"),
        Case("What is the chemical symbol of gold?", "Au", "text"),
        Case("Which planet of the solar system is the largest?", "Jupiter", "text"),
        Case("In which year did the Second World War end?", "1945", "number"),
    ),
    "reasoning": (
        Case("Anna is taller than Ben and Ben is taller than Carl. Who is the shortest?", "Carl", "text"),
        Case(
            "I have 3 boxes with 4 red and 2 blue balls each. How many balls have I in all?", "18", "number"
        ),
        Case("If today is Wednesday, which day of the week will it be in ten days?", "Saturday", "text"),
        Case("A farmer has 17 sheep and all but 9 run away. How many sheep are left?", "9", "number"),
    ),
    "instruction": (
        Case("Reply with the word 'tandem' and nothing else.", "tandem", "text"),
        Case("Spell the word 'spark' backwards, in lower case, without spaces.", "kraps", "text"),
        Case(
            "Reply with the third word of this sentence and nothing else: green lamps shine softly.",
            "shine",
            "text",
        ),
        Case(
            "Translate 'good morning' into German. Reply with the translation only.", "Guten Morgen", "text"
        ),
    ),
}
QUALITY = tuple(case for cases in CLASSES.values() for case in cases)


def by_class(cases: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """{name, asked, right, wrong} of each class; cases: as generation_check returns them for the suite.

    wrong: what was asked, and why the answer does not count, a sentence each.
    """
    judged = {(case["prompt"], case["expected"]): case for case in cases}
    found = []
    for name, wanted in CLASSES.items():
        asked = [
            judged[case.prompt, case.expected] for case in wanted if (case.prompt, case.expected) in judged
        ]
        wrong = [f"{case['prompt']} {case['why']}" for case in asked if case["verdict"] != "correct"]
        if asked:
            found.append(
                {"name": name, "asked": len(asked), "right": len(asked) - len(wrong), "wrong": wrong}
            )
    return found
