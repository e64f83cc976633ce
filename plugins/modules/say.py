#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: say
short_description: Print lines as they are
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Prints a text on the controller without quotes and folds, so that a command in it can be copied. Sends nothing.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  text:
    description: What to print.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Say where the API is
  tandem.spark.say:
    text: "curl http://192.168.1.11:8888/v1/models"
"""

RETURN = r"""# Nothing but what every module returns."""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {"text": {"type": "str", "required": True}}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.say runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
