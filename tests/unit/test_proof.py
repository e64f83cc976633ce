# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole proof: what it asks, how long its prompts are, what the counters say, and where it ends."""

from __future__ import annotations

import random
import re
import threading

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.judge import judge
from ansible_collections.tandem.spark.plugins.module_utils.proof import (
    conclude_draft,
    conclude_recall,
    in_short,
)
from ansible_collections.tandem.spark.plugins.module_utils.proof_plan import plan_of, problems
from ansible_collections.tandem.spark.plugins.module_utils.proof_rounds import prove
from ansible_collections.tandem.spark.plugins.module_utils.recall import depths, draw_recall
from ansible_collections.tandem.spark.plugins.module_utils.sized_prompts import Prompts

SECTION = {
    "operands": [10, 99],
    "one_by_one": 2,
    "request_timeout_s": 30,
    "recall": {"prompt_tokens": 2000, "questions": 3, "max_tokens": 32},
    "draft": {"max_tokens": 64, "min_acceptance": 0.2},
    "skip": {"rdma": "none here"},
}
CHARACTERS_PER_TOKEN = 4.2
STORY = "Once upon a time a lamp stood by the water and nobody knew who had lit it."


# -- prompts -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_depths_reach_from_the_start_to_the_end(count):
    rng = random.Random(count)
    found = depths(count, rng)
    assert len(found) == count and all(0 <= depth <= 1 for depth in found)
    if count > 1:
        assert found[0] <= 0.05 and found[-1] >= 0.95
        assert all(abs(depth - number / (count - 1)) <= 0.05 for number, depth in enumerate(found))


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a_prompt_tells_what_it_asks_for_at_its_depth(asked):
    prompts = Prompts(random.Random(1))
    prompts.measure("x" * 4200, 1000)
    case = draw_recall(prompts, 3000, [0.0, 0.5, 1.0], asked, random.Random(2))
    told = re.findall(r"^The code for item (\w+) is (\d{4})\.$", case.prompt, re.MULTILINE)
    assert len({item for item, _ in told}) == len({value for _, value in told}) == 3
    (item,) = re.findall(r"What is the code for item (\w+)\?$", case.prompt)
    assert dict(told)[item] == case.expected and told[asked][0] == item
    place = case.prompt.index(f"is {case.expected}.") / len(case.prompt)
    assert place == pytest.approx([0.0, 0.5, 1.0][asked], abs=0.03)
    assert len(case.prompt) == pytest.approx(3000 * 4.2, rel=0.02)


def test_no_two_prompts_begin_alike():
    drawn = {
        draw_recall(Prompts(), 1000, [0.0, 1.0], 0, random.SystemRandom()).prompt[:60] for _ in range(50)
    }
    assert len(drawn) == 50


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("Item kilo is 4182.", "correct"),
        ("The code for item kilo is **4,182**.", "correct"),
        ("4182", "correct"),
        ("Item kilo is 9017.", "wrong"),
        ("Item kilo is unknown.", "wrong"),
        ("I cannot find that code in the text.", "wrong"),
        ("Item kilo is 41825.", "wrong"),
        ("the the the the the the the the the the the", "degenerate"),
        ("", "wrong"),
    ],
)
def test_a_recalled_value_is_judged_against_its_prompt(answer, verdict):
    words = "river stone window garden " * 2_000
    told = [f"The code for item {item} is {value}." for item, value in (("kilo", 4182), ("lima", 9017))]
    prompt = f"{words}\n{told[0]}\n{words}\n{told[1]}\n\nWhat is the code for item kilo?"
    assert judge(prompt, "4182", "number", answer).verdict == verdict


def test_a_long_prompt_is_shown_in_short():
    prompt = "river " * 10_000 + "What is the code for item kilo?"
    assert in_short("What is 17 x 23?") == "What is 17 x 23?"
    assert len(in_short(prompt)) < 300
    assert in_short(prompt).endswith("What is the code for item kilo?") and "(60031 characters)" in in_short(
        prompt
    )


# -- plans -------------------------------------------------------------------------------------------------------------
RECALL, DRAFT = SECTION["recall"], SECTION["draft"]


@pytest.mark.parametrize(
    ("section", "options", "said"),
    [
        (SECTION, {"context": 2232, "speculates": True}, []),
        (SECTION, {"context": 2231}, ["recall may need 2232 tokens"]),
        (SECTION, {"context": "auto"}, []),
        ({}, {}, ["recall is missing"]),
        ({}, {"speculates": True}, ["recall is missing", "draft is missing"]),
        ({"skip": {"long_context": "a", "draft_acceptance": "b"}}, {"speculates": True}, []),
        (
            {"recall": {**RECALL, "prompt_tokens": 3, "questions": 17, "max_tokens": 0}},
            {},
            ["recall.prompt_tokens is 3", "recall.questions is 17", "recall.max_tokens is 0"],
        ),
        ({"recall": {**RECALL, "questions": 0}}, {}, ["recall.questions is 0"]),
        (
            {"recall": RECALL, "draft": {"max_tokens": 0, "min_acceptance": 1.1}},
            {},
            ["draft.max_tokens is 0", "draft.min_acceptance is 1.1"],
        ),
        (
            {"recall": RECALL, "one_by_one": 0, "request_timeout_s": -1},
            {},
            ["one_by_one is 0", "request_timeout_s is -1"],
        ),
    ],
)
def test_every_problem_of_a_section_is_told(section, options, said):
    found = problems(section, **options)
    assert len(found) == len(said), found
    assert all(word in text for word, text in zip(said, found, strict=True)), found


def plan(changes=(), *, speculates=True, streams=3, total=60):
    return plan_of(
        {**SECTION, **dict(changes)}, streams=streams, speculates=speculates, total_timeout_s=total
    )


UNKNOWN, NONE = "the release does not say how", "the release does not speculate"


@pytest.mark.parametrize(
    ("changes", "speculates", "not_asked"),
    [
        ({}, True, {}),
        ({"skip": None}, True, {}),
        ({}, False, {"draft": NONE}),
        # a release that was made before these parts were known
        ({"recall": None, "draft": None}, None, {"long context": UNKNOWN, "draft": UNKNOWN}),
        ({"draft": None}, True, {"draft": UNKNOWN}),
        ({"draft": None}, False, {"draft": NONE}),
        ({"skip": {"long_context": "short"}}, True, {"long context": "short"}),
        ({"skip": {"long_context": "short"}, "recall": None}, True, {"long context": "short"}),
        ({"skip": {"draft_acceptance": "rare"}}, False, {"draft": "rare"}),
    ],
)
def test_what_is_not_asked_is_said(changes, speculates, not_asked):
    made = plan(changes, speculates=speculates)
    assert made.not_asked == not_asked
    assert (made.recall is None, made.draft is None) == ("long context" in not_asked, "draft" in not_asked)


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"operands": [99, 10]}, {}, "operands are [99, 10]"),
        ({"operands": [10]}, {}, "operands are [10]"),
        (
            {"one_by_one": 0},
            {"streams": 0, "total": 0},
            "one_by_one is 0, wanted more than 0; concurrency is 0",
        ),
        ({}, {"total": -1}, "total_timeout is -1"),
        ({"recall": {**RECALL, "questions": 99}}, {}, "recall.questions is 99"),
    ],
)
def test_a_plan_that_cannot_be_asked(changes, options, said):
    with pytest.raises(ValueError) as told:
        plan(changes, **options)
    assert said in str(told.value)


# -- conclusions -------------------------------------------------------------------------------------------------------
def figures(drafts, drafted, accepted, generated=200, reset=False):
    return {
        "drafts": drafts,
        "draft_tokens": drafted,
        "accepted_tokens": accepted,
        "generation_tokens": generated,
        "reset": reset,
    }


@pytest.mark.parametrize(
    ("counted", "outcome", "said"),
    [
        (figures(30, 150, 60), "proven", "60 of 150 drafted tokens accepted in 30 drafts, acceptance 0.400"),
        (figures(30, 150, 30), "proven", "acceptance 0.200"),
        (figures(30, 150, 29), "rejected", "acceptance 0.193 is below the profile's 0.2"),
        (figures(30, 150, 29), "rejected", "vllm:spec_decode_num_accepted_tokens_total"),
        (figures(30, 150, 0), "rejected", "acceptance 0.000"),
        # nearly all is what an engine that only counts has too: no more than engaged
        (figures(30, 150, 150), "proven", "acceptance 1.000"),
        (figures(0, 0, 0), "rejected", "nothing was drafted in 200 generated tokens: vllm:spec_decode_num_"),
        (figures(3, 0, 0), "rejected", "vllm:spec_decode_num_draft_tokens_total by 0"),
        (figures(0, 0, 0, generated=0), "unproven", "vllm:generation_tokens_total did not move"),
        (figures(30, 150, 60, reset=True), "unproven", "started anew"),
        (
            figures(None, None, None),
            "unproven",
            "/metrics has no vllm:spec_decode_num_drafts_total and no vllm:spec",
        ),
        (figures(30, 150, None), "unproven", "no vllm:spec_decode_num_accepted_tokens_total"),
        (
            figures(None, None, None, generated=None),
            "unproven",
            "/metrics has no vllm:spec_decode_num_drafts_total",
        ),
        (figures(0, 0, 0, generated=None), "unproven", "vllm:generation_tokens_total did not move"),
        (figures(30, 150, 60, generated=None), "proven", "acceptance 0.400"),
    ],
)
def test_what_the_counters_prove(counted, outcome, said):
    conclusion = conclude_draft(counted, 0.2)
    assert (conclusion.outcome, said in conclusion.reason) == (outcome, True), conclusion


def recalled(verdict="correct", tokens=2000, again=None):
    case = {"prompt": "river …", "expected": "4182", "thinking": False, "text": "4182", "reasoning": ""}
    return {**case, "verdict": verdict, "why": f"is {verdict}", "again": again, "prompt_tokens": tokens}


@pytest.mark.parametrize(
    ("cases", "outcome", "said"),
    [
        (
            [recalled(tokens=500), recalled()],
            "proven",
            "2 of 2 answers right, in prompts of 500 to 2000 tokens",
        ),
        ([recalled(tokens=1499)], "unproven", "came out at 1499 tokens, wanted 2000"),
        ([recalled(), recalled(tokens=None)], "unproven", "no `usage`"),
        ([recalled(), recalled("wrong")], "rejected", "1 of 2 answers wrong"),
        ([recalled(), recalled("wrong", again=recalled())], "proven", "1 of them when asked again"),
        ([recalled(), recalled("degenerate")], "rejected", "degenerate"),
        ([recalled(), recalled("unreachable", tokens=None)], "unproven", "is unreachable"),
    ],
)
def test_what_recalled_answers_prove(cases, outcome, said):
    conclusion = conclude_recall(cases, 2000)
    assert (conclusion.outcome, said in conclusion.reason) == (outcome, True), conclusion


# -- the rounds --------------------------------------------------------------------------------------------------------
class Engine:
    """Answers as a sane engine does and counts; `wrong(prompt, request)` may give another reply."""

    def __init__(self, wrong=lambda _prompt, _request: None, accepted=3, drafted=5, usage=True):
        self.wrong, self.accepted, self.drafted, self.usage = wrong, accepted, drafted, usage
        self.lock = threading.Lock()
        self.steps, self.started = 0, 1.7e9

    def __call__(self, request, _stop):
        if not request:
            return self.metrics()
        prompt = request["messages"][0]["content"]
        said = self.wrong(prompt, request)
        if isinstance(said, bytes):
            return said
        with self.lock:
            self.steps += 10
        usage = {"prompt_tokens": 9 + round(len(prompt) / CHARACTERS_PER_TOKEN), "completion_tokens": 10}
        events = (
            s.chunk(content=said or right(prompt)),
            s.end(),
            {"choices": [], "usage": usage if self.usage else None},
        )
        return s.response(b"".join(map(s.event, (*events, "[DONE]"))))

    def metrics(self):
        counts = {
            "spec_decode_num_drafts": self.steps,
            "spec_decode_num_draft_tokens": self.steps * self.drafted,
            "spec_decode_num_accepted_tokens": self.steps * self.accepted,
            "generation_tokens": self.steps * (1 + self.accepted),
        }
        lines = [f"vllm:{name}_total {count}" for name, count in counts.items()]
        return s.response(
            "\n".join([*lines, f"process_start_time_seconds {self.started}", ""]).encode(), kind="text/plain"
        )


def right(prompt):
    if prompt.startswith("Write a long story"):
        return STORY
    item = re.search(r"What is the code for item (\w+)\?$", prompt)
    if item:
        return f"Item {item[1]} is {re.search(rf'item {item[1]} is ([0-9]+)', prompt)[1]}."
    a, b = re.findall(r"\d+", prompt)
    return f"The answer is {int(a) * int(b)}."


def proved(engine, changes=(), **options):
    """Prove `engine` -> (the proof, the lines said, the chat requests)."""
    said = []
    with s.ChatServer(engine) as server:
        proof = prove(Endpoint(server.url, "lab"), plan(changes, **options), say=said.append)
        return proof, said, [request for request in server.requests if request]


ROUNDS = [
    "one by one",
    "one by one, thinking",
    "all at once",
    "all at once, thinking",
    "draft",
    "long context",
]


def test_a_whole_proof():
    proof, said, requests = proved(Engine())
    assert proof.conclusion.outcome == "proven", proof.conclusion
    assert [each.name for each in proof.rounds] == ROUNDS
    assert [len(each.cases) for each in proof.rounds] == [2, 2, 3, 3, 1, 4]
    assert len(proof.cases) == len(requests) == 15
    assert proof.conclusion.reason.startswith(
        "one by one: 2 of 2 answers right; one by one, thinking: 2 of 2"
    )
    assert [line.split(":")[0] for line in said] == ROUNDS
    assert [request["chat_template_kwargs"]["thinking"] for request in requests] == [False] * 2 + [
        True
    ] * 2 + [False] * 3 + [True] * 3 + [False] * 5
    assert {request["max_tokens"] for request in requests} == {64, 2048, 32}
    assert proof.draft["drafts"] == 110 and proof.draft["acceptance"] == 0.6  # the first eleven answers
    assert proof.seconds >= sum(each.seconds for each in proof.rounds) - 0.1
    assert proof.findings == ()


def test_long_prompts_have_the_wanted_size_and_are_kept_in_short():
    proof, _, requests = proved(Engine())
    sizes = [case["prompt_tokens"] for case in proof.rounds[-1].cases]
    assert sizes[1:] == pytest.approx([2000] * 3, rel=0.1) and sizes[0] < 700
    assert max(len(case["prompt"]) for case in proof.cases) < 400
    assert len({request["messages"][0]["content"][:40] for request in requests}) == 15


def only(pattern, reply):
    """An engine that fails at one sort of question."""
    return Engine(lambda prompt, _request: reply if re.search(pattern, prompt) else None)


@pytest.mark.parametrize(
    ("engine", "last", "outcome", "said"),
    [
        (only("", "the " * 64), "one by one", "rejected", "degenerate"),
        (only("", "I do not know."), "one by one", "rejected", "2 of 2 answers wrong"),
        (only("", b""), "one by one", "unproven", "2 of 2 questions without an answer"),
        (
            Engine(
                lambda _prompt, request: "the " * 64 if request["chat_template_kwargs"]["thinking"] else None
            ),
            "one by one, thinking",
            "rejected",
            "degenerate",
        ),
        (only("long story", "the " * 64), "draft", "rejected", "degenerate"),
        (only("long story", b""), "draft", "unproven", "without an answer"),
        (Engine(accepted=0), "draft", "rejected", "acceptance 0.000 is below the profile's 0.2"),
        (Engine(drafted=0, accepted=0), "draft", "rejected", "nothing was drafted"),
        (only("item", "Item kilo is unknown."), "long context", "rejected", "1 of 1 answers wrong"),
        (only("(?s).{3000}", "Item kilo is 42."), "long context", "rejected", "1 of 2 answers wrong"),
        (only("(?s).{3000}", "the " * 64), "long context", "rejected", "degenerate"),
        (
            only("(?s).{3000}", s.response(b'{"error": {"message": "too long"}}', "400 Bad Request")),
            "long context",
            "unproven",
            "too long",
        ),
        (Engine(usage=False), "long context", "unproven", "no `usage`"),
    ],
)
def test_the_first_round_that_fails_is_the_last(engine, last, outcome, said):
    proof, _, _ = proved(engine)
    assert [each.name for each in proof.rounds] == ROUNDS[: ROUNDS.index(last) + 1]
    assert proof.conclusion.outcome == outcome
    assert proof.conclusion.reason.startswith(f"{last}: ") and said in proof.conclusion.reason


def test_degeneration_at_concurrency_alone_names_the_ways_out():
    together = threading.Semaphore(2)  # the first two requests are alone

    def wrong(prompt, request):
        return (
            None
            if request["chat_template_kwargs"]["thinking"] or together.acquire(blocking=False)
            else "the " * 64
        )

    proof, _, _ = proved(Engine(wrong))
    assert proof.rounds[-1].name == "all at once"
    assert "eager mode and max_num_seqs 2" in proof.conclusion.reason


def test_a_low_acceptance_is_a_finding():
    found = proved(Engine(accepted=0))[0].findings
    assert [each.id for each in found] == ["speculation.low"]
    assert "0.0% of the draft was accepted, the profile wants at least 20%" in found[0].summary


def test_texts_are_judged_before_the_counters():
    """A counting loop is drafted nearly whole: what rejects it is its text."""
    proof, _, _ = proved(Engine(lambda _prompt, _request: "1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11.", accepted=5))
    assert proof.conclusion.outcome == "rejected" and "degenerate" in proof.conclusion.reason
    assert proof.draft is None


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (lambda engine: s.response(b"", "404 Not Found"), "/metrics cannot be read: HTTP 404"),
        (lambda engine: s.response(b"<html>"), "no metric"),
        (
            lambda engine: s.response(b"vllm:generation_tokens_total 5\n"),
            "has no vllm:spec_decode_num_drafts_total",
        ),
        (lambda engine: s.response(b"node_load1 0.5\n"), "has no vllm:spec_decode_num_drafts_total"),
    ],
)
def test_counters_that_cannot_be_read_leave_it_unproven(page, said):
    engine = Engine()
    engine.metrics = lambda: page(engine)
    proof, _, _ = proved(engine)
    assert (proof.rounds[-1].name, proof.conclusion.outcome) == ("draft", "unproven")
    assert said in proof.conclusion.reason


def test_an_engine_that_was_started_anew_in_between_leaves_it_unproven():
    engine = Engine()

    def restarts(prompt, _request):
        if "long story" in prompt:
            engine.started, engine.steps = 1.8e9, 0

    engine.wrong = restarts
    proof, _, _ = proved(engine)
    assert proof.conclusion.outcome == "unproven" and "started anew" in proof.conclusion.reason


@pytest.mark.parametrize(
    ("changes", "options", "rounds", "said"),
    [
        (
            {"recall": None, "draft": None},
            {"speculates": None},
            ROUNDS[:4],
            "long context: not asked, the release does not say how",
        ),
        (
            {},
            {"speculates": False},
            [*ROUNDS[:4], "long context"],
            "draft: not asked, the release does not speculate",
        ),
        ({"skip": {"long_context": "short"}}, {}, ROUNDS[:5], "long context: not asked, short"),
    ],
)
def test_a_part_that_is_not_asked_is_said(changes, options, rounds, said):
    engine = Engine(drafted=0, accepted=0) if options else Engine()
    proof, lines, _ = proved(engine, changes, **options)
    assert [each.name for each in proof.rounds] == rounds
    assert said in lines and proof.conclusion.outcome == "proven"


def test_the_total_time_holds_for_all_rounds():
    engine = Engine(lambda prompt, request: b"" if threading.Event().wait(0.2) else None)
    proof, _, requests = proved(engine, {"one_by_one": 60}, total=0.5)
    assert proof.conclusion.outcome == "unproven"
    assert "total of 0.5 s" in proof.rounds[-1].cases[-1]["why"]
    assert len(requests) < 6


def test_a_wrong_recall_that_is_right_when_asked_again_goes_on():
    seen = []

    def once(prompt, _request):
        if len(prompt) > 3000:
            seen.append(prompt)
            return "Item kilo is 42." if len(seen) == 1 else None
        return None

    proof, _, _ = proved(Engine(once))
    assert proof.conclusion.outcome == "proven" and seen[0] == seen[1]
    assert (
        "4 of 4 answers right, 1 of them when asked again, in prompts of"
        in proof.rounds[-1].conclusion.reason
    )
