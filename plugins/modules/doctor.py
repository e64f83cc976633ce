#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor
short_description: Say everything that is wrong with the nodes, worst first
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller after M(tandem.spark.node_info) was registered as C(__tandem_node) on every host of the play.
    The playbook C(tandem.spark.doctor) does both.
  - Joins what was found on each node, what is not equal between the ranks of a group, and what the plan of the group
    would stop on. A node that could not be reached is a finding; the others are told all the same.
  - Fails where a finding is an error. Sends nothing to a node.
  - Files are written in check mode too, since they hold this run's report and change no node.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  json:
    description: File on the controller to write the report to, as JSON.
    type: str
  query:
    description: A jmespath expression. Its answer is printed in place of the page.
    type: str
  bundle:
    description:
      - File on the controller to write the report to for others to read, with addresses, names, serial numbers and
        secrets replaced by the same word each time, and versions left whole.
      - A name that ends in C(.json) gives JSON, any other a C(tar.gz) of the JSON and the page.
    type: str
  only:
    description:
      - Findings that alone count, as M(tandem.spark.plan) returns them in RV(tandem.spark.plan#module:again). What is
        left of them is said, and nothing else is; an error that is left fails.
    type: list
    elements: dict
    suboptions:
      id:
        description: The finding's id.
        type: str
        required: true
      host:
        description: The host that it was found on.
        type: str
        required: true
"""

EXAMPLES = r"""
- name: Say what was found
  tandem.spark.doctor:
    json: /tmp/doctor.json
    query: "findings[?severity=='error'].[hosts, id]"
  run_once: true
"""

RETURN = r"""
counts:
  description: How many findings of each severity there are.
  returned: always
  type: dict
  sample: {error: 0, warning: 1, info: 2}
worst:
  description: The worst severity; null where nothing was found.
  returned: always
  type: str
  sample: warning
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "json": {"type": "str"},
    "query": {"type": "str"},
    "bundle": {"type": "str"},
    "only": {
        "type": "list",
        "elements": "dict",
        "options": {"id": {"type": "str", "required": True}, "host": {"type": "str", "required": True}},
    },
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.doctor runs on the controller, as an action; it was sent to a node as a module instead."
    )


if __name__ == "__main__":
    main()
