# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers as people and models write them: 391, 3,910, 3.910,5, ３９１, ٣٩١, "three hundred", 三百九十一."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

# Digits are grouped by comma, apostrophe, underscore, no-break or thin space, and by LaTeX's {,} and \, .
# A plain space groups digits only where no further number stands beside it: "3 910", not "98 99 100".
_GROUPED = (
    r"\d{1,3}(?:(?P<sep>[,'\u2019_\u00a0\u2009\u202f]|\{,\}|\\,)\d{3}(?:(?P=sep)\d{3})*)(?!\d)(?:\.\d+)?"
)
_SPACED = r"(?<!\d )\d{1,3}(?: \d{3})+(?! ?\d)(?:[.,]\d+)?"
_DOTTED = r"\d{1,3}(?:\.\d{3})+(?!\d)(?:,\d+)?"
_PLAIN = r"\d+(?:\.\d+|,\d+(?!,?\d))?(?:[eE][+-]?\d{1,3}(?!\d))?"
_NUMBER = re.compile(
    rf"(?<![A-Za-z_\d])(?<!\d\.)(?:{_GROUPED}|{_SPACED}|{_DOTTED}|{_PLAIN})(?!\d|[A-Za-z_]+\d)"
)
_LONGEST = 100  # characters; Python refuses to read integers of thousands of digits, and nobody expects them
# A minus stands right before the number, and neither a number nor a word right before it: "is -5", "(-5)".
_SIGN = re.compile(r"(?:^|[^\w)\]\s-]|[^\d)\]\s]\s+)-$")
_RATIO = re.compile(r"-?\d{1,99}/0*[1-9]\d{0,99}")
_SAME = str.maketrans({"−": "-", "，": ",", "．": ".", "٬": ",", "٫": "."})

_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen".split()
    )
}
_SMALL.update(
    zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True)
)
_LARGE = {"thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = "|".join(sorted([*_SMALL, *_LARGE, "hundred"], key=len, reverse=True))
_WORDS = re.compile(rf"\b(?:{_WORD})(?:(?:[\s,-]+|\s+and\s+)(?:{_WORD}))*\b", re.IGNORECASE)

_SMALL_WORD = re.compile(rf"\b(?:{'|'.join(_SMALL)})\b", re.IGNORECASE)

_HAN_DIGITS = {
    **{sign: value for value, sign in enumerate("〇一二三四五六七八九")},
    "零": 0,
    "两": 2,
    "兩": 2,
}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000, "亿": 10**8, "億": 10**8}
_HAN = re.compile(f"[{''.join([*_HAN_DIGITS, *_HAN_UNITS])}]+")


@dataclass(frozen=True)
class Number:
    """A number at [start, end) of a text; values: its possible readings, the likeliest first ("3.910")."""

    start: int
    end: int
    values: tuple[Fraction, ...]

    @property
    def value(self) -> Fraction:
        return self.values[0]


def ascii_digits(text: str) -> str:
    """The text, character for character, with decimal digits of any script and their separators as ASCII."""
    return "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text.translate(_SAME)
    )


def _readings(token: str) -> tuple[Fraction, ...]:
    bare = re.sub(r"\{,\}|\\,|['\u2019_ \u00a0\u2009\u202f]", "", token)
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", bare):
        return (Fraction(bare.replace(",", "")),)
    if re.fullmatch(r"\d{1,3}(\.\d{3})+(,\d+)?", bare):
        thousands = Fraction(bare.replace(".", "").replace(",", "."))
        return (Fraction(bare), thousands) if re.fullmatch(r"\d+\.\d+", bare) else (thousands,)
    return (Fraction(bare.replace(",", ".")),)


def find_numbers(text: str) -> list[Number]:
    """Every number written in digits, in order. `text` has passed ascii_digits()."""
    found = []
    for match in _NUMBER.finditer(text):
        if len(match.group()) > _LONGEST:
            continue
        values = _readings(match.group())
        start = match.start()
        if _SIGN.search(text[max(0, start - 8) : start]):
            start -= 1
            values = tuple(-value for value in values)
        found.append(Number(start, match.end(), values))
    return found


def read_number(text: str) -> Fraction | None:
    """The one number that the whole text is ("3,910", "-5", "7/2"), None if it is anything else."""
    text = ascii_digits(text.strip())
    numbers = find_numbers(text)
    if len(numbers) == 1 and (numbers[0].start, numbers[0].end) == (0, len(text)):
        return numbers[0].value
    if _RATIO.fullmatch(text):
        return Fraction(text)
    return None


def _english(words: str) -> int:
    total = group = 0
    for word in re.findall(_WORD, words.lower()):
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        else:
            total += max(group, 1) * _LARGE[word]
            group = 0
    return total + group


def _han(signs: str) -> int:
    if not any(sign in _HAN_UNITS for sign in signs):
        return int("".join(str(_HAN_DIGITS[sign]) for sign in signs))
    total = group = digit = 0
    for sign in signs:
        unit = _HAN_UNITS.get(sign)
        if unit is None:
            digit = _HAN_DIGITS[sign]
        elif unit < 10_000:
            group += (digit or 1) * unit
            digit = 0
        else:
            total += max(group + digit, 1) * unit
            group = digit = 0
    return total + group + digit


def small_words_as_digits(text: str) -> str:
    """The text with "one" to "nineteen" and the tens written as digits, each word for itself."""
    return _SMALL_WORD.sub(lambda word: str(_SMALL[word.group().lower()]), text)


def find_spelled_numbers(text: str) -> Iterator[Number]:
    """Every number in English words or Han numerals. For texts without digits: "one" is mostly no number."""
    for match in _WORDS.finditer(text):
        yield Number(match.start(), match.end(), (Fraction(_english(match.group())),))
    for match in _HAN.finditer(text):
        if len(match.group()) <= _LONGEST:
            yield Number(match.start(), match.end(), (Fraction(_han(match.group())),))
