#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_check
short_description: Measure a real all-reduce between the ranks
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Measures all-reduces of several sizes with the engine's own torch, as its service user and in its environment, and
    reads from NCCL's log what carried them.
  - Run it on all ranks of the group in one task, so that they are started at the same time; each waits for the others.
    It needs the plan that site.yml wrote, and the engine stopped, since it would be measured too.
  - The measurement is a transient unit that ends by itself in time, whatever becomes of the controller.
attributes:
  check_mode:
    description: Measures nothing; O(ignore:ok) is null.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  sizes:
    description: Sizes in bytes, such as V(8), V(4K), V(1M) or V(1G). At most V(4G), since larger tests froze a node.
    type: list
    elements: str
    default: ["8", 4K, 64K, 1M, 16M, 256M]
  ranks:
    description: How many ranks take part. The plan's number where it is not given.
    type: int
  backend:
    description: What torch measures with, V(gloo) where there is no GPU.
    type: str
    choices: [nccl, gloo]
    default: nccl
  min_busbw_gbps:
    description:
      - The least bus bandwidth in gigabits a second, as links are rated. nccl-tests prints gigabytes, an eighth of it.
      - Two functions of a cage gave 160 to 190, one 100 to 111, sockets 16.
    type: float
  max_latency_us:
    description: The longest time that the smallest size may take, in microseconds.
    type: float
  transport:
    description: What must have carried it. RDMA where the plan has HCAs and the backend is V(nccl).
    type: str
    choices: [ib, socket, shm, p2p]
  minimum:
    description: The oldest NCCL that will do.
    type: str
  user:
    description: Account that the engine runs as.
    type: str
    default: tandem
  join_timeout:
    description: Seconds to wait for the other ranks.
    type: int
    default: 60
  total_timeout:
    description: Longest time for all of it, in seconds.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Measure the link between the ranks
  tandem.spark.collective_check:
    sizes: ["8", 10K, 512M]
    min_busbw_gbps: 150
    max_latency_us: 60
  register: collective

- name: Stop where it is not what the cable can do
  ansible.builtin.assert:
    that: collective.ok
    fail_msg: "{{ collective.findings | map(attribute='summary') | join('; ') }}"
"""

RETURN = r"""
points:
  description: One entry for each size. The time is that of one all-reduce on the slowest rank.
  returned: always
  type: list
  elements: dict
  sample: [{bytes: 8, latency_us: 27.3, busbw_gbps: 0.002}, {bytes: 268435456, latency_us: 14450.1, busbw_gbps: 148.6}]
transport:
  description: What carried it, as in M(tandem.spark.nccl_log_info); V(socket) with gloo.
  returned: always
  type: str
  sample: ib
nccl:
  description: NCCL's version, null with gloo.
  returned: always
  type: str
  sample: 2.30.7
devices:
  description: The devices that NCCL lists, with the number of channels that use each.
  returned: always
  type: list
  elements: dict
  sample:
    - {kind: ib, index: 0, name: rocep1s0f0, port: 1, link: RoCE, address: null, host: spark-a, pid: 315, channels: 8}
torch:
  description: The version of torch that measured.
  returned: always
  type: str
  sample: 2.14.0
ok:
  description: Whether everything is as wanted; null where nothing was measured.
  returned: always
  type: bool
  sample: true
findings:
  description: What an operator should know, with the remedy.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import collective, collective_run, nccl_notes
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import TRANSPORTS

ARGUMENTS = {
    "sizes": {"type": "list", "elements": "str", "default": list(collective.DEFAULT_SIZES)},
    "ranks": {"type": "int"},
    "backend": {"type": "str", "choices": ["nccl", "gloo"], "default": "nccl"},
    "min_busbw_gbps": {"type": "float"},
    "max_latency_us": {"type": "float"},
    "transport": {"type": "str", "choices": list(TRANSPORTS)},
    "minimum": {"type": "str"},
    "user": {"type": "str", "default": "tandem"},
    "join_timeout": {"type": "int", "default": 60},
    "total_timeout": {"type": "int", "default": 300},
}
NOTHING = {
    "points": [],
    "transport": "none",
    "nccl": None,
    "devices": [],
    "torch": None,
    "ok": None,
    "findings": [],
}


def measured(options: dict, plan: dict) -> dict:
    """What the module returns, from a real measurement."""
    wish = collective_run.Wish(
        sizes=tuple(collective.sizes_of(options["sizes"])),
        ranks=options["ranks"] or int(plan["ranks"]),
        backend=options["backend"],
        user=options["user"],
        join_timeout_s=options["join_timeout"],
        total_timeout_s=options["total_timeout"],
    )
    result, log = collective_run.measure(plan, wish)
    points = collective.points_of(result)
    transport = log.transport if wish.backend == "nccl" else "socket"
    wanted = options["transport"] or collective_run.wanted_transport(plan, wish.backend)
    notes = nccl_notes.judge(log, options["minimum"], wanted) if wish.backend == "nccl" else []
    limits = options["min_busbw_gbps"], options["max_latency_us"]
    notes += collective.judge(points, result["wrong"], transport, *limits)
    return {
        "points": [asdict(point) for point in points],
        "transport": transport,
        "nccl": log.version,
        "devices": log.as_dict()["devices"],
        "torch": result["torch"],
        "ok": not any(note.severity == "error" for note in notes),
        "findings": [note.as_dict() for note in worst_first(notes)],
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        collective.sizes_of(module.params["sizes"])
        plan = collective_run.read_plan()
        if module.check_mode:
            module.exit_json(changed=False, msg="Nothing is measured in check mode.", **NOTHING)
        module.exit_json(changed=False, **measured(module.params, plan))
    except collective.CollectiveError as error:
        module.fail_json(msg=str(error), **NOTHING)
    except OSError as error:
        module.fail_json(msg=f"Nothing was measured: {error}. Run this as root on a rank.", **NOTHING)


if __name__ == "__main__":
    main()
