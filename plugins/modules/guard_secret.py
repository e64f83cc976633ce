#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: guard_secret
short_description: Give the guards of a group one secret
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller. Where every rank has the same secret it does nothing. Otherwise it draws a new one and
    writes it to C(/etc/tandem/guard.secret) of every rank, for root alone.
  - The secret is in no result, no diff and no command line, and is not kept on the controller.
attributes:
  check_mode:
    description: Says what would be done and does nothing.
    support: full
  diff_mode:
    description: A secret has none.
    support: none
options:
  ranks:
    description: The mark of the secret that each rank has, by host, as M(tandem.spark.node_info) tells it in C(guard).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Give the guards of the group one secret
  tandem.spark.guard_secret:
    ranks: {spark-a: 5b41e6d0a1b2c3d4, spark-b: null}
"""

RETURN = r"""
written:
  description: The hosts that were given a new secret.
  returned: always
  type: list
  elements: str
  sample: [spark-a, spark-b]
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {"ranks": {"type": "dict", "required": True}}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.guard_secret runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
