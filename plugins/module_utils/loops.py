# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repetition in a text: the same words again and again, numbers that only count on, words that come round and round."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise

from .numerals import small_words_as_digits

# A word, a number or a sign of its own; a Han, kana or Hangul character counts as a word of its own.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['\u2019][^\W_]+)*|[^\w\s]|_")
_LONGEST = 65536  # characters looked at, from the end: a loop runs to the end of what was generated
_WINDOW = 2048  # tokens, likewise
_LONGEST_UNIT = 256  # tokens
_NUMBER = re.compile(r"\d{1,9}")
_RULES = set("-=_*#~|+.:·—─═ ")  # lines, table borders and dot leaders repeat by nature
_LONGEST_RULE = 100  # tokens


@dataclass(frozen=True)
class Loop:
    """A unit of text said again and again.

    kind: repeats (the unit as it is), counts (its number grows), wanders (its words in changing order).
    share: of the whole text, 0..1. at_end: the text ends within it. strong: twice as often as makes a loop.
    """

    kind: str
    unit: str
    times: int
    share: float
    at_end: bool
    strong: bool

    def __str__(self) -> str:
        unit = self.unit if len(self.unit) <= 60 else f"{self.unit[:60]}…"
        return f"counts on and on: {unit}" if self.kind == "counts" else f"says {unit!r} {self.times} times"


def _needed(length: int, cut: bool) -> int:
    """How often a unit of so many tokens must follow itself to be a loop.

    A refrain is sung three times. Where the token limit cut the text three are enough for a sentence.
    """
    if length == 1:
        return 8
    if length < 4:
        return 6
    return 3 if cut and length >= 8 else 4


def _longest_run(tokens: list[str], length: int) -> tuple[int, int]:
    """(start, tokens) of the longest stretch in which every token equals the one `length` before it."""
    start = longest = run = 0
    for index in range(length, len(tokens)):
        run = run + 1 if tokens[index] == tokens[index - length] else 0
        if run > longest:
            start, longest = index - run - length + 1, run
    return start, longest + length if longest else 0


def _repeats(tokens: list[str], cut: bool) -> Loop | None:
    """The repetition that covers most of the text; of equal ones that of the shortest unit."""
    found = None
    for length in range(1, min(_LONGEST_UNIT, len(tokens) // 3) + 1):
        start, covered = _longest_run(tokens, length)
        times, needed = covered // length, _needed(length, cut)
        unit = tokens[start : start + length]
        rule = _RULES.issuperset("".join(unit)) and covered < _LONGEST_RULE
        if times < needed or rule:
            continue
        share = covered / len(tokens)
        if found is None or share > 1.1 * found.share:
            at_end = start + covered >= len(tokens) - 3
            found = Loop("repeats", " ".join(unit), times, share, at_end, times >= 2 * needed)
    return found


def _stutters(text: str) -> Loop | None:
    """A repetition inside one word: "thethethethethe", "aaaaaaaaaaaaaaaaaaaaaaaa"."""
    for match in re.finditer(r"(\w{1,8}?)\1{5,}", text):
        unit, covered = match.group(1), len(match.group())
        whole = covered >= 16 and covered == len(text.strip())
        if whole or covered >= (48 if unit.isdigit() else 24):
            at_end = match.end() >= len(text.rstrip()) - 2
            return Loop("repeats", unit, covered // len(unit), covered / len(text), at_end, covered >= 96)
    return None


def _trails_off(text: str) -> Loop | None:
    """Nothing but blanks and line ends at the end."""
    blanks = len(text) - len(text.rstrip())
    return Loop("repeats", "blank", blanks, blanks / len(text), True, blanks >= 64) if blanks >= 32 else None


def _counts(text: str) -> Loop | None:
    """The longest row of numbers ("1. 2. 3. …", "Step 1 Step 2 …") with equal steps and equal text between them."""
    text = small_words_as_digits(text)
    numbers = list(_NUMBER.finditer(text))
    steps = [
        (int(after.group()) - int(before.group()), " ".join(text[before.end() : after.start()].split()))
        for before, after in pairwise(numbers)
    ]
    found = None
    first = 0
    for (step, gap), group in groupby(steps):
        last = first + len(list(group))
        times = last - first + 1
        needed = 12 if re.search(r"[^\W\d_]", gap) else 8
        if step and times >= needed and (found is None or times > found.times):
            start, end = numbers[first].start(), numbers[last].end()
            unit = f"{numbers[first].group()}{gap} {numbers[first + 1].group()}{gap} …"
            at_end = len(text.rstrip()) - end < 8
            found = Loop("counts", unit, times, (end - start) / len(text), at_end, times >= 2 * needed)
        first = last
    return found


def _wanders(tokens: list[str]) -> Loop | None:
    """Phrases of four words that come round without a fixed order, or with changing numbers in between."""
    words = [token for token in tokens if token[0].isalpha()]
    phrases = Counter(zip(words, words[1:], words[2:], words[3:], strict=False))
    total = sum(phrases.values())
    if total < 48 or len(phrases) >= 0.35 * total:
        return None
    phrase, times = phrases.most_common(1)[0]
    return Loop("wanders", " ".join(phrase), times, 1 - len(phrases) / total, at_end=True, strong=True)


def loops_in(text: str, *, cut: bool = False) -> list[Loop]:
    """The repetitions of a text, one of each sort at most. cut: the token limit ended it."""
    text = text[-_LONGEST:]
    tokens = _TOKEN.findall(text.lower())[-_WINDOW:]
    found = (_counts(text), _repeats(tokens, cut), _stutters(text), _trails_off(text), _wanders(tokens))
    return [loop for loop in found if loop]
