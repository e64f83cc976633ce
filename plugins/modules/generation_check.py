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
extends_documentation_fragment: tandem.spark.endpoint
attributes:
  check_mode:
    description: Nothing is changed, so the questions are asked in check mode too.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  suite:
    description:
      - V(arithmetic) draws fresh products, different in each stream.
      - V(quality) asks twenty fixed questions of five classes (math, code, factual, reasoning, instruction). It is a
        smoke test, no evaluation.
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
      prompt_tokens: 12
      completion_tokens: 6
      ttft_s: 0.41
      tokens_per_s: 38.2
      finish_reason: stop
      again: null
seconds:
  description: How long all of it took.
  returned: always
  type: float
  sample: 2.7
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import api_key
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.generation import Patience, check, findings_of
from ansible_collections.tandem.spark.plugins.module_utils.judge import ANSWER_KINDS, worst_of
from ansible_collections.tandem.spark.plugins.module_utils.proof import conclude
from ansible_collections.tandem.spark.plugins.module_utils.questions import MAX_TOKENS, questions_of

ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
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
    "max_tokens": {"type": "int", "default": MAX_TOKENS[False], "no_log": False},
    "max_tokens_thinking": {"type": "int", "default": MAX_TOKENS[True], "no_log": False},
    "request_timeout": {"type": "float", "default": 120.0},
    "total_timeout": {"type": "float", "default": 600.0},
    "ask_again": {"type": "bool", "default": False},
    "fail_on_incorrect": {"type": "bool", "default": True},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, mutually_exclusive=[("suite", "cases")])
    params = module.params
    try:
        questions, key = questions_of(params), api_key.of(module)
    except ValueError as error:
        module.fail_json(msg=f"generation_check cannot ask this: {error}")
    began = time.monotonic()
    cases = check(
        Endpoint(params["url"], params["model"], key, params["validate_certs"]),
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
        "seconds": round(time.monotonic() - began, 2),
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
