#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: link_check
short_description: Prove what the rails carry
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads what each rail of this rank says of itself (carrier, rate, PCIe lanes, MTU, RDMA MTU), and asks every peer on
    every rail for full, unfragmented packets.
  - With O(measure=true) it also measures what this rank sends to its peers with perftest, C(ib_write_bw) on each rail
    alone and on all at once, and C(ib_send_lat), at the GID indices that a start would take.
  - Run it on all ranks of the group in one task, since each is the other end of another one's test. It needs the plan
    that playbooks/fabric.yml wrote; to measure, the engine must be stopped and perftest installed on every rank.
  - A rate of 200 Gb/s, full PCIe lanes and clean counters prove nothing. A degraded NIC had them and carried 13 Gb/s.
attributes:
  check_mode:
    description: Measures nothing, as with O(measure=false).
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  measure:
    description: Whether to measure. Without it the engine may run.
    type: bool
    default: true
  fit:
    description:
      - Whether to say what would forbid a measurement, as O(measure=true) does, and measure nothing.
      - Ask all ranks for it first. Where one of them refuses to measure, the others wait for it for O(join_timeout).
    type: bool
    default: false
  min_rail_gbps:
    description:
      - The least that one rail must carry alone, in gigabits a second. Healthy functions of a Spark gave 92 to 98.
      - Also what its PCIe lanes and its link must be good for.
    type: float
  min_total_gbps:
    description: The least that all rails must carry at the same time, in gigabits a second.
    type: float
  max_latency_us:
    description: The longest time that a small message may take one way, in microseconds.
    type: float
  size:
    description: Bytes of a message of the bandwidth tests, at most 8388608.
    type: int
    default: 65536
  seconds:
    description: Length of each bandwidth test, at most 30.
    type: int
    default: 2
  join_timeout:
    description: Seconds to wait for the other rank in each test.
    type: int
    default: 60
  peer_timeout:
    description: Seconds to ask the peers for full packets.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Look at the rails while the engine runs
  tandem.spark.link_check:
    measure: false

- name: See on all ranks whether they can be measured
  tandem.spark.link_check:
    measure: false
    fit: true

- name: Prove the rails
  tandem.spark.link_check:
    min_rail_gbps: 85
    min_total_gbps: 150
  register: link
"""

RETURN = r"""
rails:
  description: What each rail says of itself, in the plan's order; null is unknown.
  returned: success
  type: list
  elements: dict
  contains:
    netdev:
      description: The interface.
      type: str
      sample: enp1s0f0np0
    hca:
      description: Its RDMA device.
      type: str
      sample: rocep1s0f0
    carrier:
      description: Whether the interface has a carrier.
      type: bool
      sample: true
    mtu:
      description: MTU of the interface.
      type: int
      sample: 9000
    active_mtu:
      description: RDMA MTU in bytes.
      type: int
      sample: 4096
    rate:
      description: The port's rate in its own words.
      type: str
      sample: 200 Gb/sec (4X HDR)
    rate_gbps:
      description: The number of it.
      type: float
      sample: 200.0
    pcie_gts:
      description: PCIe speed of each lane in GT/s.
      type: float
      sample: 32.0
    pcie_width:
      description: PCIe lanes in use.
      type: int
      sample: 4
    pcie_gbps:
      description: What these lanes carry at most, in gigabits a second.
      type: float
      sample: 126.0
    gid_index:
      description: The GID index that a start would take now.
      type: int
      sample: 3
points:
  description: What this rank sent; several HCAs sent at the same time and gbps is their sum.
  returned: success
  type: list
  elements: dict
  sample:
    - {test: ib_write_bw, peer: 192.168.177.2, hcas: [rocep1s0f0], bytes: 65536, gbps: 97.3, latency_us: null,
       mtu: 4096}
    - {test: ib_send_lat, peer: 192.168.177.2, hcas: [rocep1s0f0], bytes: 8, gbps: null, latency_us: 2.1, mtu: 4096}
ok:
  description: Whether everything is as wanted.
  returned: success
  type: bool
  sample: true
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: link.bandwidth.low, severity: error, scope: group, hosts: [], fixed_by: null, evidence: "",
       source: "NVIDIA/dgx-spark-playbooks#108",
       summary: "rocep1s0f0 (enp1s0f0np0) carries 13.2 Gb/s to 192.168.177.2 where 85 are wanted, on a link of 200
         Gb/sec (4X HDR): link, lanes and counters are good, and this rate is a degraded NIC's (13 Gb/s in the field)",
       remedy: "Switch both machines off, take their power away for a minute, and start them; then compare `fw_ver` of
         `ibv_devinfo` on both and update (`fwupdmgr update`)"}
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import link, link_run

ARGUMENTS = {
    "measure": {"type": "bool", "default": True},
    "fit": {"type": "bool", "default": False},
    "min_rail_gbps": {"type": "float"},
    "min_total_gbps": {"type": "float"},
    "max_latency_us": {"type": "float"},
    "size": {"type": "int", "default": 65536},
    "seconds": {"type": "int", "default": 2},
    "join_timeout": {"type": "int", "default": 60},
    "peer_timeout": {"type": "int", "default": 10},
}


def answer(options: dict, check_mode: bool) -> dict:
    """What the module returns. LinkError where it refuses."""
    wish = link_run.Wish(
        limits=link.Limits(
            *(options[name] for name in ("min_rail_gbps", "min_total_gbps", "max_latency_us"))
        ),
        measure=options["measure"] and not check_mode,
        size=options["size"],
        seconds=options["seconds"],
        join_timeout_s=options["join_timeout"],
        peer_timeout_s=options["peer_timeout"],
        fit=options["fit"],
    )
    seen = link_run.check(wish)
    return {
        "rails": seen["rails"],
        "points": [{**asdict(point), "hcas": list(point.hcas)} for point in seen["points"]],
        "ok": not any(note.severity == "error" for note in seen["findings"]),
        "findings": [note.as_dict() for note in seen["findings"]],
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        told = answer(module.params, module.check_mode)
    except link_run.LinkError as error:
        module.fail_json(msg=str(error), findings=[])
    module.exit_json(changed=False, **told)


if __name__ == "__main__":
    main()
