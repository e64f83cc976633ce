#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_plan
short_description: Whether an engine fits the unified memory of a node
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Plans one rank from what is available now, before anything is started. CPU and GPU share one memory.
  - The utilization is never judged by itself, only what would be left for the host.
  - A plan that does not fit is a result and no failure; numbers that cannot be planned with fail, all at once.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  mem_total_gib:
    description: Memory of the node, as RV(tandem.spark.node_info#module:node) tells it.
    type: float
    required: true
  mem_available_gib:
    description: What of it is available now, best after the page cache was dropped.
    type: float
    required: true
  weights_gib_per_rank:
    description: What the weights take on this rank.
    type: float
    required: true
  gpu_memory_utilization:
    description:
      - Share of O(mem_total_gib) that the engine takes, from 0 to 1. It needs as much available at its start.
      - Beside O(kv_cache_bytes) it sizes nothing, and only the start needs as much available.
    type: float
  kv_cache_bytes:
    description: Size of the KV cache on this rank. One of this and O(gpu_memory_utilization) is needed.
    type: int
  max_model_len:
    description: Tokens of the longest request.
    type: int
  max_num_seqs:
    description: Requests that the engine works on at once.
    type: int
  kv_bytes_per_token:
    description: What one token takes of the KV cache on this rank. Without it the tokens are unknown.
    type: float
  headroom_gib:
    description: What must stay for the host.
    type: float
    default: 2
  overhead_gib:
    description: What the engine takes besides weights and KV cache, for activations, communication and graphs.
    type: float
    default: 5.7
  shm_gib:
    description: Limit of the shared memory of the engine's container, if it runs in one.
    type: float
"""

EXAMPLES = r"""
- name: Look at the memory
  tandem.spark.node_info:
    subsets: [memory]
  register: seen

- name: Plan a rank
  tandem.spark.memory_plan:
    mem_total_gib: "{{ seen.node.memory.total_gib }}"
    mem_available_gib: "{{ seen.node.memory.available_gib }}"
    weights_gib_per_rank: 79.17
    gpu_memory_utilization: 0.78
    max_model_len: 1000000
    max_num_seqs: 6
    kv_bytes_per_token: 7632
"""

RETURN = r"""
fits:
  description: Whether it fits and leaves the headroom.
  returned: success
  type: bool
  sample: true
kv_gib:
  description: What the KV cache has, in GiB.
  returned: success
  type: float
  sample: 10.05
kv_tokens:
  description: Tokens that fit the KV cache. Null without O(kv_bytes_per_token).
  returned: success
  type: int
  sample: 1413675
concurrency:
  description: How many requests of full length fit at once. Null where that is unknown.
  returned: success
  type: float
  sample: 1.41
left_for_host_gib:
  description: What of the available memory stays for the host, in GiB. Less than 0 where the engine wants more.
  returned: success
  type: float
  sample: 21.28
reason:
  description: Why it does not fit, with every reason, or the figures by which it does.
  returned: success
  type: str
  sample: >-
    The engine takes 94.92 of 116.2 GiB that are available and leaves 21.28, the KV cache has 10.05 GiB,
    that is 1413675 tokens, 1.41 requests of 1000000, 235612 tokens for each of 6 at once
findings:
  description: What an operator should know, worst first.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.memory_plan import (
    HEADROOM_GIB,
    OVERHEAD_GIB,
    MemoryPlanError,
    Wish,
    plan,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "mem_total_gib": {"type": "float", "required": True},
            "mem_available_gib": {"type": "float", "required": True},
            "weights_gib_per_rank": {"type": "float", "required": True},
            "gpu_memory_utilization": {"type": "float"},
            "kv_cache_bytes": {"type": "int"},
            "max_model_len": {"type": "int"},
            "max_num_seqs": {"type": "int"},
            "kv_bytes_per_token": {"type": "float", "no_log": False},
            "headroom_gib": {"type": "float", "default": HEADROOM_GIB},
            "overhead_gib": {"type": "float", "default": OVERHEAD_GIB},
            "shm_gib": {"type": "float"},
        },
        required_one_of=[("gpu_memory_utilization", "kv_cache_bytes")],
        supports_check_mode=True,
    )
    try:
        planned = plan(Wish(**module.params))
    except MemoryPlanError as error:
        module.fail_json(msg=f"memory_plan cannot use its options: {error}.")
    findings = [found.as_dict() for found in worst_first(planned.findings)]
    module.exit_json(changed=False, **planned.as_dict(), findings=findings)


if __name__ == "__main__":
    main()
