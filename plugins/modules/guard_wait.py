#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: guard_wait
short_description: Wait until the guard has brought its group up, and say how far it is
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads on the head what its guard says of the group, again and again from the controller, and prints a line when that
    changes.
  - Ends well when answers are right, and fails at once when the guard says that it does not bring the group up.
attributes:
  check_mode:
    description: Looks once and does not wait.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  timeout:
    description: Seconds to wait.
    type: float
    default: 3600
  interval:
    description: Seconds between two looks.
    type: float
    default: 3
notes:
  - The action plugin does the waiting. The module itself takes one look.
"""

EXAMPLES = r"""
- name: Wait until the pair is back after a reboot
  tandem.spark.guard_wait:
    timeout: 1200
"""

RETURN = r"""
state:
  description: What the guard says of the group; null where it says nothing now.
  returned: always
  type: str
  sample: ready
why:
  description: Why it is so.
  returned: always
  type: str
  sample: a right answer 4 s ago
seconds:
  description: How long was waited.
  returned: always
  type: float
  sample: 83.2
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import engine_state, guard_look

ARGUMENTS = {
    "timeout": {"type": "float", "default": 3600},
    "interval": {"type": "float", "default": 3},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    shown = engine_state.units((guard_look.UNIT,)).get(guard_look.UNIT)
    found = guard_look.look(Path("/"), shown)
    module.exit_json(changed=False, state=found["state"], why=found["why"], seconds=0.0)


if __name__ == "__main__":
    main()
