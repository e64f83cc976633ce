#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tune_next
short_description: Say which point of the tuning matrix is to be tried next
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller and sends nothing to a node. Lays O(max_num_seqs), O(cudagraph_modes), O(k) and O(drafts)
    over each other, reads what is known of these points already, and chooses the one that tells most.
  - Along rising C(max_num_seqs), with all else the same, a point that is right makes every smaller one right, and one
    that is wrong every larger one wrong. So a row is bisected, from the top at first and then from where an earlier
    row ended that has graphs, or none, as this one has.
  - What is known lies below O(folder), in a folder for each stack. Another engine, other weights, another driver,
    kernel or boot option, and another profile are another stack, whose results do not count here.
  - A point that is C(unproven) is tried again by another run; one that was begun twice and never ended is left alone.
    After three unproven points in a row a run tries no more.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  profile:
    description: The profile of the plan.
    type: dict
    required: true
  stack:
    description: What else a result holds for. The engine, the weights, and what each rank runs as.
    type: list
    elements: raw
    required: true
  group:
    description: The inventory group, a folder of its own.
    type: str
    required: true
  folder:
    description: Folder on the controller where results are kept.
    type: path
    required: true
  since:
    description: When this run began, as RV(since) was returned to it. Without it the run begins now.
    type: str
  max_num_seqs:
    description: Sequences at once. By default 2, 4, 8, 16 and what the profile has.
    type: list
    elements: int
    default: []
  cudagraph_modes:
    description:
      - The words of vLLM, C(FULL_AND_PIECEWISE), C(PIECEWISE), C(FULL), C(FULL_DECODE_ONLY) and C(NONE), and C(EAGER)
        for C(--enforce-eager). By default what the profile has and, with a GPU, the first two and C(NONE).
    type: list
    elements: str
    default: []
  k:
    description: Drafted tokens, 0 without speculation. By default what the profile has, and two less and more where its
      rule allows that.
    type: list
    elements: int
    default: []
  drafts:
    description: Each a C(speculative-config) without the number of tokens. By default what the profile has.
    type: list
    elements: dict
    default: []
  every:
    description: Try every point and assume nothing.
    type: bool
    default: false
  expected_s:
    description: Seconds for a point where none is measured yet.
    type: float
  tell_all:
    description: Print every point and what they will cost.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Choose the next point
  tandem.spark.tune_next:
    group: tandem
    profile: "{{ __tandem_plan.profile }}"
    stack: ["{{ __tandem_runtime.fingerprint }}", "{{ __tandem_checkpoint.revision }}"]
    folder: ~/.local/state/tandem/tune
    max_num_seqs: [2, 4, 8, 16]
  register: __tandem_tune
"""

RETURN = r"""
point:
  description: What is to be tried; null when nothing is left.
  returned: success
  type: dict
  sample: {max_num_seqs: 16, cudagraph_mode: NONE, k: 5, draft: {method: dspark}}
name:
  description: The point in words; empty when nothing is left.
  returned: success
  type: str
  sample: max_num_seqs 16, NONE, dspark k=5
points:
  description: All points of the matrix.
  returned: success
  type: list
  elements: dict
  sample: [{max_num_seqs: 16, cudagraph_mode: NONE, k: 5, draft: {method: dspark}}]
tried:
  description: What is laid over the profile for the point.
  returned: success
  type: dict
  sample: {engine: {flags: {max-num-seqs: 16, compilation-config: {cudagraph_mode: NONE}}}}
folder:
  description: Where the results of this stack are kept.
  returned: success
  type: str
  sample: /home/op/.local/state/tandem/tune/tandem/3f2a9c51d07e
since:
  description: When this run began.
  returned: success
  type: str
  sample: "2026-11-30T16:20:01.120000Z"
left:
  description: The fewest and the most points that are still to be tried.
  returned: success
  type: list
  elements: int
  sample: [3, 7]
cost:
  description: The same in words, with the time that it will take.
  returned: success
  type: str
  sample: 3 to 7 points of about 11 min each, 33 min to 1 h 17 min
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "profile": {"type": "dict", "required": True},
    "stack": {"type": "list", "elements": "raw", "required": True},
    "group": {"type": "str", "required": True},
    "folder": {"type": "path", "required": True},
    "since": {"type": "str"},
    "max_num_seqs": {"type": "list", "elements": "int", "default": []},
    "cudagraph_modes": {"type": "list", "elements": "str", "default": []},
    "k": {"type": "list", "elements": "int", "default": []},
    "drafts": {"type": "list", "elements": "dict", "default": []},
    "every": {"type": "bool", "default": False},
    "expected_s": {"type": "float"},
    "tell_all": {"type": "bool", "default": False},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.tune_next runs on the controller, as an action; it was sent to a node as a module instead."
    )


if __name__ == "__main__":
    main()
