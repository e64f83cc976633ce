#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controller_files
short_description: Write some files on the controller
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller, without a connection and without becoming somebody else. Writes a file only where its
    content differs, and makes the folder if it is missing.
extends_documentation_fragment: tandem.spark.changes_nothing
attributes:
  check_mode:
    description: Says what would be written.
    support: full
  diff_mode:
    description: Shows what differs.
    support: full
options:
  folder:
    description: Folder on the controller. One that is no absolute path begins where the playbook was called.
    type: str
    required: true
  files:
    description: The content of each file by its name in the folder.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the rules
  tandem.spark.controller_files:
    folder: telemetry
    files:
      prometheus-rules.yml: "{{ lookup('ansible.builtin.template', 'prometheus-rules.yml.j2') }}"
"""

RETURN = r"""
files:
  description: The files on the controller.
  returned: success
  type: list
  elements: str
  sample: [/home/me/tandem/telemetry/prometheus-rules.yml]
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "folder": {"type": "str", "required": True},
    "files": {"type": "dict", "required": True},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.controller_files runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
