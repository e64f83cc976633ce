#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_key
short_description: Give the API its key, from a vault, the environment, or drawn once and kept
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller, for the head. The key is the variable C(tandem_api_key), which belongs into a vault, or the
    environment variable E(TANDEM_API_KEY) of the controller. Where there is neither, a key is drawn once and kept on
    the head alone, in C(/etc/tandem/api.env) (0600, of the engine's account). C(tandem key) prints it there.
  - A kept file that others can read holds no secret any more, so a new key is drawn.
  - The key is in no option of a task, no result, no diff, no log and no command line.
attributes:
  check_mode:
    description: Says what would be done and does nothing.
    support: full
  diff_mode:
    description: A key has none.
    support: none
options:
  auth:
    description: V(key), or V(open) where everybody who reaches the API may use it.
    type: str
    choices: [key, open]
    required: true
  seen:
    description: What M(tandem.spark.node_info) says of the key in C(access.api_key).
    type: dict
    required: true
  user:
    description: The engine's account.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Give the API its key
  tandem.spark.api_key:
    auth: key
    seen: "{{ __tandem_node.node.access.api_key }}"
    user: tandem
"""

RETURN = r"""
source:
  description: Where the key comes from, V(variable), V(environment), V(kept), V(drawn), or V(open) for none.
  returned: success
  type: str
  sample: kept
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "auth": {"type": "str", "choices": ["key", "open"], "required": True},
    "seen": {"type": "dict", "required": True},
    "user": {"type": "str", "required": True},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.api_key runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
