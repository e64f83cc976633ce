#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tune_report
short_description: Tell what the tuning matrix found
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller and sends nothing to a node. Prints a table of all points, why some are not right, and the
    fastest point that is right as C(tandem_profile_overrides). Writes the same as C(tune.md), with a picture
    (C(tune.svg)), into the folder of the stack.
  - The picture needs matplotlib on the controller. Where it is not there, that is said and the rest is written.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  found:
    description: What M(tandem.spark.tune_next) returned last.
    type: dict
    required: true
  title:
    description: The heading.
    type: str
    required: true
  prefer:
    description: What the fastest is. V(aggregate) is all streams together, V(stream) one stream alone.
    type: str
    choices: [aggregate, stream]
    default: aggregate
"""

EXAMPLES = r"""
- name: Tell what was found
  tandem.spark.tune_report:
    found: "{{ __tandem_tune }}"
    title: "tandem: v4-flash-next"
"""

RETURN = r"""
files:
  description: What was written.
  returned: success
  type: list
  elements: str
  sample: [/home/op/.local/state/tandem/tune/tandem/3f2a9c51d07e/tune.md]
best:
  description: The fastest point that is right; null where none is.
  returned: success
  type: dict
  sample: {max_num_seqs: 16, cudagraph_mode: NONE, k: 5, draft: {method: dspark}}
overrides:
  description: What makes it the wanted one; null where none is right.
  returned: success
  type: dict
  sample: {engine: {flags: {max-num-seqs: 16, compilation-config: {cudagraph_mode: NONE}}}}
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "found": {"type": "dict", "required": True},
    "title": {"type": "str", "required": True},
    "prefer": {"type": "str", "choices": ["aggregate", "stream"], "default": "aggregate"},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.tune_report runs on the controller, as an action; it was sent to a node as a module instead."
    )


if __name__ == "__main__":
    main()
