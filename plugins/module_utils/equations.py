# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equations in a text ("17 × 20 + 17 × 3 = 340 + 51 = 391"): where they are, and whether they are true."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from .numerals import Number

# A side is the numbers between two equal signs; an equation is its sides, [[17, 23], [391]].
Side = list[Number]

_LONGEST_GAP = (
    40  # characters between two numbers of one equation; keeps the patterns away from pages of blanks
)
_MOST_OPERANDS = 32
_WRAP = r"[ \t()\[\]⟦⟧]*"
_OPERATION = re.compile(rf"{_WRAP}[-+×÷/]{_WRAP}")
_EQUALITY = re.compile(
    rf"\s*{_WRAP}\s*"
    r"(?:[=≈→⇒]|\b(?:is|are|equals|is equal to|gives|makes|yields|ist|est|es)\b|等于|等於|是)"
    rf"\s*{_WRAP}:?\s*"
)
_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def equations_in(text: str, numbers: list[Number]) -> Iterator[list[Side]]:
    """The numbers of a text, grouped into equations; a number of its own is an equation of one side."""
    sides: list[Side] = []
    for number in numbers:
        gap = text[sides[-1][-1].end : number.start] if sides else ""
        gap = gap if len(gap) <= _LONGEST_GAP else ""
        if _OPERATION.fullmatch(gap):
            sides[-1].append(number)
        elif _EQUALITY.fullmatch(gap):
            sides.append([number])
        else:
            if sides:
                yield sides
            sides = [[number]]
    if sides:
        yield sides


def _evaluate(node: ast.expr, values: dict[str, Fraction]) -> Fraction:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp):
        return _ARITHMETIC[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))
    raise SyntaxError("not arithmetic")


def readings_of(text: str, side: Side) -> set[Fraction]:
    """The values that a side may have: the readings of its one number, or its result; empty if unreadable."""
    if len(side) == 1:
        return set(side[0].values)
    if len(side) > _MOST_OPERANDS:
        return set()
    names = [f"n{index}" for index in range(len(side))]
    gaps = [text[before.end : after.start] for before, after in pairwise(side)]
    signs = [re.sub(r"[^-+*/()]", "", gap.replace("×", "*").replace("÷", "/")) for gap in gaps]
    opening = re.search(r"\(*$", text[max(0, side[0].start - 8) : side[0].start]).group()
    closing = re.match(r"\)*", text[side[-1].end : side[-1].end + 8]).group()
    expression = "".join(
        [opening, *(name + sign for name, sign in zip(names, [*signs, closing], strict=True))]
    )
    values = {name: number.value for name, number in zip(names, side, strict=True)}
    for attempt in (expression, re.sub(r"[()]", "", expression)):
        try:
            return {_evaluate(ast.parse(attempt, mode="eval").body, values)}
        except (SyntaxError, ZeroDivisionError):
            continue
    return set()
