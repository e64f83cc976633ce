#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_report
short_description: A run of the bench as a page with pictures
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller and needs no node. Reads the runs that M(tandem.spark.bench_record) kept and writes, beside
    them, one HTML file with its pictures in it, the same in Markdown, and the pictures as SVG.
  - A run stands beside what others measured with the stack that its profile names, beside the run before, and beside
    what speaks for each cause of a slow one, the strongest first.
  - The pictures are drawn by matplotlib, which the controller's Python must have.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  folder:
    description: Folder on the controller that has the runs.
    type: str
    required: true
  group:
    description: Group of the ranks.
    type: str
    required: true
  run:
    description: File of the run that the page is about. By default the newest.
    type: str
  pictures:
    description: Whether pictures are drawn.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Report on the newest run
  tandem.spark.bench_report:
    folder: bench
    group: tandem
"""

RETURN = r"""
files:
  description: What was written, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/home/me/tandem/bench/tandem-20261130T120000Z.html]
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "folder": {"type": "str", "required": True},
    "group": {"type": "str", "required": True},
    "run": {"type": "str"},
    "pictures": {"type": "bool", "default": True},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.bench_report runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
