# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions are drawn, asked in streams of a real server, judged, and concluded from."""

from __future__ import annotations

import random
import re
import threading

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils.arithmetic import (
    draw_products,
    product_asked,
)
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.generation import Patience, check, findings_of
from ansible_collections.tandem.spark.plugins.module_utils.judge import judge
from ansible_collections.tandem.spark.plugins.module_utils.proof import answers_of_another, conclude
from ansible_collections.tandem.spark.plugins.module_utils.quality import QUALITY
from ansible_collections.tandem.spark.plugins.module_utils.questions import Question, questions_of

PATIENT = Patience(request_s=30, total_s=30)


def product_in(request: dict) -> int:
    a, b = re.findall(r"\d+", request["messages"][0]["content"])
    return int(a) * int(b)


def questions(count: int, thinking: bool = False) -> list[Question]:
    return [Question(case, thinking, 64) for case in draw_products(count, 10, 99)]


def checked(answer, asked, *, concurrency=1, patience=PATIENT, ask_again=False):
    with s.ChatServer(answer) as server:
        results = check(
            Endpoint(server.url, "lab"),
            asked,
            concurrency=concurrency,
            patience=patience,
            ask_again=ask_again,
        )
        return results, server


def test_products_differ_and_stay_in_range():
    cases = list(draw_products(64, 10, 99))
    assert len({case.expected for case in cases}) == len({case.prompt for case in cases}) == 64
    for case in cases:
        a, b = map(int, re.findall(r"\d+", case.prompt))
        assert 10 <= a <= 99 and 10 <= b <= 99 and a * b == int(case.expected)
        assert product_asked(case.prompt) == case.expected


def test_products_are_fresh_unless_seeded():
    assert list(draw_products(8, 10, 99)) != list(draw_products(8, 10, 99))
    assert list(draw_products(8, 10, 99, random.Random(1))) == list(
        draw_products(8, 10, 99, random.Random(1))
    )


@pytest.mark.parametrize(("count", "low", "high"), [(4, 10, 11), (1, 1, 1), (1, 0, 0)])
def test_too_narrow_a_range_is_told(count, low, high):
    with pytest.raises(ValueError, match="too few different products"):
        list(draw_products(count, low, high))


@pytest.mark.parametrize(
    ("prompt", "product"),
    [
        ("17 x 23", "391"),
        ("What is 17×23?", "391"),
        ("17 times 23?", "391"),
        ("What is 17 x 23 x 2?", None),
        ("What is 1.7 x 23?", None),
        ("17 x 23 and 3 x 4?", None),
        ("What is 17 + 23?", None),
        ("any", None),
    ],
)
def test_the_product_that_a_prompt_asks_for(prompt, product):
    assert product_asked(prompt) == product


@pytest.mark.parametrize("case", QUALITY, ids=lambda case: case.prompt[:40])
def test_quality_questions_are_won_by_their_answer_and_lost_by_silence(case):
    said = f"The answer is {case.expected}."
    assert judge(case.prompt, case.expected, case.answer_kind, said).verdict == "correct"
    assert judge(case.prompt, case.expected, case.answer_kind, "I do not know.").verdict == "wrong"


def test_each_answer_is_held_against_its_own_question():
    results, server = checked(
        lambda request, _stop: s.says(f"It is {product_in(request)}."), questions(12), concurrency=4
    )
    assert [result["verdict"] for result in results] == ["correct"] * 12
    assert len(server.requests) == 12
    assert set(results[0]) == {
        *("prompt", "expected", "answer_kind", "thinking", "text", "reasoning", "verdict", "why", "glitches"),
        *("prompt_tokens", "completion_tokens", "ttft_s", "tokens_per_s", "finish_reason", "again"),
    }


def test_streams_really_run_at_the_same_time():
    together = threading.Barrier(4, timeout=30)

    def answer(request, _stop):
        together.wait()  # broken, and so no answer, unless four requests are open at once
        return s.says(str(product_in(request)))

    results, _ = checked(answer, questions(8), concurrency=4)
    assert {result["verdict"] for result in results} == {"correct"}


def test_a_wrong_answer_is_asked_again_alone():
    asked = questions(4)
    doubted = asked[0].case.prompt
    prompts = []

    def answer(request, _stop):
        prompts.append(request["messages"][0]["content"])
        return s.says(str(product_in(request) + (prompts.count(doubted) == 1 and prompts[-1] == doubted)))

    results, server = checked(answer, asked, ask_again=True)
    assert [result["verdict"] for result in results] == ["wrong", "correct", "correct", "correct"]
    assert results[0]["again"]["verdict"] == "correct"
    assert prompts == [question.case.prompt for question in asked] + [doubted]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (s.silent, "unreachable"),
        (s.forever(b": keep-alive\n\n", 0.01), "inconclusive"),
        (s.forever(s.event(s.chunk(content="the ")), 0.01), "inconclusive"),
        (s.forever(s.event(s.chunk(content="the "))), "inconclusive"),
        (lambda _request, _stop: s.response(s.event(s.chunk(content="It")), size=999), "inconclusive"),
        (lambda _request, _stop: s.response(b"{nope"), "unreachable"),
        (lambda _request, _stop: s.response(b'{"error":"Unauthorized"}', "401 Unauthorized"), "unreachable"),
        (lambda _request, _stop: s.response(b'{"detail":"Not Found"}', "404 Not Found"), "unreachable"),
        (lambda _request, _stop: b"", "unreachable"),
        (lambda _request, _stop: s.says("the " * 64, reason="length"), "degenerate"),
        (
            lambda _request, _stop: s.says("", reasoning="1. 2. 3. 4. 5. 6. 7. 8. 9. 10.", reason="length"),
            "degenerate",
        ),
        (lambda _request, _stop: s.says("", reasoning="I multiply", reason="length"), "inconclusive"),
    ],
)
def test_what_servers_do_becomes_a_verdict(answer, verdict):
    (result,), _ = checked(answer, questions(1), patience=Patience(request_s=0.3, total_s=30))
    assert result["verdict"] == verdict
    assert result["why"]


def test_the_total_time_holds_for_all_questions():
    results, server = checked(
        s.silent, questions(20), concurrency=2, patience=Patience(request_s=30, total_s=0.3)
    )
    assert {result["verdict"] for result in results} <= {"unreachable", "inconclusive"}
    assert "total of 0.3 s" in results[-1]["why"]
    assert len(server.requests) == 2


def case(verdict="correct", *, prompt="What is 17 x 23?", expected="391", text="391", again=None):
    judged = {"prompt": prompt, "expected": expected, "thinking": False, "text": text, "reasoning": ""}
    return {**judged, "verdict": verdict, "why": f"is {verdict}", "again": again}


OTHER = case(prompt="What is 12 x 13?", expected="156", text="156")
WRONG = case("wrong", text="401")
MENDED = case("wrong", text="401", again=case())


@pytest.mark.parametrize(
    ("cases", "outcome", "said"),
    [
        ([], "unproven", "nothing was asked"),
        ([case(), OTHER], "proven", "2 of 2 answers right"),
        ([case()] * 9 + [MENDED], "proven", "10 of 10 answers right, 1 of them when asked again"),
        ([case()] * 9 + [WRONG], "proven", "9 of 10 answers right"),
        ([case()] * 8 + [WRONG], "rejected", "1 of 9 answers wrong"),
        ([case()] * 9 + [case("wrong", text="401", again=WRONG)] * 2, "rejected", "2 of 11 answers wrong"),
        (
            [case("degenerate", text="the the")] + [case("unreachable")] * 9,
            "rejected",
            "1 of 10 answers degenerate",
        ),
        ([case()] * 30 + [case("wrong", text="401", again=case("degenerate"))], "rejected", "degenerate"),
        ([case()] * 30 + [case("wrong", text="156", again=case()), OTHER], "rejected", "another stream's"),
        (
            [case()] * 9 + [case("unreachable")],
            "unproven",
            "1 of 10 questions without an answer: is unreachable",
        ),
        ([case()] * 9 + [case("inconclusive")], "unproven", "is inconclusive"),
        (
            [case()] * 30 + [case("wrong", text="401", again=case("unreachable"))],
            "unproven",
            "is unreachable",
        ),
        ([case("unreachable")] * 4, "unproven", "4 of 4"),
        ([WRONG] + [case("unreachable")] * 20, "rejected", "1 of 1 answers wrong"),
    ],
)
def test_what_cases_prove(cases, outcome, said):
    conclusion = conclude(cases)
    assert conclusion.outcome == outcome
    assert said in conclusion.reason


def test_degeneration_at_concurrency_names_the_ways_out():
    bad = [case("degenerate")]
    assert "eager mode and max_num_seqs 2" in conclude(bad, concurrency=6).reason
    assert "eager mode" not in conclude(bad, concurrency=1).reason


@pytest.mark.parametrize(
    ("text", "crossed"),
    [("It is 156.", True), ("1156", False), ("12 × 13 = 156, but 17 × 23 = 401.", False), ("401", False)],
)
def test_the_answer_of_another_stream_is_recognised(text, crossed):
    wrong = case("wrong", text=text)
    assert answers_of_another(wrong, [wrong, OTHER]) == (OTHER if crossed else None)


def test_a_told_value_is_not_another_streams():
    told = case(
        "wrong", prompt="The code is 4182. The other is 156. What is the code?", expected="4182", text="156"
    )
    assert answers_of_another(told, [told, OTHER]) is None


DEFAULTS = {
    **dict.fromkeys(("suite", "cases", "questions")),
    **{
        "operands": [10, 99],
        "thinking": [False],
        "concurrency": 1,
        "max_tokens": 64,
        "max_tokens_thinking": 2048,
    },
    **{"request_timeout": 120.0, "total_timeout": 600.0},
}


def own(prompt, expected=None, answer_kind=None):
    return {"prompt": prompt, "expected": expected, "answer_kind": answer_kind}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"concurrency": 6}, 6),
        ({"concurrency": 6, "questions": 2}, 2),
        ({"thinking": [False, True], "concurrency": 6}, 12),
        ({"suite": "quality"}, len(QUALITY)),
        ({"cases": [own("any")], "thinking": [False, True]}, 2),
    ],
)
def test_options_become_questions(options, count):
    asked = questions_of({**DEFAULTS, **options})
    assert len(asked) == count
    assert {question.max_tokens for question in asked} <= {64, 2048}
    assert all((question.max_tokens == 2048) == question.thinking for question in asked)


@pytest.mark.parametrize(
    ("case", "expected", "kind"),
    [
        (own("17 x 23"), "391", "number"),
        (own("17 x 23", "392"), "392", "number"),
        (own("17 x 23", answer_kind="open"), None, "open"),
        (own("any"), None, "open"),
        (own("Capital of France?", "Paris"), "Paris", "text"),
        (own("Spell 42", "42", "text"), "42", "text"),
    ],
)
def test_own_cases_are_completed(case, expected, kind):
    (question,) = questions_of({**DEFAULTS, "cases": [case]})
    assert (question.case.expected, question.case.answer_kind) == (expected, kind)


def test_every_bad_option_is_told_at_once():
    bad = {"concurrency": 0, "thinking": [], "operands": [9, 1], "request_timeout": -1.0}
    cases = [own("x", "many", "number"), own("x", None, "number"), own("x", " ", "text")]
    with pytest.raises(ValueError) as told:
        questions_of({**DEFAULTS, **bad, "cases": cases})
    for part in (*bad, "expects 'many', wanted a number", "expects None, wanted a number", "expects nothing"):
        assert part in str(told.value)


@pytest.mark.parametrize(
    ("cases", "ids"),
    [
        ([case()], []),
        ([case(), {**case(), "glitches": ["stray"]}], ["generation.glitch"]),
        ([case("wrong", text="156"), OTHER], ["generation.crossed", "generation.wrong"]),
        ([case("degenerate"), case("unreachable")], ["generation.degenerate", "generation.unreachable"]),
        ([case("inconclusive")], ["generation.inconclusive"]),
    ],
)
def test_trouble_becomes_findings(cases, ids):
    found = findings_of([{"glitches": [], **each} for each in cases], "http://spark-a:8888/")
    assert [each.id for each in found] == ids
    assert all(each.evidence for each in found)
