#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_boot
short_description: Boot a kernel once, judge it, and only then make it the default
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - V(once) has GRUB boot a kernel at the next boot and the kernel of before at every other one. It is refused where
    image, initramfs, NVIDIA module or signature of that kernel are not as they must be. It does not boot by itself.
  - V(judged) looks at the node after that boot. A pair that came up well becomes the default; otherwise the kernel of
    before stays it, and O(ignore:good) is false.
  - V(finished) forgets a change whose release was proved.
  - Every step is remembered in C(/var/lib/tandem/driver.json), so that a run that was cut off can be taken up.
attributes:
  check_mode:
    description: Says what would be done and does nothing.
    support: full
  diff_mode:
    description: There is no useful diff.
    support: none
options:
  state:
    description: The step.
    type: str
    choices: [once, judged, finished]
    required: true
  driver:
    description: The driver that is wanted.
    type: str
  kernel:
    description: The kernel that is wanted, its whole name.
    type: str
  also:
    description: Reasons why the node is not as it should be that were found elsewhere, for V(judged).
    type: list
    elements: str
    default: []
  timeout:
    description: For how many seconds V(judged) waits for the driver.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Have the new kernel boot once
  tandem.spark.driver_boot:
    state: once
    driver: 580.173.02
    kernel: 6.17.0-1026-nvidia

- name: Make it the default, if it is good
  tandem.spark.driver_boot:
    state: judged
    driver: 580.173.02
    kernel: 6.17.0-1026-nvidia
  register: judged
  failed_when: not judged.good
"""

RETURN = r"""
good:
  description: Whether driver and kernel came up as wanted.
  returned: when O(state=judged)
  type: bool
  sample: true
reasons:
  description: Why not.
  returned: when O(state=judged)
  type: list
  elements: str
  sample: []
before:
  description: The pair that ran before the change; null where that is unknown.
  returned: when O(state=once) or O(state=judged)
  type: dict
  sample: {driver: "580.142", kernel: 6.17.0-1014-nvidia}
running:
  description: The kernel that runs.
  returned: success
  type: str
  sample: 6.17.0-1026-nvidia
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import driver_change
from ansible_collections.tandem.spark.plugins.module_utils.driver_host import DriverError, Host
from ansible_collections.tandem.spark.plugins.module_utils.files import FilesError


def take(module: AnsibleModule, host: Host) -> dict:
    state, driver, kernel = (module.params[name] for name in ("state", "driver", "kernel"))
    if module.check_mode:
        record = host.record()
        due = state == "once" or (record.change is not None and record.change.stage == "good")
        return {"changed": due, "good": True, "reasons": []}
    if state == "finished":
        return {"changed": driver_change.finish(host)}
    if state == "once":
        driver_change.boot_once(host, driver, kernel)
        return {"changed": True}
    reasons = driver_change.judge(host, driver, kernel, module.params["also"], module.params["timeout"])
    return {"changed": True, "good": not reasons, "reasons": reasons}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": ["once", "judged", "finished"]},
            "driver": {"type": "str"},
            "kernel": {"type": "str"},
            "also": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 120},
        },
        required_if=[("state", state, ["driver", "kernel"]) for state in ("once", "judged")],
        supports_check_mode=True,
    )
    host = Host()
    try:
        result = take(module, host)
        change = host.record().change
        before = dict(zip(("driver", "kernel"), change.before if change else (None, None), strict=True))
        module.exit_json(before=before, running=host.look().running, **result)
    except (DriverError, FilesError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
