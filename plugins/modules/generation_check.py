#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: generation_check
short_description: Ask a served model and judge its answers
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Asks an OpenAI-compatible endpoint questions whose answers are known, and judges each answer against its prompt.
  - C(/health) and C(/v1/models) stay green through a wedge and through degenerate text, so answers are read.
  - Every request is greedy, streamed, bounded in time and memory, and says whether the model is to think.
  - A generation is V(degenerate) if the text fell apart (loops, counting, mixed scripts, control markup), V(wrong) if a
    sane text gives another answer, V(inconclusive) if it ended before an answer, V(unreachable) if there was nobody to
    ask, and V(correct) otherwise. Small flaws of a right answer are listed as glitches.
attributes:
  check_mode:
    description: Nothing is changed, so the questions are asked in check mode too.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  url:
    description: Base address of the endpoint, with or without C(/v1).
    type: str
    required: true
  model:
    description: Name of the served model.
    type: str
    required: true
  api_key:
    description: Bearer token, if the endpoint wants one.
    type: str
  validate_certs:
    description: Whether the certificate of an C(https) endpoint must be valid.
    type: bool
    default: true
  suite:
    description:
      - V(arithmetic) draws fresh products, different in each stream.
      - V(quality) asks ten fixed questions of five classes (math, code, factual, reasoning, instruction). It is a smoke
        test, no evaluation.
      - Without O(suite) and O(cases) it is V(arithmetic).
    type: str
    choices: [arithmetic, quality]
  cases:
    description: Questions of your own, in place of a suite.
    type: list
    elements: dict
    suboptions:
      prompt:
        description: What the user says.
        type: str
        required: true
      expected:
        description: The right answer. Where it is missing, the product that the prompt asks for, or else any sane text.
        type: str
      answer_kind:
        description:
          - V(number) compares values, so that V(3,910) is 3910 and V(1391) is not 391.
          - V(text) looks for the words in any case.
          - V(open) takes any sane text.
          - By default it follows from O(cases[].expected).
        type: str
        choices: [number, text, open]
  operands:
    description: Smallest and largest operand of O(suite=arithmetic).
    type: list
    elements: int
    default: [10, 99]
  questions:
    description: How many products to ask for each value of O(thinking). By default as many as O(concurrency).
    type: int
  thinking:
    description: Whether the model is to think. V([false, true]) asks everything both ways.
    type: list
    elements: bool
    default: [false]
  concurrency:
    description: How many questions are asked at the same time.
    type: int
    default: 1
  max_tokens:
    description: Longest answer with thinking off.
    type: int
    default: 64
  max_tokens_thinking:
    description: Longest answer with thinking on, the thoughts included.
    type: int
    default: 2048
  request_timeout:
    description: Seconds for one answer.
    type: float
    default: 120
  total_timeout:
    description: Seconds for all answers together. What was not asked by then is inconclusive.
    type: float
    default: 600
  ask_again:
    description: Ask each wrong answer once more, alone.
    type: bool
    default: false
  fail_on_incorrect:
    description: Fail unless the verdict is V(correct).
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: One fresh product
  tandem.spark.generation_check:
    url: http://192.168.50.11:8888
    model: deepseek-v4-flash

- name: As many streams as the engine takes, thinking off and on
  tandem.spark.generation_check:
    url: http://192.168.50.11:8888
    model: deepseek-v4-flash
    api_key: "{{ tandem_api_key }}"
    concurrency: 6
    thinking: [false, true]
    ask_again: true
    fail_on_incorrect: false
  register: asked

- name: A question of one's own
  tandem.spark.generation_check:
    url: http://192.168.50.11:8888
    model: deepseek-v4-flash
    cases:
      - prompt: What is the capital of France?
        expected: Paris
"""

RETURN = r"""
verdict:
  description: The worst of the cases, in the order unreachable, degenerate, wrong, inconclusive, correct.
  returned: always
  type: str
  sample: correct
conclusion:
  description:
    - What the cases say about the release. C(outcome) is V(proven), V(rejected) or V(unproven), C(reason) says why.
    - Degenerate text and the answer of another stream reject; so does more than a tenth still wrong.
  returned: always
  type: dict
  sample: {outcome: proven, reason: 12 of 12 answers right}
cases:
  description:
    - One entry per question. Times are seconds; C(ttft_s) runs to the first thought or word.
    - C(again) is such an entry for a wrong answer that was asked again, otherwise null.
  returned: always
  type: list
  elements: dict
  sample:
    - prompt: What is 17 x 23?
      expected: "391"
      answer_kind: number
      thinking: false
      text: The answer is 391.
      reasoning: ""
      verdict: correct
      why: answers 391
      glitches: []
      completion_tokens: 6
      ttft_s: 0.41
      tokens_per_s: 38.2
      finish_reason: stop
      again: null
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.arithmetic import (
    Case,
    draw_products,
    product_asked,
)
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding, worst_first
from ansible_collections.tandem.spark.plugins.module_utils.generation import Patience, Question, check
from ansible_collections.tandem.spark.plugins.module_utils.judge import ANSWER_KINDS, kind_of, worst_of
from ansible_collections.tandem.spark.plugins.module_utils.numerals import read_number
from ansible_collections.tandem.spark.plugins.module_utils.proof import answers_of_another, conclude
from ansible_collections.tandem.spark.plugins.module_utils.quality import QUALITY

ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "default": True},
    "suite": {"type": "str", "choices": ["arithmetic", "quality"]},
    "cases": {
        "type": "list",
        "elements": "dict",
        "options": {
            "prompt": {"type": "str", "required": True},
            "expected": {"type": "str"},
            "answer_kind": {"type": "str", "choices": list(ANSWER_KINDS)},
        },
    },
    "operands": {"type": "list", "elements": "int", "default": [10, 99]},
    "questions": {"type": "int"},
    "thinking": {"type": "list", "elements": "bool", "default": [False]},
    "concurrency": {"type": "int", "default": 1},
    "max_tokens": {"type": "int", "default": 64, "no_log": False},
    "max_tokens_thinking": {"type": "int", "default": 2048, "no_log": False},
    "request_timeout": {"type": "float", "default": 120.0},
    "total_timeout": {"type": "float", "default": 600.0},
    "ask_again": {"type": "bool", "default": False},
    "fail_on_incorrect": {"type": "bool", "default": True},
}
POSITIVE = (
    "questions",
    "concurrency",
    "max_tokens",
    "max_tokens_thinking",
    "request_timeout",
    "total_timeout",
)


def own_case(given: dict) -> Case:
    """A case as its caller meant it; ValueError where a number is wanted and none is given."""
    expected = given["expected"]
    if expected is None and given["answer_kind"] in (None, "number"):
        expected = product_asked(given["prompt"])
    kind = given["answer_kind"] or kind_of(expected)
    if kind == "number" and read_number(expected or "") is None:
        raise ValueError(
            f"{given['prompt']!r} expects {expected!r}, wanted a number, because answer_kind is number"
        )
    if kind == "text" and not (expected or "").strip():
        raise ValueError(f"{given['prompt']!r} expects nothing, wanted a text, because answer_kind is text")
    return Case(given["prompt"], expected, kind)


def questions_of(params: dict) -> list[Question]:
    """What to ask; ValueError with every bad option at once."""
    given = {name: params[name] for name in POSITIVE if params[name] is not None}
    wrong = [f"{name} is {value}, wanted more than 0" for name, value in given.items() if value <= 0]
    wrong += [f"{name} is empty" for name in ("cases", "thinking") if params[name] == []]
    low, high = params["operands"] if len(params["operands"]) == 2 else (1, 0)
    if low > high:
        wrong.append(f"operands are {params['operands']}, wanted the smallest and the largest")
    cases: list[Case] = []
    for own in params["cases"] or []:
        try:
            cases.append(own_case(own))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    if params["suite"] == "quality":
        cases = list(QUALITY)
    count = params["questions"] or params["concurrency"]
    limit = {False: params["max_tokens"], True: params["max_tokens_thinking"]}
    return [
        Question(case, thinking, limit[thinking])
        for thinking in params["thinking"]
        for case in cases or draw_products(count, low, high)
    ]


def findings_of(cases: list[dict], url: str) -> list[Finding]:
    """One finding for each kind of trouble, with the first case that shows it."""
    found = []
    for verdict in ("unreachable", "degenerate", "wrong", "inconclusive"):
        hit = [case for case in cases if case["verdict"] == verdict]
        if hit:
            evidence = f"{hit[0]['prompt']}: {hit[0]['why']}"
            found.append(
                finding(
                    f"generation.{verdict}",
                    evidence=evidence,
                    count=len(hit),
                    asked=len(cases),
                    url=url.rstrip("/"),
                )
            )
    for case in cases:
        other = answers_of_another(case, cases) if case["verdict"] == "wrong" else None
        if other:
            evidence = (
                f"{case['prompt']} was answered with {other['expected']}, as {other['prompt']} should be"
            )
            found.append(finding("generation.crossed", evidence=evidence))
            break
    flawed = [case for case in cases if case["verdict"] == "correct" and case["glitches"]]
    if flawed:
        evidence = f"{flawed[0]['prompt']}: {flawed[0]['glitches'][0]}"
        found.append(finding("generation.glitch", evidence=evidence, count=len(flawed), asked=len(cases)))
    return worst_first(found)


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, mutually_exclusive=[("suite", "cases")])
    params = module.params
    try:
        questions = questions_of(params)
    except ValueError as error:
        module.fail_json(msg=f"generation_check cannot ask this: {error}")
    cases = check(
        Endpoint(params["url"], params["model"], params["api_key"], params["validate_certs"]),
        questions,
        concurrency=params["concurrency"],
        patience=Patience(params["request_timeout"], params["total_timeout"]),
        ask_again=params["ask_again"],
    )
    verdict = worst_of([case["verdict"] for case in cases])
    conclusion = conclude(cases, params["concurrency"])
    result = {
        "changed": False,
        "verdict": verdict,
        "conclusion": {"outcome": conclusion.outcome, "reason": conclusion.reason},
        "cases": cases,
        "findings": [found.as_dict() for found in findings_of(cases, params["url"])],
    }
    if verdict != "correct" and params["fail_on_incorrect"]:
        worst = next(case for case in cases if case["verdict"] == verdict)
        remedy = next(
            (found["remedy"] for found in result["findings"] if found["id"] == f"generation.{verdict}"), ""
        )
        asked = f"{params['model']} at {params['url']} was asked {worst['prompt']!r}"
        module.fail_json(msg=f"{asked}: {verdict}, {worst['why']}. {remedy}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
