# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs that a text fell apart: loops, counting, mixed scripts, control markup, broken characters."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby

# A word, a number or a sign of its own; a Han, kana or Hangul character counts as a word of its own.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")
_LONGEST = 65536  # characters looked at, from the end: a loop runs to the end of what was generated
_WINDOW = 2048  # tokens, likewise
_LONGEST_UNIT = 256  # tokens

_MARKUP = re.compile(
    r"</?think(?:ing)?>|<[|｜][^|｜<>\n]{1,40}[|｜]>|</?[|｜]?(?:DSML)[^>\n]{0,40}>?|</?tool_(?:call|response)s?>"
    r"|<function=[^>\n]{1,40}>|\[/?(?:TOOL_CALLS|INST|AVAILABLE_TOOLS)\]|<(?:eos|bos|pad|unk)>|<0x[0-9A-F]{2}>"
    r"|<(?:start|end)_of_turn>",
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_BROKEN = re.compile(r"[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ue000-\uf8ff]")
_NUMBER = re.compile(r"\d{1,9}")
_RULES = set("-=_*#~|+.:·—─═ ")  # lines, table borders and dot leaders repeat by nature


@dataclass(frozen=True)
class Loop:
    """A unit of text said again and again.

    share: of the whole text, 0..1. at_end: the text ends within it. strong: twice as often as makes a loop.
    counts: the unit's number grows each time.
    """

    unit: str
    times: int
    share: float
    at_end: bool
    strong: bool
    counts: bool = False

    def __str__(self) -> str:
        unit = self.unit if len(self.unit) <= 60 else f"{self.unit[:60]}…"
        return f"counts on and on: {unit}" if self.counts else f"says {unit!r} {self.times} times"


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())[-_WINDOW:]


def _needed(length: int) -> int:
    """How often a unit of so many tokens must follow itself to be a loop; a refrain is sung three times."""
    if length == 1:
        return 8
    return 6 if length < 4 else 4


def _longest_run(tokens: list[str], length: int) -> tuple[int, int]:
    """(start, tokens) of the longest stretch in which every token equals the one `length` before it."""
    best = (0, 0)
    run = 0
    for index in range(length, len(tokens)):
        run = run + 1 if tokens[index] == tokens[index - length] else 0
        if run > best[1]:
            best = (index - run - length + 1, run)
    return best[0], best[1] + length if best[1] else 0


def find_loop(tokens: list[str]) -> Loop | None:
    """The loop that covers most of the text, None where nothing follows itself often enough."""
    found = None
    for length in range(1, min(_LONGEST_UNIT, len(tokens) // 3) + 1):
        start, covered = _longest_run(tokens, length)
        times = covered // length
        unit = tokens[start : start + length]
        if times < _needed(length) or _RULES.issuperset("".join(unit)):
            continue
        if found is None or covered / len(tokens) > found.share * 1.1:
            at_end = start + covered >= len(tokens) - 3
            found = Loop(" ".join(unit), times, covered / len(tokens), at_end, times >= 2 * _needed(length))
    return found


def find_stutter(text: str) -> Loop | None:
    """A loop inside one word: "thethethethethe", "aaaaaaaaaaaaaaaaaaaaaaaa"; a page of blanks is one too."""
    for match in re.finditer(r"(\w{1,8}?)\1{5,}", text):
        unit, covered = match.group(1), len(match.group())
        if covered >= (48 if unit.isdigit() else 24):
            at_end = match.end() >= len(text.rstrip()) - 2
            return Loop(unit, covered // len(unit), covered / len(text), at_end, covered >= 96)
    blanks = len(text) - len(text.rstrip())
    return Loop("blank", blanks, blanks / len(text), True, blanks >= 64) if blanks >= 32 else None


def find_counter(text: str) -> Loop | None:
    """Numbers that only count on ("1. 2. 3. …", "Step 1 Step 2 …"): equal steps, equal text between them."""
    numbers = list(_NUMBER.finditer(text))
    steps = [
        (int(after.group()) - int(before.group()), " ".join(text[before.end() : after.start()].split()))
        for before, after in zip(numbers, numbers[1:], strict=False)
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
            found = Loop(unit, times, (end - start) / len(text), at_end, times >= 2 * needed, counts=True)
        first = last
    return found


def find_monotony(tokens: list[str]) -> Loop | None:
    """Words that come round again and again without a fixed order or with changing numbers in between."""
    words = [token for token in tokens if token[0].isalpha()]
    phrases = Counter(zip(words, words[1:], words[2:], words[3:], strict=False))
    total = sum(phrases.values())
    if total < 48 or len(phrases) >= 0.35 * total:
        return None
    phrase, times = phrases.most_common(1)[0]
    return Loop(" ".join(phrase), times, 1 - len(phrases) / total, at_end=True, strong=True)


def loop_in(text: str) -> Loop | None:
    """The worst repetition of a text, None where it does not repeat itself."""
    text = text[-_LONGEST:]
    tokens = tokens_of(text)
    if not tokens:
        return find_stutter(text)
    return find_counter(text) or find_loop(tokens) or find_stutter(text) or find_monotony(tokens)


def without_code(text: str) -> str:
    """The text without its code blocks and spans, which may repeat and quote what they like."""
    return _CODE.sub("", text)


def without_markup(text: str) -> str:
    return _MARKUP.sub(" ", text)


def markup_in(text: str, prompt: str) -> list[str]:
    """Control markup, which belongs to the engine; what the prompt or a code span quotes is none."""
    return [found for found in _MARKUP.findall(without_code(text)) if found not in prompt]


def broken_characters_in(text: str) -> int:
    """Replacement, control and private-use characters: what a torn token stream decodes to."""
    return len(_BROKEN.findall(text))
