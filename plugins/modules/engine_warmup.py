#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_warmup
short_description: Run every shape of work on a served model once
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Kernels compile lazily, one shape at a time, and with tensor parallelism the other ranks wait meanwhile inside a
    collective. This makes them compile before real traffic comes.
  - Four phases follow each other. C(ramp) sends prompts of growing size one by one, C(burst) short prompts at the same
    time, C(long) long prompts at the same time, C(sustained) one prompt with a long answer.
  - Prompts are new each time, so that no prefix cache answers them. Requests are greedy, think not, and generate all
    the tokens that they are given, wherever the model would end.
  - Tokens are counted by the C(usage) of the answers alone. M(tandem.spark.generation_check) is there to judge answers.
  - Ends at the first request that fails, at a stall, and at O(plan.total_timeout_s). It is a stall when for
    O(plan.stall_s) no answer came, no counter of C(/metrics) moved (prompt and generated tokens, KV cache, preemptions)
    and no compiler ran on this machine, so run it on the head.
  - The action runs the module as a job of the node and prints its progress as it comes.
extends_documentation_fragment: tandem.spark.endpoint
attributes:
  check_mode:
    description: Returns at once without a request, because it would be a lot of work for the engine.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  fail_on_trouble:
    description: Fail unless the whole plan was run.
    type: bool
    default: true
  unit:
    description: Unit of the rank on this host. Its journal is read when nothing moves, to name the rank at fault.
    type: str
    default: tandem-head.service
  workers:
    description: Units of the other ranks, by the name of their host, whose journals are read then.
    type: dict
    default: {}
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
  plan:
    description:
      - How much is asked. The defaults suit two Sparks with DeepSeek-V4-Flash.
      - Sizes of prompts are approximate, they are cut by what the server counted for the prompts before.
    type: dict
    default: {}
    suboptions:
      ramp_tokens:
        description: Sizes of the prompts of C(ramp) in tokens. A short prompt that measures the tokenizer goes before.
        type: list
        elements: int
        default: [500, 1500, 3000, 6000, 12000]
      burst:
        description: Short prompts at the same time.
        type: dict
        default: {}
        suboptions:
          streams:
            description: How many.
            type: int
            default: 4
          prompt_tokens:
            description: Size of each prompt.
            type: int
            default: 100
          max_tokens:
            description: Size of each answer.
            type: int
            default: 150
      long:
        description: Long prompts at the same time.
        type: dict
        default: {}
        suboptions:
          streams:
            description: How many.
            type: int
            default: 3
          prompt_tokens:
            description: Size of each prompt.
            type: int
            default: 3000
          max_tokens:
            description: Size of each answer.
            type: int
            default: 40
      sustained:
        description: One long answer.
        type: dict
        default: {}
        suboptions:
          max_tokens:
            description: Size of the answer.
            type: int
            default: 700
      stall_s:
        description: Seconds without any sign of life that are a stall.
        type: float
        default: 600
      total_timeout_s:
        description: Seconds for all phases together.
        type: float
        default: 3600
"""

EXAMPLES = r"""
- name: Warm the engine up
  tandem.spark.engine_warmup:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash

- name: A small engine
  tandem.spark.engine_warmup:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash
    fail_on_trouble: false
    plan:
      ramp_tokens: [64, 256, 1024]
      long:
        streams: 2
        prompt_tokens: 1500
      stall_s: 120
  register: warm
"""

RETURN = r"""
ok:
  description: Whether the whole plan was run. Null in check mode.
  returned: always
  type: bool
  sample: true
reason:
  description: Why it was not, in one sentence. Null if it was.
  returned: always
  type: str
  sample: "The warm-up stalled: for 600 s nothing moved in its phase long: 0 of 3 requests answered"
phases:
  description:
    - The phases that began, the last one perhaps cut short.
    - C(requests) were answered, C(tokens) were generated, C(prompt_tokens) has the size of each prompt, all as the
      server counted them.
  returned: always
  type: list
  elements: dict
  sample:
    - name: sustained
      requests: 1
      seconds: 19.4
      tokens: 700
      prompt_tokens: [104]
progress:
  description: What was said on the way.
  returned: always
  type: list
  elements: str
  sample: ["burst: done, 4 requests, 396 prompt tokens, 600 generated tokens in 9.7 s"]
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
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress
from ansible_collections.tandem.spark.plugins.module_utils.warm_up import warm_up
from ansible_collections.tandem.spark.plugins.module_utils.warm_up_plan import DEFAULTS, plan_of


def _sizes(name: str) -> dict:
    """The argument spec of a phase that is sized by whole numbers."""
    options = {
        # "tokens" in a name makes Ansible suspect a secret.
        size: {"type": "int", "default": default, "no_log": False}
        for size, default in DEFAULTS[name].items()
    }
    return {"type": "dict", "default": {}, "options": options}


ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "validate_certs": {"type": "bool", "default": True},
    "fail_on_trouble": {"type": "bool", "default": True},
    "unit": {"type": "str", "default": "tandem-head.service"},
    "workers": {"type": "dict", "default": {}},
    "progress_file": {"type": "path"},
    "plan": {
        "type": "dict",
        "default": {},
        "options": {
            "ramp_tokens": {
                "type": "list",
                "elements": "int",
                "default": DEFAULTS["ramp_tokens"],
                "no_log": False,
            },
            "burst": _sizes("burst"),
            "long": _sizes("long"),
            "sustained": _sizes("sustained"),
            "stall_s": {"type": "float", "default": DEFAULTS["stall_s"]},
            "total_timeout_s": {"type": "float", "default": DEFAULTS["total_timeout_s"]},
        },
    },
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    try:
        plan, key = plan_of(params["plan"]), api_key.of(module)
    except ValueError as error:
        module.fail_json(msg=f"engine_warmup cannot run this plan: {error}")
    if module.check_mode:
        module.exit_json(changed=False, ok=None, reason=None, phases=[], progress=[], findings=[])
    progress = Progress(params["progress_file"])
    done = warm_up(
        Endpoint(params["url"], params["model"], key, params["validate_certs"]),
        plan,
        say=progress,
    )
    reason = f"{done.trouble.summary}: {done.trouble.evidence}" if done.trouble else None
    result = {
        "changed": False,
        "ok": done.ok,
        "reason": reason,
        "phases": list(done.phases),
        "progress": progress.lines,
        "findings": [found.as_dict() for found in worst_first(done.findings)],
    }
    if done.trouble and params["fail_on_trouble"]:
        module.fail_json(msg=f"{reason}. {done.trouble.remedy}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
