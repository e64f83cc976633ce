# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts of a wanted size in tokens, each one new, for a model whose tokenizer is not known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

# Shuffled anew and dealt out whole, so that no two prompts begin alike (a prefix cache would spare the engine the
# work) and that all have the same number of characters in a token.
_WORDS = """
    river stone window garden letter winter music table morning bridge silver forest paper engine summer market
    water mountain story kitchen doctor island candle history field number wheel village copper thunder basket ocean
""".split()
# Characters in a token: no tokenizer has fewer, so the first prompt is never too long.
_FIRST_GUESS = 1.0
_MOST = 32.0  # what a server that counts nonsense can make of it


class Prompts:
    """Draws prompts, and learns from what the server counted how long a token is."""

    def __init__(self, rng: random.Random | None = None):
        self._rng = rng or random.SystemRandom()
        self._measured = 0
        self.characters_per_token = _FIRST_GUESS

    def draw(self, tokens: int, task: str, told: Sequence[tuple[float, str]] = ()) -> str:
        """Words for about `tokens` tokens, the task at their end included.

        told: sentences that stand among the words on lines of their own, each with its depth from 0 to 1.
        """
        wanted = int(tokens * self.characters_per_token) - len(task)
        wanted -= sum(len(sentence) + 2 for _depth, sentence in told)
        words: list[str] = []
        for word in self._deal():
            wanted -= len(word) + 1
            if wanted < 0 and words:
                break
            words.append(word)
        return f"{_with_sentences(words, told)}\n\n{task}"

    def measure(self, prompt: str, tokens: int) -> None:
        """The server counted `tokens` for this prompt; the longest prompt so far says most."""
        if tokens > self._measured:
            self._measured = tokens
            self.characters_per_token = min(len(prompt) / tokens, _MOST)

    def _deal(self) -> Iterator[str]:
        while True:
            yield from self._rng.sample(_WORDS, len(_WORDS))


def _with_sentences(words: list[str], told: Sequence[tuple[float, str]]) -> str:
    lines, start = [], 0
    for depth, sentence in sorted(told):
        place = round(depth * len(words))
        lines += [" ".join(words[start:place]), sentence]
        start = place
    return "\n".join(line for line in (*lines, " ".join(words[start:])) if line)
