#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ibv_info
short_description: RDMA devices with their GID tables, and which of them carry the fabric
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads every RDMA device, its ports and the occupied slots of its GID tables from sysfs.
  - Chooses the HCAs whose own address is one of the fabric's, and says whether one GID index is right on
    all of them (C(pinned)) or NCCL has to choose per HCA (C(dynamic)). What could not be read is not used.
  - Changes nothing. Bad input is told in RV(findings), never by a failure; only options that cannot be
    understood fail.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  sysfs_root:
    description:
      - Where sysfs is seen.
      - With any other path than the live one only files are read. With the live one C(ibv_devinfo), C(ip) and
        C(ping) are asked as well, where they exist.
    type: path
    default: /sys
  subnets:
    description:
      - IPv4 subnets of the rails, such as V(192.168.177.0/29).
      - Without them the subnets of O(peers) count, and without those the addresses as they are; then an IPv4
        link-local address counts only where no other is found.
    type: list
    elements: str
    default: []
  peers:
    description:
      - Rail addresses of the other ranks. On a live node each is tried on each interface of an HCA.
      - An HCA with a link-local address is chosen only if a peer answers there.
    type: list
    elements: str
    default: []
  hcas:
    description:
      - HCAs that may be used, in the syntax of C(NCCL_IB_HCA).
      - A name is a prefix unless the list begins with V(=); V(^) makes it a list of those to avoid;
        V(name:port) names one port.
      - Empty means all.
    type: list
    elements: str
    default: []
  exclude_netdevs:
    description: Interfaces whose HCAs are not to be used.
    type: list
    elements: str
    default: []
  min_rate_gbps:
    description: HCAs with a lower or unknown rate are left out.
    type: float
  gid_index:
    description: A GID index that somebody wants to pin; it is judged and otherwise ignored.
    type: str
notes:
  - The RDMA MTU is not in sysfs. RV(devices[].ports[].active_mtu_source) says whether it is
    C(ibv_devinfo)'s own or derived from the interface's MTU as the kernel does (96 bytes of headers, then the
    next size below).
"""

EXAMPLES = r"""
- name: What is there
  tandem.spark.ibv_info:
  register: rdma

- name: Which HCAs reach the other Spark
  tandem.spark.ibv_info:
    subnets: [192.168.177.0/29, 192.168.178.0/29]
    peers: [192.168.177.2, 192.168.178.2]
    min_rate_gbps: 100
"""

RETURN = r"""
devices:
  description: Every RDMA device; GID slots that are empty are not listed, and what could not be read is null.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the HCA.
      type: str
      sample: rocep1s0f0
    vendor:
      description: Vendor of the PCIe function; V(software) for a device without one.
      type: str
      sample: mellanox
    pci:
      description: PCI address.
      type: str
      sample: "0000:01:00.0"
    sys_image_guid:
      description: One and the same for all functions of a card.
      type: str
      sample: "0200:0003:0000:6a13"
    ports:
      description: The ports of the device.
      type: list
      elements: dict
      contains:
        port:
          description: Number of the port.
          type: int
          sample: 1
        link_layer:
          description: V(Ethernet) or V(InfiniBand).
          type: str
          sample: Ethernet
        state:
          description: State of the port.
          type: str
          sample: ACTIVE
        phys_state:
          description: Physical state of the port.
          type: str
          sample: LinkUp
        rate_gbps:
          description: Rate in Gb/s. It does not prove that the link carries as much.
          type: float
          sample: 200.0
        active_mtu:
          description: RDMA MTU in bytes.
          type: int
          sample: 4096
        active_mtu_source:
          description: V(verbs), or V(netdev) where it was derived from the interface's MTU.
          type: str
          sample: netdev
        netdev:
          description: The port's network interface.
          type: str
          sample: enp1s0f0np0
        netdev_mtu:
          description: MTU of that interface.
          type: int
          sample: 9000
        carrier:
          description: Whether that interface has a carrier.
          type: bool
          sample: true
        phys_port_name:
          description: The cage, as the driver names it.
          type: str
          sample: p0
        gids:
          description: Occupied slots.
          type: list
          elements: dict
          sample:
            - {index: 3, gid: "0000:0000:0000:0000:0000:ffff:c0a8:b101", type: roce_v2, ndev: enp1s0f0np0,
               ipv4: 192.168.177.1, link_local: false}
selection:
  description: The HCAs that carry the fabric.
  returned: success
  type: dict
  contains:
    hcas:
      description: The chosen HCAs; V(name:port) where a device has several ports.
      type: list
      elements: str
      sample: [rocep1s0f0, roceP2p1s0f0]
    netdevs:
      description: Their interfaces in the same order.
      type: list
      elements: str
      sample: [enp1s0f0np0, enP2p1s0f0np0]
    gid_index:
      description: The index that is right on every chosen HCA, null where nothing may be pinned.
      type: int
      sample: 3
    per_hca:
      description: The right index of each chosen HCA, and null for HCAs that are Up without an address.
      type: dict
      sample: {rocep1s0f0: 3, roceP2p1s0f0: 3}
    strategy:
      description: V(pinned), V(dynamic), or V(none) where nothing can be used.
      type: str
      sample: pinned
    reason:
      description: Why.
      type: str
      sample: index 3 is the RoCE v2 entry of the right IPv4 address on every chosen HCA
    env:
      description: NCCL's variables; one that is not listed must not be set, not even empty.
      type: dict
      sample: {NCCL_IB_HCA: "=rocep1s0f0,roceP2p1s0f0", NCCL_IB_GID_INDEX: "3"}
findings:
  description: What an operator should know, worst first.
  returned: success
  type: list
  elements: dict
  sample:
    - {id: fabric.mtu.small, severity: warning, scope: node, hosts: [], fixed_by: fabric, evidence: "",
       source: "", summary: "rocep1s0f0 has an RDMA MTU of 1024, 4096 is possible (enp1s0f0np0 has MTU 1500)",
       remedy: "Set MTU 9000 on enp1s0f0np0 and on the peer's port: `ip link set enp1s0f0np0 mtu 9000`"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import fabric_look, fabric_wish


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "sysfs_root": {"type": "path", "default": "/sys"},
            "subnets": {"type": "list", "elements": "str", "default": []},
            "peers": {"type": "list", "elements": "str", "default": []},
            "hcas": {"type": "list", "elements": "str", "default": []},
            "exclude_netdevs": {"type": "list", "elements": "str", "default": []},
            "min_rate_gbps": {"type": "float"},
            "gid_index": {"type": "str"},
        },
        supports_check_mode=True,
    )
    options = dict(module.params)
    sysfs_root = options.pop("sysfs_root")
    try:
        wish = fabric_wish.wish(**options)
    except fabric_wish.WishError as error:
        module.fail_json(msg=f"ibv_info cannot use its options: {error}.")
    module.exit_json(changed=False, **fabric_look.look(sysfs_root, wish).as_dict())


if __name__ == "__main__":
    main()
