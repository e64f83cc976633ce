#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tune_record
short_description: Keep what was found of a point of the tuning matrix
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller and sends nothing to a node. Writes one JSON file for the point into the folder of its stack,
    when it begins and again when it ended, with all that the steps returned.
attributes:
  check_mode:
    description: Says what would be kept, and writes nothing.
    support: full
  diff_mode:
    description: Results are new files, which have no useful diff.
    support: none
options:
  folder:
    description: Folder of the stack, as M(tandem.spark.tune_next) returns it.
    type: path
    required: true
  point:
    description: The point, as M(tandem.spark.tune_next) returns it.
    type: dict
    required: true
  state:
    description: Whether the point begins or ended.
    type: str
    required: true
    choices: [begun, ended]
  raw:
    description: What the steps returned, by step, for O(state=ended). A step that was not reached is empty.
    type: dict
    default: {}
    suboptions:
      plan: {description: What M(tandem.spark.plan) returned., type: dict}
      release: {description: What M(tandem.spark.release) returned., type: dict}
      switch: {description: What M(tandem.spark.group_unit) returned., type: dict}
      boot: {description: What M(tandem.spark.engine_wait) returned., type: dict}
      warm_up: {description: What M(tandem.spark.engine_warmup) returned., type: dict}
      rounds: {description: What M(tandem.spark.engine_proof) returned., type: dict}
      speed: {description: What M(tandem.spark.serving_bench) returned., type: dict}
  verdict:
    description: What P(tandem.spark.rollout_verdict#filter) says of the step that failed. Empty where all are through.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Keep what was found
  tandem.spark.tune_record:
    folder: "{{ __tandem_tune.folder }}"
    point: "{{ __tandem_tune.point }}"
    state: ended
    raw: {rounds: "{{ __tandem_rounds }}", speed: "{{ __tandem_speed }}"}
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /home/op/.local/state/tandem/tune/tandem/3f2a9c51d07e/none-dspark-k5-1f09ab-s16.json
outcome:
  description: V(right), V(wrong), V(refused), V(unproven) or V(begun).
  returned: success
  type: str
  sample: right
reason:
  description: Why.
  returned: success
  type: str
  sample: "one by one: 5 of 5 answers right"
digest:
  description: The release that was tried; null where there was none.
  returned: success
  type: str
  sample: 0123456789abcdef
seconds:
  description: How long each step took.
  returned: success
  type: dict
  sample: {stop: 4.1, start: 211.0, warm_up: 95.2, proof: 61.0, measuring: 48.3, all: 419.6}
"""

from ansible.module_utils.basic import AnsibleModule

STEPS = ("plan", "release", "switch", "boot", "warm_up", "rounds", "speed")
ARGUMENTS = {
    "folder": {"type": "path", "required": True},
    "point": {"type": "dict", "required": True},
    "state": {"type": "str", "required": True, "choices": ["begun", "ended"]},
    "raw": {"type": "dict", "default": {}, "options": {step: {"type": "dict"} for step in STEPS}},
    "verdict": {"type": "dict", "default": {}},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.tune_record runs on the controller, as an action; it was sent to a node as a module instead."
    )


if __name__ == "__main__":
    main()
