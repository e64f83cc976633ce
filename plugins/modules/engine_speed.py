#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_speed
short_description: Measure how fast a served model generates, and read what it generates
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Asks for stories, new ones each time, with so many at once as each of O(streams) says. Greedy, thinking off.
  - Tokens are those of the answers' C(usage). Acceptance is what the engine counted of its speculation between the
    first and the last of them; what others ask in the meantime is counted too, and is told as C(disturbed).
  - Every answer is judged as M(tandem.spark.generation_check) does it. The throughput of nonsense is none, so the first
    setting with an answer that fell apart is the last one that is measured.
  - The action runs the module as a job of the node and prints its progress as it comes.
extends_documentation_fragment: tandem.spark.endpoint
attributes:
  check_mode:
    description: Nothing is changed, so it is measured in check mode too.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  streams:
    description: How many stories at once, one setting after the other.
    type: list
    elements: int
    required: true
  draws:
    description: Stories for each stream of a setting.
    type: int
    default: 3
  max_tokens:
    description: Tokens of a story.
    type: int
    default: 256
  request_timeout:
    description: Seconds for one answer.
    type: float
    default: 300
  total_timeout:
    description: Seconds for all settings together.
    type: float
    default: 1800
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Measure one stream, and all that the engine takes
  tandem.spark.engine_speed:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash
    streams: [1, 16]
  register: speed
"""

RETURN = r"""
conclusion:
  description: What the texts say, as M(tandem.spark.engine_proof) says it.
  returned: always
  type: dict
  sample: {outcome: proven, reason: 48 of 48 answers right}
points:
  description:
    - What was measured with each number of streams. C(tokens_per_s) is of all streams together from the first request
      to the last answer, C(stream_tokens_per_s) the median of single answers after their first token.
    - C(steps_per_s) is C(stream_tokens_per_s) by C(mean_accepted_length), the verify steps of the engine.
    - A figure that cannot be told is null.
  returned: always
  type: list
  elements: dict
  sample:
    - streams: 16
      requests: 48
      verdict: correct
      tokens: 12288
      seconds: 45.7
      tokens_per_s: 268.9
      stream_tokens_per_s: 17.6
      ttft_s: 0.61
      acceptance: 0.446
      mean_accepted_length: 3.23
      steps_per_s: 5.4
      disturbed: false
cases:
  description: All answers, as M(tandem.spark.generation_check) returns them.
  returned: always
  type: list
  elements: dict
  sample: []
seconds:
  description: How long all of it took.
  returned: always
  type: float
  sample: 61.2
progress:
  description: A line for each setting.
  returned: always
  type: list
  elements: str
  sample: ["16 at once: 268.9 tok/s in all, 17.6 for each stream, acceptance 44.6%; proven, 48 of 48 answers right"]
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.engine_speed import Wish, measure
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress

ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "default": True},
    "streams": {"type": "list", "elements": "int", "required": True},
    "draws": {"type": "int", "default": 3},
    # "tokens" in a name makes Ansible suspect a secret.
    "max_tokens": {"type": "int", "default": 256, "no_log": False},
    "request_timeout": {"type": "float", "default": 300.0},
    "total_timeout": {"type": "float", "default": 1800.0},
    "progress_file": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    progress = Progress(params["progress_file"])
    endpoint = Endpoint(params["url"], params["model"], params["api_key"], params["validate_certs"])
    wish = Wish(
        params["streams"],
        params["draws"],
        params["max_tokens"],
        params["request_timeout"],
        params["total_timeout"],
    )
    try:
        speed = measure(endpoint, wish, say=progress)
    except ValueError as error:
        module.fail_json(msg=f"engine_speed cannot measure this: {error}")
    module.exit_json(
        changed=False,
        conclusion={"outcome": speed.conclusion.outcome, "reason": speed.conclusion.reason},
        points=list(speed.points),
        cases=list(speed.cases),
        seconds=speed.seconds,
        progress=progress.lines,
        findings=[found.as_dict() for found in speed.findings],
    )


if __name__ == "__main__":
    main()
