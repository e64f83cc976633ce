# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small fixed set of questions of five classes, each judged by a rule. Not an evaluation of the model."""

from __future__ import annotations

from .arithmetic import Case

QUALITY = (
    # math
    Case("A train covers 180 km in 2.5 hours. What is its average speed in km/h?", "72", "number"),
    Case("What is 15 % of 240?", "36", "number"),
    # code
    Case("What does this Python program print? print(sum(n * n for n in range(5)))", "30", "number"),
    Case("In Python, what does len({1, 2, 2, 3}) return?", "3", "number"),
    # factual
    Case("What is the capital of Australia?", "Canberra", "text"),
    Case("What is the chemical symbol of gold?", "Au", "text"),
    # reasoning
    Case("Anna is taller than Ben and Ben is taller than Carl. Who is the shortest?", "Carl", "text"),
    Case("I have 3 boxes with 4 red and 2 blue balls each. How many balls have I in all?", "18", "number"),
    # instruction
    Case("Reply with the word 'tandem' and nothing else.", "tandem", "text"),
    Case("Spell the word 'spark' backwards, in lower case, without spaces.", "kraps", "text"),
)
