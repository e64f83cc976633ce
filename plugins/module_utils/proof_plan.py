# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a proof asks: the profile's section `proof`, the number of streams, and how long it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .recall import ITEMS

LEAST_RECALL_TOKENS = 400  # a shorter prompt has no depth
MOST_RECALL_TOKENS = 2_000_000
# Prompts are cut to size by what the server counted for shorter ones, and may be longer by this part.
_LONGER = Fraction(1, 10)
LONG_CONTEXT, DRAFT = "long context", "draft"
# The parts that may be left out: what sizes them in a section, and what in its `skip` says why they are not asked.
PARTS = {LONG_CONTEXT: ("recall", "long_context"), DRAFT: ("draft", "draft_acceptance")}


@dataclass(frozen=True)
class Recall:
    """About how long each prompt is, how many there are, and the longest answer."""

    prompt_tokens: int
    questions: int
    max_tokens: int


@dataclass(frozen=True)
class Draft:
    """min_acceptance: accepted tokens for each drafted one, 0..1, below which the draft is no good one."""

    max_tokens: int
    min_acceptance: float


@dataclass(frozen=True)
class Plan:
    """streams: questions at the same time, as many as the engine takes. not_asked: {part: why} of what is left out."""

    operands: tuple[int, int]
    one_by_one: int
    streams: int
    recall: Recall | None
    draft: Draft | None
    request_timeout_s: float
    total_timeout_s: float
    not_asked: Mapping[str, str] = field(default_factory=dict)


def _recall_problems(recall: Mapping[str, Any], context: object) -> list[str]:
    tokens, questions, answer = (recall[key] for key in ("prompt_tokens", "questions", "max_tokens"))
    wrong = []
    if not LEAST_RECALL_TOKENS <= tokens <= MOST_RECALL_TOKENS:
        wrong.append(
            f"recall.prompt_tokens is {tokens}, wanted {LEAST_RECALL_TOKENS} to {MOST_RECALL_TOKENS}"
        )
    if not 1 <= questions <= len(ITEMS):
        wrong.append(f"recall.questions is {questions}, wanted 1 to {len(ITEMS)}")
    if answer < 1:
        wrong.append(f"recall.max_tokens is {answer}, wanted more than 0")
    # vLLM takes "auto" and -1 too
    largest = int(tokens * (1 + _LONGER)) + answer
    if isinstance(context, int) and 0 < context < largest:
        wrong.append(
            f"recall may need {largest} tokens (a prompt may be a tenth longer than prompt_tokens), "
            f"wanted at most the {context} of max-model-len"
        )
    return wrong


def _draft_problems(draft: Mapping[str, Any]) -> list[str]:
    tokens, floor = draft["max_tokens"], draft["min_acceptance"]
    wrong = [] if tokens > 0 else [f"draft.max_tokens is {tokens}, wanted more than 0"]
    if not 0 <= floor <= 1:
        wrong.append(f"draft.min_acceptance is {floor}, wanted a part of 1, such as 0.3")
    return wrong


def problems(section: Mapping[str, Any], context: object = None, *, speculates: bool = False) -> list[str]:
    """What is wrong with the sizes of a section `proof` whose types are right.

    context: the longest prompt and answer together that the engine takes, if it is a number.
    """
    skip, recall, draft = section.get("skip") or {}, section.get("recall"), section.get("draft")
    wrong = [
        f"{name} is {section[name]}, wanted more than 0"
        for name in ("one_by_one", "request_timeout_s")
        if name in section and section[name] <= 0
    ]
    if recall is not None:
        wrong += _recall_problems(recall, context)
    elif "long_context" not in skip:
        wrong.append("recall is missing: size it, or say in skip.long_context why it is not asked")
    if draft is not None:
        wrong += _draft_problems(draft)
    elif speculates and "draft_acceptance" not in skip:
        wrong.append("draft is missing: give its floor, or say in skip.draft_acceptance why it is not asked")
    return wrong


def plan_of(
    section: Mapping[str, Any], *, streams: int, speculates: bool | None, total_timeout_s: float
) -> Plan:
    """What a section asks. A part that it skips, or that it does not know yet, is not asked.

    speculates: whether the engine was started with speculation, None where the release does not say so.
    Raises ValueError with every problem at once.
    """
    not_asked = _not_asked(section, speculates)
    operands = list(section["operands"])
    # What is not asked may be missing here: the release may be older than it.
    skip = {key: not_asked[part] for part, (_name, key) in PARTS.items() if part in not_asked}
    wrong = problems({**section, "skip": skip}, speculates=bool(speculates))
    if len(operands) != 2 or not 1 <= operands[0] <= operands[1]:
        wrong.append(f"operands are {operands}, wanted the smallest and the largest")
    if streams < 1:
        wrong.append(f"concurrency is {streams}, wanted more than 0")
    if total_timeout_s <= 0:
        wrong.append(f"total_timeout is {total_timeout_s:g}, wanted more than 0")
    if wrong:
        raise ValueError("; ".join(wrong))
    return Plan(
        operands=(operands[0], operands[1]),
        one_by_one=section["one_by_one"],
        streams=streams,
        recall=None if LONG_CONTEXT in not_asked else Recall(**section["recall"]),
        draft=None if DRAFT in not_asked else Draft(**section["draft"]),
        request_timeout_s=section["request_timeout_s"],
        total_timeout_s=total_timeout_s,
        not_asked=not_asked,
    )


def _not_asked(section: Mapping[str, Any], speculates: bool | None) -> dict[str, str]:
    skip = section.get("skip") or {}
    found = {}
    for part, (name, key) in PARTS.items():
        if key in skip:
            found[part] = str(skip[key])
        elif part == DRAFT and speculates is False:
            found[part] = "the release does not speculate"
        elif not section.get(name) or (part == DRAFT and speculates is None):
            found[part] = "the release does not say how"
    return found
