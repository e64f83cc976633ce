#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_info
short_description: Which NCCL the processes of a node really have in memory, and what carries its traffic
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads the memory maps of processes, since neither the environment nor torch tells which library is loaded.
    C(LD_PRELOAD) with a wrong path is ignored without an error, and torch reports the version that it was built for.
  - With O(transport) reads what NCCL said in the journal of the unit's newest start, as M(tandem.spark.nccl_log_info)
    does. NCCL tells its channels only with C(NCCL_DEBUG=INFO).
  - What could not be read is null and never counts as good.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  unit:
    description: Look at the processes of this systemd unit.
    type: str
  pids:
    description: Look at these processes. Without O(unit) and O(pids) every process with NCCL in memory is told.
    type: list
    elements: int
  minimum:
    description: The oldest version that will do; an older one is a finding.
    type: str
  transport:
    description: The one transport that will do for the processes of O(unit); another one is a finding.
    type: str
    choices: [ib, socket, shm, p2p]
  root:
    description: Where the node's file system is seen.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: See what the rank has loaded
  tandem.spark.nccl_info:
    unit: tandem-head.service
    minimum: 2.30.4
    transport: ib
  register: nccl

- name: Compare the ranks
  ansible.builtin.assert:
    that: dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'nccl')))
      | tandem.spark.nccl_problems | length == 0
"""

RETURN = r"""
processes:
  description: The processes, with the NCCL libraries and network plugins mapped and the entries of LD_PRELOAD.
  returned: always
  type: list
  elements: dict
  sample:
    - pid: 4260
      name: VLLM::Worker
      unit: tandem-head.service
      libraries:
        - {path: /opt/tandem/nccl/1f0c2d3e4a5b/libnccl.so.2, deleted: false, version: 2.30.7, size: 289411072}
      plugins: []
      preloads: [{path: /opt/tandem/nccl/1f0c2d3e4a5b/libnccl.so.2, exists: true, mapped: true}]
versions:
  description: All versions that are loaded, the oldest first.
  returned: always
  type: list
  elements: str
  sample: [2.30.7]
log:
  description: What NCCL said since the unit's newest start. Null without O(transport).
  returned: always
  type: dict
  sample: {version: 2.30.7, transport: ib, gdr: false}
findings:
  description: What an operator should know, with the remedy.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import (
    engine_state,
    engine_watch,
    loaded_nccl,
    nccl_log,
    nccl_notes,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import TRANSPORTS, version_number


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str"},
            "pids": {"type": "list", "elements": "int"},
            "minimum": {"type": "str"},
            "transport": {"type": "str", "choices": list(TRANSPORTS)},
            "root": {"type": "path", "default": "/"},
        },
        required_by={"transport": "unit"},
        mutually_exclusive=[("unit", "pids")],
        supports_check_mode=True,
    )
    unit, pids, minimum, root = (module.params[name] for name in ("unit", "pids", "minimum", "root"))
    if minimum and not version_number(minimum):
        module.fail_json(msg=f"minimum is {minimum!r}, wanted is a version such as 2.30.4.")
    seen = loaded_nccl.look(root, unit, pids)
    notes = loaded_nccl.judge(seen, minimum)
    said = None
    if module.params["transport"]:
        started = engine_state.units((unit,)).get(unit, {}).get("invocation_id")
        said = nccl_log.read_log(engine_watch.journal_of(started))
        notes += nccl_notes.judge(said, minimum, module.params["transport"])
    module.exit_json(
        changed=False,
        processes=[asdict(process) for process in seen.processes],
        versions=seen.versions,
        log=said.as_dict() if said else None,
        findings=[note.as_dict() for note in worst_first(notes)],
    )


if __name__ == "__main__":
    main()
