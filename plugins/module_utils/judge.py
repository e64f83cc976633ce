# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge one generation against its prompt.

A text that fell apart is degenerate whatever else it says; then the answer decides; a text that was cut
before its answer is inconclusive. Small flaws of a right answer are glitches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .answers import Answer, number_given, text_given
from .loops import Loop, loops_in
from .markup import broken_characters_in, markup_in, without_code, without_markup
from .numerals import read_number
from .scripts import Foreign, families_in, foreign_in

# Worst first: the verdict of several cases is the first of these that any of them has.
VERDICTS = ("unreachable", "degenerate", "wrong", "inconclusive", "correct")
ANSWER_KINDS = ("number", "text", "open")

_ASKS_TO_COUNT = re.compile(
    r"\b(?:count(?:ing|down)?|lists?|enumerate|numbers|sequence|series|multiples|tables?|first \d+|"
    r"from \d+ to \d+|zähle|compte[rz]?|cuenta)\b|数到|列出",
    re.IGNORECASE,
)
_ASKS_TO_REPEAT = re.compile(
    r"\b(?:repeat\w*|again and again|over and over|in a row|\d+ times(?!\s*\d)|songs?|poems?|lyrics|refrain|"
    r"chant|wiederhole|répète)\b|重复|重複",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"^\W*(?:i['\u2019]m |i am )?(?:sorry|unable|afraid)"
    r"|\bI (?:can['\u2019]?t|cannot|won['\u2019]t|am (?:not able|unable) to)\b|\bas an AI\b|抱歉|无法|извините",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Judgement:
    verdict: str
    why: str
    glitches: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Content:
    """The content of one reply as the judge sees it. finished: the model itself ended it."""

    prompt: str
    text: str
    right: bool
    finished: bool


def kind_of(expected: str | None) -> str:
    """The kind of answer where the caller named none."""
    if expected is None or not expected.strip():
        return "open"
    return "text" if read_number(expected) is None else "number"


def worst_of(verdicts: list[str]) -> str:
    return min(verdicts, key=VERDICTS.index)


def _unasked_loops(content: _Content) -> list[Loop]:
    """The repetitions in the text that the prompt does not ask for, the fatal ones first."""
    text = without_code(content.text) if content.finished else content.text
    unasked = [
        loop
        for loop in loops_in(text, cut=not content.finished)
        if not (_ASKS_TO_COUNT if loop.kind == "counts" else _ASKS_TO_REPEAT).search(content.prompt)
    ]
    return sorted(unasked, key=lambda loop: not _is_fatal(loop, content))


def _is_fatal(loop: Loop, content: _Content) -> bool:
    """Whether a repetition makes the text degenerate, or is a flaw of it at most."""
    if not content.finished:
        return loop.at_end or loop.share >= 0.5
    if loop.at_end:
        return loop.share >= 0.5 or loop.strong or not content.right
    return loop.share >= (0.8 if content.right else 0.5)


def _is_salad(foreign: Foreign) -> bool:
    if len(foreign.families) >= 3:
        return True
    if len(foreign.families) == 2:
        return foreign.islands >= 3 or foreign.share > 0.5
    return foreign.islands >= 4 and foreign.share < 0.6


def _switches_language(foreign: Foreign) -> bool:
    return len(foreign.families) == 1 and foreign.share >= 0.6


def _answers_in_another_script(content: _Content) -> bool:
    asked, used = families_in(content.prompt), families_in(content.text)
    main = asked.most_common(1)[0][0] if asked else "Latin"
    return main != "Latin" and not used[main] and used["Latin"] >= 10


def _inspect(content: _Content, expected: str | None) -> tuple[str | None, list[str]]:
    """(why the content is degenerate or None, its flaws)."""
    bare = without_markup(content.text)
    flaws: list[str] = []
    signs = 0
    for loop in _unasked_loops(content)[:1]:
        if _is_fatal(loop, content):
            return str(loop), flaws
        flaws.append(str(loop))
    if markup := markup_in(content.text, content.prompt):
        flaws.append(f"control markup in the answer: {markup[0]}")
        signs += 1
        if not any(map(str.isalnum, bare)) or len(markup) >= (8 if content.right else 3):
            return f"control markup {len(markup)} times: {markup[0]}", flaws
    if foreign := foreign_in(bare, f"{content.prompt} {expected or ''}"):
        if _is_salad(foreign):
            return f"scripts mixed without sense: {', '.join(sorted(foreign.families))}", flaws
        signs += 1
        flaws.append(
            f"answers in another script than it was asked in: {foreign.sample[:20]}"
            if _switches_language(foreign)
            else f"stray {foreign.sample[:20]!r}"
        )
    elif _answers_in_another_script(content):
        flaws.append("answers in another script than it was asked in")
    if broken := broken_characters_in(content.text):
        flaws.append(f"{broken} broken characters")
        signs += broken >= 3
        if broken >= 3 and broken >= 0.05 * len(content.text):
            return f"{broken} broken characters in {len(content.text)}", flaws
    if not any(map(str.isalnum, content.text)) and len(content.text.strip()) >= 8:
        return f"nothing but signs: {content.text.strip()[:20]!r}", flaws
    if signs >= 2 and not content.right:
        return f"fell apart: {'; '.join(flaws)}", flaws
    return None, flaws


def _reasoning_fault(prompt: str, reasoning: str, answered: bool, right: bool) -> str | None:
    """Why the reasoning is degenerate.

    Thinking in another language, and going over the same thoughts on the way to an answer, is the model's own affair.
    """
    thought = _Content(prompt, reasoning, right, answered)
    for loop in _unasked_loops(thought):
        if _is_fatal(loop, thought) and not (answered and loop.kind == "wanders"):
            return f"the reasoning {loop}"
    if (foreign := foreign_in(reasoning, prompt)) and len(foreign.families) >= 3:
        return "the reasoning mixes scripts without sense"
    return None


def _judge_empty(reasoning: str, finish_reason: str) -> Judgement:
    if finish_reason == "stop":
        where = " (the reasoning has text)" if reasoning.strip() else ""
        return Judgement("wrong", f"stopped without an answer{where}")
    if finish_reason == "tool_calls":
        return Judgement("wrong", "called a tool instead of answering")
    spent = "the token limit was spent on reasoning" if reasoning.strip() else "no text"
    return Judgement("inconclusive", f"{spent}, finish_reason {finish_reason}")


def _judge_answer(
    content: _Content, kind: str, expected: str, answer: Answer, finish_reason: str
) -> Judgement:
    """The verdict on a sane text that is not right."""
    if not content.finished and not (answer.concluding and not answer.at_end and answer.value is not None):
        return Judgement("inconclusive", f"ended by {finish_reason} before the answer")
    if answer.hedged:
        return Judgement("wrong", f"offers two answers, expected {expected}")
    if answer.value is not None:
        value = answer.value if answer.value.denominator == 1 else float(answer.value)
        return Judgement("wrong", f"answers {value}, expected {expected}")
    if _REFUSAL.search(content.text[:200]):
        return Judgement("wrong", f"refuses to answer, expected {expected}")
    return Judgement(
        "wrong", f"does not say {expected}" if kind == "text" else f"gives no number, expected {expected}"
    )


def judge(
    prompt: str,
    expected: str | None,
    answer_kind: str | None,
    text: str,
    reasoning: str = "",
    finish_reason: str | None = "stop",
) -> Judgement:
    """Judge one generation.

    answer_kind: number (compared by value), text (whole words, any case), open (nothing expected, the text
    must be sane), or None to tell it from `expected`. finish_reason None: the stream was cut.
    Raises ValueError if a number is expected and `expected` is none.
    """
    kind = answer_kind or kind_of(expected)
    answer = Answer(right=kind == "open")
    if kind == "number":
        number = read_number(expected or "")
        if number is None:
            raise ValueError(f"expected is {expected!r}, wanted a number, because answer_kind is number")
        answer = number_given(without_markup(text), number, prompt)
    elif kind == "text":
        answer = Answer(right=text_given(without_markup(text), expected or ""))

    cut_at_answer = finish_reason == "length" and kind == "number" and answer.at_end
    right = answer.right and not answer.hedged and not cut_at_answer and bool(text.strip())
    content = _Content(prompt, text, right and kind != "open", finish_reason in ("stop", "tool_calls"))
    fault, flaws = _inspect(content, expected) if text else (None, [])
    fault = fault or _reasoning_fault(prompt, reasoning, bool(text.strip()), right)

    if finish_reason is None:
        return Judgement(
            "inconclusive",
            "the stream ended before the generation did",
            (*flaws, *([fault] if fault else [])),
        )
    if finish_reason == "repetition":
        return Judgement("degenerate", "the engine itself stopped it for repetition", tuple(flaws))
    if fault:
        return Judgement("degenerate", fault, tuple(flaws))
    if not text.strip():
        return _judge_empty(reasoning, finish_reason)
    if right:
        if kind != "open" and not content.finished:
            flaws.append(f"ended by {finish_reason} after the answer")
        why = "sane text, nothing was expected" if kind == "open" else f"answers {expected}"
        return Judgement("correct", why, tuple(flaws))
    judgement = _judge_answer(content, kind, expected or "", answer, finish_reason)
    return Judgement(judgement.verdict, judgement.why, tuple(flaws))
