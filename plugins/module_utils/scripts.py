# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scripts a text is written in, and which of them its prompt did not call for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

# The first word of a character's Unicode name, where several belong to one way of writing.
_FAMILIES = {
    "CJK": "East Asian",
    "HIRAGANA": "East Asian",
    "KATAKANA": "East Asian",
    "KATAKANA-HIRAGANA": "East Asian",
    "HALFWIDTH": "East Asian",
    "HANGUL": "East Asian",
    "BOPOMOFO": "East Asian",
    "IDEOGRAPHIC": "East Asian",
}
_SCRIPTS = set(
    "LATIN CYRILLIC GREEK ARABIC HEBREW THAI DEVANAGARI BENGALI TAMIL TELUGU KANNADA MALAYALAM GUJARATI "
    "GURMUKHI ORIYA SINHALA GEORGIAN ARMENIAN ETHIOPIC KHMER LAO MYANMAR TIBETAN MONGOLIAN".split()
)
_LANGUAGES = {
    "East Asian": r"chinese|mandarin|japanese|kanji|hiragana|katakana|korean|hangul",
    "Cyrillic": r"russian|ukrainian|bulgarian|serbian|belarusian|cyrillic",
    "Greek": r"greek",
    "Arabic": r"arabic|persian|farsi|urdu",
    "Hebrew": r"hebrew|yiddish",
    "Thai": r"thai",
    "Devanagari": r"hindi|sanskrit|nepali|marathi|devanagari",
}
_ANY_LANGUAGE = re.compile(
    r"\b(?:languages?|translat\w*|alphabets?|scripts?|unicode|polyglot)\b", re.IGNORECASE
)
_QUOTES = tuple("(（[「『\"\u201c'\u2018«")


@dataclass(frozen=True)
class Foreign:
    """What a text holds of families that its prompt did not call for.

    share: of the text's letters, 0..1. islands: stretches between letters of other families.
    sample: the first stretch.
    """

    families: frozenset[str]
    share: float
    islands: int
    sample: str


@lru_cache(maxsize=4096)
def family_of(letter: str) -> str | None:
    """The way of writing that a letter belongs to; None for signs, digits and letter-like symbols."""
    if not letter.isalpha():
        return None
    first = unicodedata.name(letter, "").split(" ", 1)[0]
    return _FAMILIES.get(first) or (first.capitalize() if first in _SCRIPTS else None)


def families_in(text: str) -> Counter[str]:
    """Letters per family."""
    return Counter(family for family in map(family_of, text) if family)


def families_asked_for(prompt: str) -> set[str] | None:
    """The families that an answer may be written in besides Latin; None if any may."""
    if _ANY_LANGUAGE.search(prompt):
        return None
    named = {
        family
        for family, words in _LANGUAGES.items()
        if re.search(rf"\b(?:{words})\b", prompt, re.IGNORECASE)
    }
    return named | set(families_in(prompt)) | {"Latin"}


def _stretches(text: str) -> Iterator[tuple[str, str, bool]]:
    """(family, letters, quoted) of each stretch; signs, digits and spaces do not end a stretch."""
    family, start, end = None, 0, 0
    for index, letter in enumerate(text):
        here = family_of(letter)
        if here is None:
            continue
        if here != family:
            if family is not None:
                yield family, text[start:end], text[max(0, start - 1) : start] in _QUOTES
            family, start = here, index
        end = index + 1
    if family is not None:
        yield family, text[start:end], text[max(0, start - 1) : start] in _QUOTES


def foreign_in(text: str, prompt: str) -> Foreign | None:
    """What of `text` is in a script that `prompt` did not call for; None if nothing is.

    Glosses in brackets or quotation marks and lone Greek letters (π, Δ) are not foreign.
    """
    allowed = families_asked_for(prompt)
    if allowed is None:
        return None
    found = [
        (family, letters)
        for family, letters, quoted in _stretches(text)
        if family not in allowed and not quoted and (family != "Greek" or len(letters) > 1)
    ]
    if not found:
        return None
    families, stretches = zip(*found, strict=True)
    share = sum(map(str.isalpha, "".join(stretches))) / sum(map(str.isalpha, text))
    return Foreign(frozenset(families), share, len(found), stretches[0])
