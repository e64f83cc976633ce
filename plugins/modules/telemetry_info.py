#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: telemetry_info
short_description: What a node is like while it is measured
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Takes samples of the GPU (SM clock, power, utilisation, temperature, what holds the clocks down), the host's memory,
    the RDMA ports and interfaces, and the engine's counters, for a time or until a file tells it to end.
  - Run it with C(async) and C(poll=0) beside what is measured, and touch O(stop_file) to end it.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  seconds:
    description: Longest time that samples are taken for. One is taken in any case.
    type: float
    default: 0
  interval_s:
    description: Time between two samples.
    type: float
    default: 2
  url:
    description: Endpoint whose counters are read, with or without C(/v1).
    type: str
  stop_file:
    description: File whose being there ends it. One that is there at the start is removed.
    type: path
  samples:
    description: Whether to return every sample, and not the summary alone.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Watch the node
  tandem.spark.telemetry_info:
    seconds: 3600
    stop_file: /run/tandem-telemetry.stop
  async: 3700
  poll: 0
  register: watch
"""

RETURN = r"""
summary:
  description:
    - Ranges while the GPU was busy, mean rates of the ports, rises of their error counters, and what the engine's
      counters did. Null is unknown.
  returned: always
  type: dict
  sample:
    samples: 300
    busy_samples: 280
    clock_mhz: {low: 2405, median: 2411, high: 2418}
    power_w: {low: 36.2, median: 39.1, high: 44.0}
    reasons: {}
    hcas: {rocep1s0f0/1: {sent_gbps: 1.1, received_gbps: 1.1, errors: {}}}
samples:
  description: Every sample, empty where they were not wanted.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import telemetry

ARGUMENTS = {
    "seconds": {"type": "float", "default": 0.0},
    "interval_s": {"type": "float", "default": 2.0},
    "url": {"type": "str"},
    "stop_file": {"type": "path"},
    "samples": {"type": "bool", "default": True},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    if not params["interval_s"] > 0:
        module.fail_json(msg=f"interval_s is {params['interval_s']:g}, wanted more than 0")
    samples = telemetry.watch(
        telemetry.World(),
        seconds=params["seconds"],
        interval_s=params["interval_s"],
        url=params["url"],
        stop_file=params["stop_file"],
    )
    kept = samples if params["samples"] else []
    module.exit_json(changed=False, summary=telemetry.summarise(samples), samples=kept)


if __name__ == "__main__":
    main()
