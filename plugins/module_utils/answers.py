# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which answer does a text give? Operands, working, list markers and what is denied are no answers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from .equations import Side, equations_in, readings_of
from .numerals import Number, ascii_digits, find_numbers, find_spelled_numbers

# How firmly a number is put forward; the last of the firmest is the answer.
_MENTIONED, _BARE, _STATED = range(3)

_LATEX = (
    (re.compile(r"\\(?:times|cdot)\b"), "×"),
    (re.compile(r"\\div\b"), "÷"),
    (re.compile(r"\\(?:approx|implies|Rightarrow|rightarrow)\b"), "="),
    (re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\[()\[\]]|[$&`]|\\(?:quad|left|right)\b|\\\\"), " "),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1"), r"⟦\2⟧"),
)
_OPERATORS = (
    (re.compile(r"(?<=[\d)])\s*(?:[*xX·⋅]|times|multiplied by|mal|fois|por|乘以|乘)\s*(?=[\d(])"), " × "),
    (re.compile(r"(?<=[\d)])\s*(?:divided by|除以)\s*(?=[\d(])"), " ÷ "),
    (re.compile(r"(?<=[\d)])\s*(?:plus|加)\s*(?=[\d(])"), " + "),
    (re.compile(r"(?<=[\d)])\s*(?:minus|减|減)\s*(?=[\d(])"), " - "),
)
_LONGEST = 16384  # characters looked at, from the end, where answers stand
_BOX = re.compile(r"\\boxed\s*\{([^{}]*)\}")

_FILLER = (
    r"(?:\s*\b(?:the|a|be|equals?|to|answer|number|value|actually|exactly|simply|just|about|then|thus)\b)*"
)
_OPENING = r"[\s:：(\[⟦⟧\"\u201c'\u2018]*"
_STATING = re.compile(
    r"(?:[=≈→⇒:：⟦]|равно|это|ответ|是|为|為|得|答案|等于|等於|"
    r"\b(?:is|are|was|be|becomes|equals?|gives?|yields?|makes?|get|answer|result|product|total|sum|"
    rf"ist|sind|ergibt|est|es|son)\b){_OPENING}{_FILLER}{_OPENING}$",
    re.IGNORECASE,
)
_CONCLUDING = re.compile(
    r"(?:\b(?:answer|result|product|antwort|ergebnis|réponse|respuesta)\b|答案|ответ)[^.\n\d]{0,60}$",
    re.IGNORECASE,
)
_DENYING = re.compile(
    r"(?:\b(?:not|never|cannot|instead of|rather than|neither|nor|nicht|pas)|n['\u2019]t|≠|!=|\bне|不是|并非|並非)"
    rf"(?:\s+(?:think|believe|say|that|it(?:['\u2019]s)?|is))*{_FILLER}{_OPENING}$",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"[\s⟧)\"\u201d']*(?:(?:is|was|would be)(?: (?:not|wrong|incorrect|false)\b|n['\u2019]t)|是错|不对)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:\b(?:steps?|part|item|line|case|method|option|note|equation|example|question|schritt|étape)|шаг|第)"
    r"\s*#?\s*$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s*(?:less|more|fewer|greater|smaller|short|away|off|digits?|steps?|ways?|decimal|hundreds?|tens?|ones|"
    r"units?)\b|(?:st|nd|rd|th)\b",
    re.IGNORECASE,
)
_LIST_MARKER = re.compile(r"[.)、]\s+\S")
_LIST_START = re.compile(r"^[ \t>]*[01][.)、]\s+\S", re.MULTILINE)
_ALTERNATIVE = re.compile(
    r"[\s⟧\"\u201d,]*(?:\b(?:or|oder|ou)\b|или|或者?|还是)[\s⟦\"\u201c]*", re.IGNORECASE
)


@dataclass(frozen=True)
class Answer:
    """The number that a text gives as its answer.

    value: None where it gives none. right: it is the expected one. concluding: named as the answer in words.
    hedged: two different numbers are offered. at_end: nothing follows it; a cut text may lack digits of it.
    """

    value: Fraction | None = None
    right: bool = False
    concluding: bool = False
    hedged: bool = False
    at_end: bool = False


@dataclass(frozen=True)
class _Claim:
    values: tuple[Fraction, ...]
    firmness: int
    start: int
    end: int


def _tidy(text: str) -> str:
    text = ascii_digits(text)
    for pattern, replacement in (*_LATEX, *_OPERATORS):
        text = pattern.sub(replacement, text)
    return text


def _equation_claim(text: str, sides: list[Side], expected: Fraction) -> _Claim | None:
    """What `17 × 23 = 391` claims. A true side calculation (17 × 20 = 340) claims nothing."""
    singles = [side[0] for side in sides if len(side) == 1]
    if not singles:
        return None
    common = set.intersection(*(readings_of(text, side) for side in sides))
    if common and expected not in common:
        return None
    last = singles[-1]
    return _Claim((expected,) if common else last.values, _STATED, last.start, last.end)


def _before(text: str, position: int) -> str:
    return text[max(0, position - 48) : position]


def _after(text: str, position: int) -> str:
    return text[position : position + 24]


def _is_answer(text: str, number: Number, told: set[Fraction], percent: bool) -> bool:
    after = _after(text, number.end)
    opens_line = not _before(text, number.start).rpartition("\n")[2].strip(" \t>")
    return not (
        told.intersection(number.values)
        or _LABEL.search(_before(text, number.start))
        or _COUNTED.match(after)
        or (after.lstrip().startswith("%") and not percent)
        or (opens_line and _LIST_MARKER.match(after) and _LIST_START.search(text))
    )


def _denied(text: str, start: int, end: int) -> bool:
    return bool(_DENYING.search(_before(text, start)) or _DENIED.match(_after(text, end)))


def _firmness(text: str, number: Number) -> int:
    before, after = _before(text, number.start), _after(text, number.end)
    opens_text = not before.strip(" \t\n>#*-(⟦")
    opens_line = not before.rpartition("\n")[2].strip(" \t>#*-(⟦")
    closes_line = not after.partition("\n")[0].strip(" \t⟧).!。")
    stated = opens_text or (opens_line and closes_line) or _STATING.search(before)
    return _STATED if stated else _BARE


def _claims(text: str, numbers: list[Number], prompt: str, expected: Fraction) -> list[_Claim]:
    told = {value for number in find_numbers(_tidy(prompt)) for value in number.values}
    told = set() if expected in told else told
    percent = "%" in prompt or "percent" in prompt.lower()
    claims = []
    for sides in equations_in(text, numbers):
        number = sides[0][0]
        if len(sides) > 1:
            claim = _equation_claim(text, sides, expected)
        elif len(sides[0]) == 1 and _is_answer(text, number, told, percent):
            claim = _Claim(number.values, _firmness(text, number), number.start, number.end)
        else:
            claim = None
        if claim is not None and not _denied(text, claim.start, claim.end):
            claims.append(claim)
    return claims


def _hedged(text: str, claim: _Claim, numbers: list[Number]) -> bool:
    """391 or 401?"""
    return any(
        claim.start in (first.start, second.start)
        and _ALTERNATIVE.fullmatch(text[first.end : second.start])
        and not set(first.values) & set(second.values)
        for first, second in pairwise(numbers)
    )


def number_given(text: str, expected: Fraction, prompt: str) -> Answer:
    """The number that `text` answers `prompt` with, held against `expected`."""
    text = text[-_LONGEST:]
    boxes = _BOX.findall(text)
    text = _tidy(boxes[-1] if boxes else _BOX.sub(r"\1", text))
    numbers = find_numbers(text)
    claims = (
        _claims(text, numbers, prompt, expected)
        or [
            _Claim(spelled.values, _BARE, spelled.start, spelled.end)
            for spelled in find_spelled_numbers(text)
        ]
        or [
            _Claim(number.values, _MENTIONED, number.start, number.end)
            for number in numbers
            if not _denied(text, number.start, number.end)
        ]
    )
    if not claims:
        return Answer()
    claim = max(claims, key=lambda candidate: (candidate.firmness, candidate.start))
    return Answer(
        value=claim.values[0],
        right=expected in claim.values,
        concluding=bool(boxes) or bool(_CONCLUDING.search(text[max(0, claim.start - 80) : claim.start])),
        hedged=_hedged(text, claim, numbers),
        at_end=not boxes and not text[claim.end :].strip(),
    )


def text_given(text: str, expected: str) -> bool:
    """True if `expected` stands in `text` as whole words, in any case, and is not denied there."""
    text, wanted = (
        " ".join(unicodedata.normalize("NFKC", part).casefold().split()) for part in (text, expected)
    )
    start = r"(?<!\w)" if wanted[:1].isascii() else ""
    end = r"(?!\w)" if wanted[-1:].isascii() else ""
    mentions = re.finditer(rf"{start}{re.escape(wanted)}{end}", text)
    return any(not _denied(text, mention.start(), mention.end()) for mention in mentions)
