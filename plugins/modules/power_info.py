#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: power_info
short_description: What clocks and power of the GPU say while the engine works
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Tells a GPU that is stuck at low clocks from one that waits, is slowed down by heat, is capped, or works at the
    speed of its memory.
  - Look while the engine answers. Without load a GPU cannot be judged, and is no finding.
  - A hidden slow state shows the same readings as a healthy GPU and is not seen here.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  text:
    description:
      - What C(nvidia-smi -q) or C(nvidia-smi --query-gpu=... --format=csv), with its header, printed.
      - Without it C(nvidia-smi) is asked.
    type: str
  url:
    description: Endpoint whose counters are read before and after, to see whether tokens came. Not with O(text).
    type: str
  seconds:
    description: Time between the two readings of O(url), more than 0.
    type: float
    default: 5
  validate_certs:
    description: Whether the certificate of an C(https) endpoint must be valid.
    type: bool
    default: true
  cap_mhz:
    description: A cap on the clocks that is known to be set, as with C(nvidia-smi -lgc).
    type: float
"""

EXAMPLES = r"""
- name: Look at the GPU while the engine answers
  tandem.spark.power_info:
    url: http://192.168.50.11:8888
"""

RETURN = r"""
gpus:
  description: Each GPU with its readings and the verdict. A reading that is not reported is null.
  returned: success
  type: list
  elements: dict
  contains:
    gpu:
      description: Its index, or its bus id.
      type: str
      sample: "0"
    state:
      description: The performance state.
      type: str
      sample: P0
    clock_mhz:
      description: The clock of its SMs.
      type: float
      sample: 2411.0
    power_w:
      description: What it draws.
      type: float
      sample: 39.0
    utilization_percent:
      description: Utilisation, which is no progress.
      type: float
      sample: 96.0
    memory_percent:
      description: Utilisation of the memory.
      type: float
      sample: 0.0
    temperature_c:
      description: Its temperature.
      type: float
      sample: 58.0
    reasons:
      description: What holds the clocks down, as NVML names it. Null is unknown.
      type: list
      elements: str
      sample: []
    verdict:
      description: One of V(not_loaded), V(memory_bound), V(compute_bound), V(working), V(waiting), V(stuck),
        V(throttled), V(capped), V(unknown).
      type: str
      sample: memory_bound
tokens_moved:
  description: Whether the engine got on between the two readings. Null is unknown.
  returned: success
  type: bool
  sample: true
findings:
  description: What an operator should know, worst first.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.power_look import Question, look


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "text": {"type": "str"},
            "url": {"type": "str"},
            "seconds": {"type": "float", "default": 5},
            "validate_certs": {"type": "bool", "default": True},
            "cap_mhz": {"type": "float"},
        },
        mutually_exclusive=[("text", "url")],
        supports_check_mode=True,
    )
    options = module.params
    wrong = [
        f"{name} is {options[name]}, and must be more than 0 and at most {most}"
        for name, most in (("seconds", 600), ("cap_mhz", 10_000))
        if options[name] is not None and not 0 < options[name] <= most
    ]
    if wrong:
        module.fail_json(msg=f"power_info cannot use its options: {'; '.join(wrong)}.")
    question = Question(
        options["text"], options["url"], options["seconds"], options["validate_certs"], options["cap_mhz"]
    )
    found, notes = look(question)
    module.exit_json(changed=False, **found, findings=[note.as_dict() for note in worst_first(notes)])


if __name__ == "__main__":
    main()
