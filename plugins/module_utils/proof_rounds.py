# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove what serves: rounds of questions, the cheapest first, and no further than the first round that fails.

A degenerate engine answers to its last token, so what is expensive is asked of a sane one only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from .arithmetic import Case, draw_products
from .chat import Endpoint
from .engine_metrics import EngineMetricsError, fetch
from .findings import Finding, finding, worst_first
from .generation import Patience, check, findings_of
from .proof import Conclusion, conclude, conclude_draft, conclude_recall, in_short
from .proof_plan import DRAFT, LONG_CONTEXT, Draft, Plan, Recall
from .questions import MAX_TOKENS, Question
from .recall import depths, draw_recall
from .sized_prompts import Prompts
from .spec_decode import Counters, counters_of, report

Say = Callable[[str], None]
Asked = tuple[list[dict[str, Any]], Conclusion]  # the cases of a round, and what they say together

_MEASURE = (
    4  # the first long prompt has a quarter of the wanted tokens in characters, and tells how long a token is
)
_THINGS = "river lamp stone garden harbor engine clock bridge forest signal mirror window tower".split()


@dataclass(frozen=True)
class Round:
    """One round that was asked. cases: as generation.check returns them, long prompts shown in short."""

    name: str
    conclusion: Conclusion
    cases: tuple[dict[str, Any], ...]
    seconds: float


@dataclass(frozen=True)
class Proof:
    """The rounds up to the first that failed. draft: the figures of spec_decode.report, None where none were taken."""

    rounds: tuple[Round, ...]
    findings: tuple[Finding, ...]
    draft: dict[str, Any] | None
    seconds: float

    @property
    def conclusion(self) -> Conclusion:
        """What all rounds prove, or else what the last one says."""
        last = self.rounds[-1]
        told = self.rounds if last.conclusion.outcome == "proven" else (last,)
        said = "; ".join(f"{each.name}: {each.conclusion.reason}" for each in told)
        return Conclusion(last.conclusion.outcome, said)

    @property
    def cases(self) -> list[dict[str, Any]]:
        return [case for each in self.rounds for case in each.cases]


def prove(
    endpoint: Endpoint, plan: Plan, *, say: Say = lambda line: None, rng: random.Random | None = None
) -> Proof:
    """Ask and judge what the plan wants. Raises for nothing that a server can do; say: takes a line for each round.

    Raises ValueError where the range of operands has too few different products.
    """
    return _Prover(endpoint, plan, say, rng).run()


class _Prover:
    def __init__(self, endpoint: Endpoint, plan: Plan, say: Say, rng: random.Random | None):
        self.endpoint, self.plan, self.say = endpoint, plan, say
        self.rng = rng or random.SystemRandom()
        self.patience = Patience(plan.request_timeout_s, plan.total_timeout_s)
        self.deadline = time.monotonic() + plan.total_timeout_s
        self.findings: list[Finding] = []
        self.before: Counters | str | None = None
        self.draft: dict[str, Any] | None = None

    def run(self) -> Proof:
        began = time.monotonic()
        self.before = self._counters() if self.plan.draft else None
        rounds: list[Round] = []
        for name, ask in self._rounds():
            round_began = time.monotonic()
            cases, conclusion = ask()
            seconds = round(time.monotonic() - round_began, 2)
            self.say(f"{name}: {conclusion.outcome}, {conclusion.reason} ({seconds:.1f} s)")
            self.findings += findings_of(cases, self.endpoint.url)
            rounds.append(Round(name, conclusion, tuple(map(_shown, cases)), seconds))
            if conclusion.outcome != "proven":
                break
        for part, why in self.plan.not_asked.items():
            self.say(f"{part}: not asked, {why}")
        seconds = round(time.monotonic() - began, 2)
        return Proof(tuple(rounds), tuple(worst_first(self.findings)), self.draft, seconds)

    def _rounds(self) -> Iterator[tuple[str, Callable[[], Asked]]]:
        plan = self.plan
        for name, count, streams in (
            ("one by one", plan.one_by_one, 1),
            ("all at once", plan.streams, plan.streams),
        ):
            yield name, partial(self._products, count, streams, thinking=False)
            yield f"{name}, thinking", partial(self._products, count, streams, thinking=True)
        if plan.draft:
            yield DRAFT, partial(self._draft, plan.draft)
        if plan.recall:
            yield LONG_CONTEXT, partial(self._recall, plan.recall)

    def _check(self, questions: list[Question], streams: int = 1) -> list[dict[str, Any]]:
        return check(
            self.endpoint,
            questions,
            concurrency=streams,
            patience=self.patience,
            ask_again=True,
            deadline=self.deadline,
        )

    def _products(self, count: int, streams: int, *, thinking: bool) -> Asked:
        drawn = draw_products(count, *self.plan.operands, self.rng)
        cases = self._check([Question(case, thinking, MAX_TOKENS[thinking]) for case in drawn], streams)
        return cases, conclude(cases, streams)

    def _draft(self, draft: Draft) -> Asked:
        """A longer text, and what was drafted and accepted from the first round to its end."""
        things = self.rng.sample(_THINGS, 3)
        prompt = "Write a long story about a {}, a {} and a {}.".format(*things)
        cases = self._check([Question(Case(prompt, None, "open"), False, draft.max_tokens)])
        conclusion = conclude(cases)
        if conclusion.outcome != "proven":
            return cases, conclusion
        after = self._counters()
        for reading in (self.before, after):
            if not isinstance(reading, Counters):
                return cases, Conclusion("unproven", reading)
        self.draft, found = report(after, self.before, f"{self.endpoint.url}/metrics")
        self.findings += found
        conclusion = conclude_draft(self.draft, draft.min_acceptance)
        if conclusion.outcome == "rejected" and self.draft["drafts"]:
            wanted = f"{draft.min_acceptance:.0%}"
            percent = f"{self.draft['acceptance'] or 0:.1%}"
            self.findings.append(
                finding("speculation.low", evidence=conclusion.reason, percent=percent, wanted=wanted)
            )
        return cases, conclusion

    def _counters(self) -> Counters | str:
        """The counters of now, or why they cannot be read."""
        try:
            return counters_of(fetch(self.endpoint.url, verify=self.endpoint.verify))
        except EngineMetricsError as error:
            return str(error)

    def _recall(self, recall: Recall) -> Asked:
        """A short prompt tells how long a token is; then one of full length for each depth."""
        prompts = Prompts(self.rng)
        told_at = depths(recall.questions, self.rng)
        cases: list[dict[str, Any]] = []
        for tokens, told, asked in (
            (recall.prompt_tokens // _MEASURE, [self.rng.random()], 0),
            *((recall.prompt_tokens, told_at, number) for number in range(recall.questions)),
        ):
            case = draw_recall(prompts, tokens, told, asked, self.rng)
            (answer,) = self._check([Question(case, False, recall.max_tokens)])
            cases.append(answer)
            last = answer["again"] or answer
            if answer["prompt_tokens"] is None or last["verdict"] != "correct":
                break  # without its size the next prompt cannot be cut, and one fault is enough
            prompts.measure(case.prompt, answer["prompt_tokens"])
        return cases, conclude_recall(cases, recall.prompt_tokens)


def _shown(case: dict[str, Any]) -> dict[str, Any]:
    again = case["again"] and _shown(case["again"])
    return {**case, "prompt": in_short(case["prompt"]), "again": again}
