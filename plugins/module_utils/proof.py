# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conclude whether a release is proven: from judged generations, and from what the engine counted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .answers import number_given, text_given
from .numerals import read_number
from .spec_decode import ACCEPTED, DRAFTED, DRAFTS, GENERATED

Case = Mapping[str, Any]  # one of the cases[] that generation_check returns

MAX_WRONG = Fraction(1, 10)
_LONG_ENOUGH = Fraction(3, 4)  # of the wanted tokens
_LONGEST_PROMPT = 400  # characters shown of one


@dataclass(frozen=True)
class Conclusion:
    """outcome: proven, rejected (the release is bad) or unproven (nothing was shown either way); reason: why."""

    outcome: str
    reason: str


def answers_of_another(case: Case, cases: Sequence[Case]) -> Case | None:
    """The other case whose expected answer this wrong one gives, None if there is none: streams got mixed up."""
    for other in cases:
        told = other["expected"]
        if not told or told == case["expected"] or told in case["prompt"]:
            continue
        number = read_number(told)
        if number is None:
            same = text_given(case["text"], told)
        else:
            same = number_given(case["text"], number, case["prompt"]).right
        if same:
            return other
    return None


def in_short(prompt: str) -> str:
    """A prompt as it can be shown: of a long one the beginning and the end, where the question stands."""
    if len(prompt) <= _LONGEST_PROMPT:
        return prompt
    part = _LONGEST_PROMPT // 4
    return f"{prompt[:part]} … ({len(prompt)} characters) … {prompt[-part:]}"


def _described(case: Case) -> str:
    said = (case["text"] or case["reasoning"]).strip()
    said = said if len(said) <= 80 else f"{said[:80]}…"
    return f"asked {in_short(case['prompt'])!r} with thinking {'on' if case['thinking'] else 'off'}, it said {said!r}"


def _attempts(cases: Sequence[Case], verdict: str) -> list[Case]:
    """The first and second answers with this verdict."""
    both = (attempt for case in cases for attempt in (case, case["again"]) if attempt)
    return [attempt for attempt in both if attempt["verdict"] == verdict]


def _degenerate(cases: Sequence[Case], concurrency: int) -> Conclusion | None:
    bad = _attempts(cases, "degenerate")
    if not bad:
        return None
    reason = f"{len(bad)} of {len(cases)} answers degenerate: {_described(bad[0])} ({bad[0]['why']})"
    if concurrency > 1:
        # The two settings under which the reported degeneration above two sequences did not occur.
        reason += (
            f". It was asked {concurrency} at a time; the known ways out are eager mode and max_num_seqs 2"
        )
    return Conclusion("rejected", reason)


def _crossed(cases: Sequence[Case]) -> Conclusion | None:
    for attempt in _attempts(cases, "wrong"):
        if other := answers_of_another(attempt, cases):
            return Conclusion(
                "rejected",
                f"{_described(attempt)}, the answer to another stream's {in_short(other['prompt'])!r}",
            )
    return None


def _still_wrong(cases: Sequence[Case]) -> list[Case]:
    return [
        case for case in cases if case["verdict"] == "wrong" and (case["again"] or case)["verdict"] == "wrong"
    ]


def _open_questions(cases: Sequence[Case]) -> list[Case]:
    last = [case["again"] or case for case in cases]
    return [case for case in last if case["verdict"] in ("unreachable", "inconclusive")]


def conclude(cases: Sequence[Case], concurrency: int = 1) -> Conclusion:
    """Whether `cases`, asked `concurrency` at a time, prove the release that answered them.

    Degenerate text, or the answer of another stream, rejects whatever else happened; so does more than a tenth of
    the answers still wrong when asked again alone. What was not answered leaves the release unproven.
    """
    if not cases:
        return Conclusion("unproven", "nothing was asked")
    rejected = _degenerate(cases, concurrency) or _crossed(cases)
    if rejected:
        return rejected
    wrong, unanswered = _still_wrong(cases), _open_questions(cases)
    answered = len(cases) - len(unanswered)
    if len(wrong) > MAX_WRONG * answered:
        return Conclusion("rejected", f"{len(wrong)} of {answered} answers wrong: {_described(wrong[0])}")
    if unanswered:
        return Conclusion(
            "unproven",
            f"{len(unanswered)} of {len(cases)} questions without an answer: {unanswered[0]['why']}",
        )
    first_wrong = sum(case["verdict"] == "wrong" for case in cases)
    again = f", {first_wrong - len(wrong)} of them when asked again" if first_wrong > len(wrong) else ""
    return Conclusion("proven", f"{len(cases) - len(wrong)} of {len(cases)} answers right{again}")


def conclude_recall(cases: Sequence[Case], prompt_tokens: int) -> Conclusion:
    """Whether `cases`, each with a long prompt that tells its answer, prove it for about `prompt_tokens` tokens.

    What the server counted says how long the prompts were: where it does not, or they came out much shorter, nothing
    is proven of that length.
    """
    conclusion = conclude(cases)
    if conclusion.outcome != "proven":
        return conclusion
    sizes = [case["prompt_tokens"] for case in cases]
    if None in sizes:
        return Conclusion("unproven", "an answer has no `usage`, so the length of its prompt is not known")
    if max(sizes) < _LONG_ENOUGH * prompt_tokens:
        return Conclusion(
            "unproven", f"the longest prompt came out at {max(sizes)} tokens, wanted {prompt_tokens}"
        )
    return Conclusion("proven", f"{conclusion.reason}, in prompts of {min(sizes)} to {max(sizes)} tokens")


def conclude_draft(figures: Mapping[str, Any], min_acceptance: float) -> Conclusion:
    """Whether the draft is engaged, by the difference of two readings of the counters (spec_decode.report).

    High acceptance proves nothing beyond that: an engine that only counts has it too, so texts are judged before.
    """
    drafts, drafted, accepted = (figures[key] for key in ("drafts", "draft_tokens", "accepted_tokens"))
    if figures["reset"]:
        return Conclusion(
            "unproven", "the engine was started anew while it was asked, so its counters began anew"
        )
    counted = {DRAFTS: drafts, DRAFTED: drafted, ACCEPTED: accepted}
    missing = [name for name, count in counted.items() if count is None]
    if missing:
        return Conclusion("unproven", f"/metrics has no {' and no '.join(missing)}")
    if not drafts or not drafted:
        generated = figures["generation_tokens"]
        if not generated:
            return Conclusion(
                "unproven", f"{GENERATED} did not move, so these are not the counters of what answered"
            )
        return Conclusion(
            "rejected",
            f"nothing was drafted in {generated} generated tokens: {DRAFTS} grew by {drafts}, "
            f"{DRAFTED} by {drafted}",
        )
    share = f"{accepted} of {drafted} drafted tokens accepted in {drafts} drafts"
    if accepted < min_acceptance * drafted:
        return Conclusion(
            "rejected",
            f"acceptance {accepted / drafted:.3f} is below the profile's {min_acceptance:g}: {share} "
            f"({ACCEPTED} and {DRAFTED})",
        )
    return Conclusion("proven", f"{share}, acceptance {accepted / drafted:.3f}")
