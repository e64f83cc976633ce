#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: All that is known of one node, in one look
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads what the plan, the roles and the doctor ask of a node in one run, so that a run with nothing to do
    costs few.
  - Changes nothing. What could not be read is null and is told in RV(findings).
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  root:
    description:
      - Where the node's file system is seen.
      - With any other path than V(/) only files are read, since commands tell of the live machine.
    type: path
    default: /
  subsets:
    description:
      - What to look at. Empty means all.
      - One that cannot be looked at is a finding, and the others are told all the same.
    type: list
    elements: str
    choices:
      - system
      - memory
      - network
      - ibv
      - listeners
      - gpu
      - engine
      - guard
      - access
      - plan
      - packages
      - driver
      - firmware
      - pressure
      - power
      - nccl
      - containers
      - status
    default: []
  kernel_log:
    description: As in M(tandem.spark.driver_info), and read for processes that were killed for want of memory.
    type: str
  seconds:
    description: Time between two readings of what only moves, such as tokens and pages, more than 0.
    type: float
    default: 1
  controller_address:
    description:
      - Address of the controller as the node sees it; the interface that leads there is a management one.
    type: str
  ansible_host:
    description:
      - What Ansible connects to. If it is an address of this node, its interface is a management one.
      - The client and the own address of the ssh session are found without it.
    type: str
  packages:
    description: Debian packages of which to say whether they are missing.
    type: list
    elements: str
    default: [iproute2, iputils-ping, nftables]
  subnets:
    description: As in M(tandem.spark.ibv_info).
    type: list
    elements: str
    default: []
  peers:
    description: As in M(tandem.spark.ibv_info).
    type: list
    elements: str
    default: []
  exclude_netdevs:
    description: As in M(tandem.spark.ibv_info).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Look at the node
  tandem.spark.node_info:
    ansible_host: "{{ ansible_host | default(inventory_hostname) }}"
  register: seen

- name: See what the engine runs
  tandem.spark.node_info:
    subsets: [engine]

- name: Judge the copy of a node
  tandem.spark.node_info:
    root: /srv/copies/spark-a
    kernel_log: "{{ lookup('ansible.builtin.file', '/srv/copies/spark-a.dmesg') }}"
"""

RETURN = r"""
node:
  description: What was seen; a subset that was not asked for leaves its keys out.
  returned: success
  type: dict
  contains:
    hostname:
      description: Its own name.
      type: str
      sample: spark-a
    boot_id:
      description: Changes with every boot.
      type: str
      sample: 4dc5f27d-8aea-46d3-bbd6-d2c8e71673d9
    os:
      description: The distribution.
      type: dict
      sample: {id: ubuntu, version_id: "24.04", pretty: Ubuntu 24.04.3 LTS}
    arch:
      description: The machine's architecture.
      type: str
      sample: aarch64
    kernel:
      description: The running kernel.
      type: str
      sample: 6.17.0-1026-nvidia
    python:
      description: The interpreter that Ansible uses.
      type: dict
      sample: {version: 3.12.3, executable: /usr/bin/python3}
    memory:
      description: Memory as the kernel counts it.
      type: dict
      sample: {total_gib: 121.69, available_gib: 116.2}
    network:
      description: Interfaces, those by which the node is managed and why, and who configures them.
      type: dict
      sample:
        links:
          - {name: enp1s0f0np0, mac: "02:00:00:00:6a:13", mtu: 9000, carrier: true, operstate: up,
             speed_mbps: 200000, addresses: [192.168.177.1/29], pci: "0000:01:00.0", virtual_function: false,
             up: true}
        management: [{name: enP7s7, reasons: [default route]}]
        backend: netplan-networkd
    ibv:
      description: What M(tandem.spark.ibv_info) returns.
      type: dict
      sample: {devices: [], selection: {strategy: none}, findings: []}
    listeners:
      description: Listening TCP sockets, with their owner where it could be seen.
      type: list
      elements: dict
      sample:
        - {protocol: tcp, address: 0.0.0.0, port: 8888, pid: 4242, process: python3,
           unit: tandem-head.service, user: tandem, container: null}
    gpu:
      description:
        - What C(nvidia-smi) says; processes that only draw are left out.
        - C(orphans) are processes of an engine that is gone.
      type: dict
      sample:
        present: true
        driver: 580.173.02
        devices:
          - {index: 0, name: NVIDIA GB10, bus_id: "0000000F:01:00.0", temperature_c: 42, state: P0,
             power_w: 12, utilization_percent: 0, memory_used_mib: null, memory_total_mib: null}
        processes:
          - {pid: 4242, name: "VLLM::EngineCore", memory_mib: 104277, unit: tandem-head.service, user: tandem,
             container: null}
        orphans: []
    engine:
      description:
        - The release that is linked in, the one that was proved, and the units. C(settings) are those of the linked
          release that hosts were reset by.
      type: dict
      sample:
        current: 0123456789abcdef
        settings: {allocator: "expandable_segments:False", flashinfer_autotune: false}
        applied: 0123456789abcdef
        proof: {digest: 0123456789abcdef, outcome: proven}
        runs_as: {driver: 580.173.02, kernel: 6.17.0-1026-nvidia, invocation_id: 6d1f3a0e4b7c4d55a1f2c3d4e5f60718}
        units:
          tandem-head.service: {load: loaded, active: active, sub: running, result: success,
            invocation_id: 6d1f3a0e4b7c4d55a1f2c3d4e5f60718, main_pid: 4242,
            since: Sun 2026-11-29 21:07:11 UTC}
    guard:
      description:
        - Whether the guard's unit runs, whether it is made of what lies there now, a mark of its secret, who holds it,
          and what it says of the group now.
      type: dict
      sample:
        active: true
        fresh: true
        secret: 5b41e6d0a1b2c3d4
        holds: [{owner: rollout, left_s: 7150.2}]
        state: ready
        why: a right answer 4 s ago
    access:
      description:
        - Marks of the packet filter's table that is in force and of the one that the next boot loads.
        - Whether the head keeps a key of the API that others cannot read, and whether its engine was started with it.
      type: dict
      sample:
        firewall: {in_force: 606b21d1f44bf6a3/8, kept: 606b21d1f44bf6a3/8, unit: true}
        api_key: {file: true, kept: true, running: true}
    plan:
      description: The plan that a run before this one left, C(/etc/tandem/plan.json); null where there is none.
      type: dict
      sample: {group: tandem, rank: 0, ranks: 2}
    packages:
      description: Those of O(packages) that are not installed.
      type: dict
      sample: {missing: []}
    driver:
      description: What M(tandem.spark.driver_info) returns.
      type: dict
      sample:
        driver: {loaded: "580.142", userspace: "580.142", installed: "580.142", flavour: open, next_boot: "580.142"}
        kernel: {running: 6.17.0-1014-nvidia, next_boot: 6.17.0-1014-nvidia, modules_present: true}
        verdict: good
    firmware:
      description: Versions of the machine's firmware and of its network cards'.
      type: dict
      sample: {vendor: NVIDIA, product: NVIDIA_DGX_Spark, system: 5.36_0ACUM018, system_date: 10/20/2025,
        controller: null, hcas: {rocep1s0f0: 28.45.4028}}
    pressure:
      description:
        - Whether memory is short. C(state) is V(roomy), V(healthy-tight), V(loading), V(swapping), V(exhausted) or
          V(unknown). C(no_memory_lines) counts what healthy starts say too. C(shared) is how far the shared memory of
          containers may grow, C(killers) who polls the memory to end others.
      type: dict
      sample: {state: roomy, swap_total_gib: 16.0, swap_free_gib: 16.0, oom_kills: 0, no_memory_lines: 1,
        shared: [{who: container 0123456789ab, gib: 10.0}], killers: []}
    power:
      description: What M(tandem.spark.power_info) returns, and who sets a cap on clocks or power.
      type: dict
      sample:
        gpus: [{gpu: "0", clock_mhz: 2411.0, power_w: 39.0, verdict: memory_bound}]
        tokens_moved: true
        caps: []
    nccl:
      description:
        - What M(tandem.spark.nccl_info) returns of every process that has NCCL in memory.
        - C(ranks) is what these processes were given of the node, in a container or not. C(containers) are those of
          engines, with what RDMA needs and they were made without.
      type: dict
      sample:
        processes: []
        versions: []
        log: null
        ranks:
          - {pid: 315, name: "VLLM::Worker", unit: null, container: docker 0f3b0f3b0f3b, rdma_devices: 0,
             memlock_bytes: 8388608, locks: false, environment: {NCCL_NET: IB}, beside: []}
        containers:
          - {name: v4-flash, image: "registry/engine:1", state: running, lacks: ["--device=/dev/infiniband"]}
    containers:
      description: Every container. C(ours) is that of a rank, C(restart) when it comes back unasked.
      type: list
      elements: dict
      sample:
        - {id: 0f3b0f3b0f3b, name: v4-flash, image: "registry/engine:1", state: exited, program: docker,
           restart: unless-stopped, engine: true, ours: false}
    status:
      description: What M(tandem.spark.status_info) returns; null where nothing of the collection is on the node.
      type: dict
      sample: {proven: true, rank: 0, stage: came up}
findings:
  description: What an operator should know, worst first.
  returned: success
  type: list
  elements: dict
  sample:
    - {id: host.packages.missing, severity: error, scope: node, hosts: [], fixed_by: node, evidence: "",
       source: "", summary: "Packages that the collection needs are missing: iputils-ping",
       remedy: apt-get install iputils-ping}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import fabric_wish, node
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.node_question import PACKAGES, Question


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "kernel_log": {"type": "str"},
            "seconds": {"type": "float", "default": 1},
            "subsets": {"type": "list", "elements": "str", "choices": list(node.SUBSETS), "default": []},
            "controller_address": {"type": "str"},
            "ansible_host": {"type": "str"},
            "packages": {"type": "list", "elements": "str", "default": list(PACKAGES)},
            "subnets": {"type": "list", "elements": "str", "default": []},
            "peers": {"type": "list", "elements": "str", "default": []},
            "exclude_netdevs": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    options = module.params
    if not 0 < options["seconds"] <= 60:
        module.fail_json(msg=f"seconds is {options['seconds']}, and must be more than 0 and at most 60.")
    try:
        wish = fabric_wish.wish(options["subnets"], options["peers"], (), options["exclude_netdevs"])
    except fabric_wish.WishError as error:
        module.fail_json(msg=f"node_info cannot use its options: {error}.")
    question = Question(
        root=options["root"],
        controller_address=options["controller_address"],
        ansible_host=options["ansible_host"],
        packages=tuple(options["packages"]),
        wish=wish,
        kernel_log=options["kernel_log"],
        seconds=options["seconds"],
    )
    found, notes = node.look(question, options["subsets"])
    module.exit_json(changed=False, node=found, findings=[note.as_dict() for note in worst_first(notes)])


if __name__ == "__main__":
    main()
