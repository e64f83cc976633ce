#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_info
short_description: Driver and kernel of a node as one pair, now and after the next boot
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads which NVIDIA driver is loaded, which libraries and packages are there, which kernel GRUB boots next, and
    whether that kernel has a module of the same version. The running kernel's modules say nothing of the next boot.
  - Judges the pair by a list of versions that carries the source of each row. A contested version warns and is never
    an error; a version that is not listed is unknown, and so is what could not be read. Unknown is never good.
  - Reads files below O(root), so a copy of a node can be judged as well. Only with V(/) are C(modinfo) and
    C(journalctl) asked.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  root:
    description: Where the node's file system is seen.
    type: path
    default: /
  kernel_log:
    description:
      - The kernel's log of this boot, as C(dmesg) or C(journalctl -kb) prints it.
      - Without it the journal of a live node is asked; of a copy the log is unknown.
    type: str
  minimum:
    description: The oldest driver that will do, for instance the one that a container was built for.
    type: str
  cuda_total_gib:
    description:
      - The memory that CUDA says there is. Less than 80 % of the node's is a finding.
      - Without it a file that may hide memory is a finding as it is.
    type: float
"""

EXAMPLES = r"""
- name: Look at driver and kernel
  tandem.spark.driver_info:
  register: driver_and_kernel

- name: Reboot only where the next boot brings a module for its kernel
  ansible.builtin.assert:
    that: driver_and_kernel.kernel.modules_present is true

- name: Judge the copy of a node
  tandem.spark.driver_info:
    root: /srv/copies/spark-a
    kernel_log: "{{ lookup('ansible.builtin.file', '/srv/copies/spark-a.dmesg') }}"
"""

RETURN = r"""
driver:
  description:
    - Versions of the loaded module, of the libraries, of the packages, and of the module that the next boot loads.
      Each is null where it is unknown or there is none.
    - C(flavour) is open, closed, or none where there is no driver; null where nothing tells it.
  returned: always
  type: dict
  sample: {loaded: "580.142", userspace: "580.142", installed: "580.142", flavour: open, next_boot: "580.142"}
kernel:
  description:
    - The running kernel and the one that boots next; null where it is unknown.
    - C(modules_present) says whether the next one has an NVIDIA module; null where that is unknown.
  returned: always
  type: dict
  sample: {running: 6.17.0-1014-nvidia, next_boot: 6.17.0-1014-nvidia, modules_present: true}
holds:
  description: Packages of driver and kernel that are installed and held.
  returned: always
  type: list
  elements: str
  sample: [linux-image-nvidia-hwe-24.04, nvidia-driver-580-open]
packages:
  description:
    - Packages of driver and kernel with their state as C(dpkg --list) shows it. V(hi) is installed and held,
      V(rc) is removed. Null where the list cannot be read.
  returned: always
  type: list
  elements: dict
  sample: [{name: nvidia-driver-580-open, version: 580.142-0ubuntu0.24.04.1, state: hi}]
kho:
  description:
    - CMA as C(/proc/meminfo) tells it, and whether the handover over kexec is switched off, now and in the next boot.
    - C(takes_memory) is true where more CMA is free than there is. What is unknown is null.
  returned: always
  type: dict
  sample: {cma_total_gib: 0.03, cma_free_gib: 0.03, disabled: false, disabled_next_boot: false, takes_memory: false}
xids:
  description: Xids of this boot and how often each was seen. Null where the log is unknown.
  returned: always
  type: dict
  sample: {}
verdict:
  description: V(good), V(bad), V(contested) or V(unknown), of the pair of now and of the next boot.
  returned: always
  type: str
  sample: good
findings:
  description: What an operator should know, with the remedy.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import driver, driver_judgement
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import version_number


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "kernel_log": {"type": "str"},
            "minimum": {"type": "str"},
            "cuda_total_gib": {"type": "float"},
        },
        supports_check_mode=True,
    )
    minimum = module.params["minimum"]
    if minimum and not version_number(minimum):
        module.fail_json(msg=f"minimum is {minimum!r}, wanted is a version such as 580.142.")
    look = driver.look(module.params["root"], module.params["kernel_log"])
    verdict, notes = driver_judgement.judge(look, minimum, module.params["cuda_total_gib"])
    module.exit_json(
        changed=False, **look.as_dict(), verdict=verdict, findings=[note.as_dict() for note in notes]
    )


if __name__ == "__main__":
    main()
