#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_record
short_description: Keep a run of the bench on the controller, and say what it gave
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller. Joins what M(tandem.spark.serving_bench) measured, what M(tandem.spark.telemetry_info) saw
    of each node meanwhile, what is wrong with the nodes, and the figures that the profile is compared with, to one file
    of JSON, which M(tandem.spark.bench_report) reads.
  - Prints a line for each row. Sends nothing to a node.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  folder:
    description: Folder on the controller, made if it is missing.
    type: str
    required: true
  group:
    description: Group of the ranks.
    type: str
    required: true
  url:
    description: The endpoint that was measured.
    type: str
    required: true
  bench:
    description: What M(tandem.spark.serving_bench) returned.
    type: dict
    required: true
  looks:
    description: For each host of the group what M(tandem.spark.node_info) returned.
    type: dict
    required: true
  telemetry:
    description: For each host what M(tandem.spark.telemetry_info) returned.
    type: dict
    default: {}
  answers:
    description:
      - The cases that M(tandem.spark.generation_check) returned for its suite of quality, empty where it was not asked.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Keep the run
  tandem.spark.bench_record:
    folder: bench
    group: tandem
    url: http://127.0.0.1:8888
    bench: "{{ bench }}"
    looks: "{{ looks }}"
"""

RETURN = r"""
file:
  description: The file on the controller. Null in check mode.
  returned: success
  type: str
  sample: /home/me/tandem/bench/tandem-20261130T120000Z.json
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "folder": {"type": "str", "required": True},
    "group": {"type": "str", "required": True},
    "url": {"type": "str", "required": True},
    "bench": {"type": "dict", "required": True},
    "looks": {"type": "dict", "required": True},
    "telemetry": {"type": "dict", "default": {}},
    "answers": {"type": "list", "elements": "dict", "default": []},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.bench_record runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
