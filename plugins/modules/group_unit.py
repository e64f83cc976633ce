#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_unit
short_description: Stop, start or switch the ranks of a group together, in their order
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller and has M(tandem.spark.rank_unit) take one step on one rank after the other. The ranks of a
    group are stopped and started together, because a worker outlives its head and would hold its memory.
  - Ends at the first step that fails, but stops what can be stopped. A rank that cannot be reached has failed.
attributes:
  check_mode:
    description: Says what would be done and does nothing.
    support: full
  diff_mode:
    description: Shows the release of each rank before and after a switch.
    support: full
options:
  ranks:
    description: The unit of each rank by the name of its host, the head first.
    type: dict
    required: true
  state:
    description:
      - V(stopped) stops the head, then the workers.
      - V(started) starts the workers, then the head.
      - V(restarted) stops all, links O(release) in if it is given, and starts all.
    type: str
    required: true
    choices: [stopped, started, restarted]
  release:
    description: Digest of the release that O(state=restarted) makes the one that starts.
    type: str
  hold:
    description: Who holds the guard of each rank from the stop on, so that it does not start what is stopped here.
    type: str
  hold_s:
    description: Seconds after which O(hold) ends by itself, since whoever took it may have died. Without it, it stays.
    type: float
"""

EXAMPLES = r"""
- name: Bring the group to another release
  tandem.spark.group_unit:
    ranks:
      spark-a: tandem-head.service
      spark-b: tandem-worker.service
    state: restarted
    release: 0123456789abcdef
    hold: rollout
    hold_s: 7200
"""

RETURN = r"""
began:
  description: When the first step began, in seconds since 1970 on the controller.
  returned: always
  type: float
  sample: 1796010533.2
seconds:
  description: Seconds that systemd took, of all ranks together.
  returned: always
  type: dict
  sample: {stopped: 4.1, switched: 0.4, started: 1.2}
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "ranks": {"type": "dict", "required": True},
    "state": {"type": "str", "required": True, "choices": ["stopped", "started", "restarted"]},
    "release": {"type": "str"},
    "hold": {"type": "str"},
    "hold_s": {"type": "float"},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.group_unit runs on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
