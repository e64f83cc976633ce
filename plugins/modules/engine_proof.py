#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_proof
short_description: Prove a served model by reading what it generates
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Asks in rounds, the cheapest first and no further than the first round that fails. All answers are judged as
    M(tandem.spark.generation_check) does it.
  - Fresh products come first, one by one and as many at once as O(concurrency), each with thinking off and on.
  - O(plan.draft) asks for a longer text, and compares what the engine counted of its speculation before the first
    round and after this one. What others ask in the meantime is counted too.
  - O(plan.recall) asks for what was told at the start, in the middle and at the end of long prompts. Prompts are new
    each time, so that no prefix cache answers them, and are cut to size by what the server counted for shorter ones.
  - C(proven) is what was all asked and right. Degenerate text, the answer of another stream, more than a tenth of a
    round still wrong and a draft that is idle or hardly accepted are C(rejected). What could not be asked, read or
    counted is C(unproven).
  - High acceptance proves nothing. An engine that only counts has it too.
extends_documentation_fragment: tandem.spark.endpoint
attributes:
  check_mode:
    description: Nothing is changed, so the questions are asked in check mode too.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  plan:
    description: How much is asked, as the section C(proof) of a profile says it.
    type: dict
    required: true
    suboptions:
      operands:
        description: Smallest and largest operand of the products.
        type: list
        elements: int
        default: [10, 99]
      one_by_one:
        description: How many products are asked one by one.
        type: int
        default: 3
      recall:
        description: Questions about long prompts. Not asked where it is missing.
        type: dict
        suboptions:
          prompt_tokens:
            description: About how long each prompt is.
            type: int
            required: true
          questions:
            description: How many, at depths spread from the start of the prompt to its end.
            type: int
            required: true
          max_tokens:
            description: Longest answer.
            type: int
            required: true
      draft:
        description: Whether speculation is engaged. Not asked where it is missing.
        type: dict
        suboptions:
          max_tokens:
            description: Length of the text that is asked for.
            type: int
            required: true
          min_acceptance:
            description: Accepted tokens for each drafted one, from 0 to 1, that a good draft has at least.
            type: float
            required: true
      request_timeout_s:
        description: Seconds for one answer.
        type: float
        default: 120
      skip:
        description: Parts that this checkpoint or engine cannot prove, each with the reason. The parts of this module
          are C(long_context) and C(draft_acceptance), others are left alone.
        type: dict
        default: {}
  concurrency:
    description: How many questions the engine takes at once.
    type: int
    required: true
  speculates:
    description: Whether the engine was started with speculation. Where that is not known its draft is not asked for.
    type: bool
  total_timeout:
    description: Seconds for all rounds together. What was not answered by then is unproven.
    type: float
    default: 1800
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Read what the engine generates
  tandem.spark.engine_proof:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash
    concurrency: 2
    speculates: true
    plan:
      operands: [11, 99]
      one_by_one: 5
      recall: {prompt_tokens: 32000, questions: 3, max_tokens: 64}
      draft: {max_tokens: 256, min_acceptance: 0.3}
      skip: {}
  register: asked

- name: Stop where it is not proven
  ansible.builtin.assert:
    that: asked.conclusion.outcome == 'proven'
    fail_msg: "{{ asked.conclusion.reason }}"
"""

RETURN = r"""
conclusion:
  description: What the rounds say of the release. C(outcome) is V(proven), V(rejected) or V(unproven).
  returned: always
  type: dict
  sample:
    outcome: proven
    reason: "one by one: 3 of 3 answers right; draft: 61 of 130 drafted tokens accepted in 26 drafts, acceptance 0.469"
rounds:
  description: The rounds that were asked, the last one perhaps the one that failed.
  returned: always
  type: list
  elements: dict
  sample:
    - {name: one by one, outcome: proven, reason: 3 of 3 answers right, seconds: 0.9}
not_asked:
  description: The parts that were not asked, each with the reason.
  returned: always
  type: dict
  sample: {draft: the release does not speculate}
draft:
  description: What was drafted and accepted, as M(tandem.spark.spec_decode_info) returns it. Null if not looked at.
  returned: always
  type: dict
  sample: {drafts: 26, draft_tokens: 130, accepted_tokens: 61, acceptance: 0.4692}
cases:
  description: All questions, as M(tandem.spark.generation_check) returns them. Long prompts are shown in short.
  returned: always
  type: list
  elements: dict
  sample: []
seconds:
  description: How long all rounds took.
  returned: always
  type: float
  sample: 9.4
progress:
  description: A line for each round, and for each part that was not asked.
  returned: always
  type: list
  elements: str
  sample: ["one by one: proven, 3 of 3 answers right (0.9 s)"]
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import api_key
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress
from ansible_collections.tandem.spark.plugins.module_utils.proof_plan import plan_of
from ansible_collections.tandem.spark.plugins.module_utils.proof_rounds import prove


def _required(**types: str) -> dict:
    """Options that are all wanted. "tokens" in a name makes Ansible suspect a secret."""
    options = {name: {"type": kind, "required": True, "no_log": False} for name, kind in types.items()}
    return {"type": "dict", "options": options}


ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "validate_certs": {"type": "bool", "default": True},
    "plan": {
        "type": "dict",
        "required": True,
        "options": {
            "operands": {"type": "list", "elements": "int", "default": [10, 99]},
            "one_by_one": {"type": "int", "default": 3},
            "recall": _required(prompt_tokens="int", questions="int", max_tokens="int"),
            "draft": _required(max_tokens="int", min_acceptance="float"),
            "request_timeout_s": {"type": "float", "default": 120.0},
            "skip": {"type": "dict", "default": {}},
        },
    },
    "concurrency": {"type": "int", "required": True},
    "speculates": {"type": "bool"},
    "total_timeout": {"type": "float", "default": 1800.0},
    "progress_file": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    progress = Progress(params["progress_file"])
    try:
        plan = plan_of(
            params["plan"],
            streams=params["concurrency"],
            speculates=params["speculates"],
            total_timeout_s=params["total_timeout"],
        )
        key = api_key.of(module)
        proof = prove(
            Endpoint(params["url"], params["model"], key, params["validate_certs"]),
            plan,
            say=progress,
        )
    except ValueError as error:
        module.fail_json(msg=f"engine_proof cannot ask this: {error}")
    module.exit_json(
        changed=False,
        conclusion={"outcome": proof.conclusion.outcome, "reason": proof.conclusion.reason},
        rounds=[
            {
                "name": each.name,
                "outcome": each.conclusion.outcome,
                "reason": each.conclusion.reason,
                "seconds": each.seconds,
            }
            for each in proof.rounds
        ],
        not_asked=dict(plan.not_asked),
        draft=proof.draft,
        cases=proof.cases,
        seconds=proof.seconds,
        progress=progress.lines,
        findings=[found.as_dict() for found in proof.findings],
    )


if __name__ == "__main__":
    main()
