# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about RDMA devices, GID tables, rails and their addresses."""

from __future__ import annotations

from .catalogue import Entry

NCCL = "NVIDIA/nccl v2.30 src/transport/net_ib"
FACTS = "field reports of two-Spark owners"

ENTRIES = {
    "fabric.rdma.no_device": Entry(
        "warning",
        "node",
        "No RDMA device is visible under {path}",
        "Run `lspci -d 15b3:` and `lsmod | grep mlx5_ib`. In a container pass --device=/dev/infiniband. "
        "A card that fell off the bus after an AER error needs a power cycle",
        source=FACTS,
    ),
    "fabric.sysfs.unreadable": Entry(
        "warning",
        "node",
        "{count} sysfs files could not be read or understood; what they hold is unknown",
        "Look at the first with `cat {first}` as root",
    ),
    "fabric.hca.not_found": Entry(
        "error",
        "node",
        "The HCA selector {selector} matches no port",
        "Name one of those found ({found}), or leave the list empty to have the rails found",
        source=NCCL,
    ),
    "fabric.hca.selector_invalid": Entry(
        "error",
        "node",
        "The HCA selectors mix modifiers: {selector}",
        "Put ^ and = once, before the first name: they hold for the whole list (^=a,b)",
        source=NCCL,
    ),
    "fabric.hca.selector_prefix": Entry(
        "warning",
        "node",
        "The HCA selector {selector} is a prefix and takes in {matched}",
        "Write ={selector} for that device alone",
        source=NCCL,
    ),
    "fabric.hca.no_address": Entry(
        "error",
        "node",
        "{hca} ({netdev}) is wanted but has no RoCE v2 entry for an IPv4 address in {wanted}",
        "Give {netdev} its address and wait until the entry appears in "
        "/sys/class/infiniband/{hca}/ports/{port}/gids",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.hca.unaddressed": Entry(
        "warning",
        "node",
        "{hca} ({netdev}) is Up but has no RoCE v2 entry for an IPv4 address; it is left out",
        "Give {netdev} an address in a subnet of its own for the whole rate of the cage, or leave it out "
        "with exclude_netdevs: [{netdev}]",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.hca.other_subnet": Entry(
        "info",
        "node",
        "{hca} ({netdev}) has {address}, which is outside {wanted}; it is left out",
        "Nothing, if {netdev} is not a rail of this group",
        source=FACTS,
    ),
    "fabric.port.down": Entry(
        "error",
        "node",
        "{hca} ({netdev}) is wanted but the state of its port is {state}, not ACTIVE",
        "Plug the cable in, or name the port that is Up: `grep . /sys/class/infiniband/*/ports/*/state`",
        source=FACTS,
    ),
    "fabric.port.not_ethernet": Entry(
        "error",
        "node",
        "{hca} ({netdev}) is wanted but its link layer is {layer}, not Ethernet",
        "Name an Ethernet port: `grep . /sys/class/infiniband/*/ports/*/link_layer`",
    ),
    "fabric.port.no_carrier": Entry(
        "error",
        "node",
        "{netdev} under {hca} has no carrier although the port says ACTIVE",
        "Check the cable, then `ip link set {netdev} up`",
    ),
    "fabric.port.slow": Entry(
        "error",
        "node",
        "{hca} runs at {rate} Gb/s, wanted at least {wanted} Gb/s; it is left out",
        "Reseat the cable and read `ethtool {netdev}`; a 40 Gb/s port is an idle one",
        source=FACTS,
    ),
    "fabric.port.rate_unknown": Entry(
        "warning",
        "node",
        "The rate of {hca} could not be read, wanted at least {wanted} Gb/s; it is left out",
        "Read /sys/class/infiniband/{hca}/ports/{port}/rate as root",
    ),
    "fabric.port.netdev_unknown": Entry(
        "warning",
        "node",
        "It is unknown which network interface belongs to {hca}; it is left out",
        "Look at `ls /sys/class/infiniband/{hca}/device/net` and `dmesg | grep {hca}`",
    ),
    "fabric.gid.no_common_index": Entry(
        "warning",
        "node",
        "No GID index is right for every chosen HCA ({indices}); NCCL_IB_GID_INDEX stays unset",
        "Nothing needs doing: NCCL chooses per HCA. To level the tables set ipv6.addr-gen-mode eui64 on the "
        "rails and reload mlx5_core, or reboot",
        source=FACTS,
    ),
    "fabric.gid.v1_only": Entry(
        "error",
        "node",
        "{hca} has {address} as RoCE v1 only (index {index}); it is left out",
        "Take the address off {netdev} and add it again; if no RoCE v2 entry comes, reload mlx5_core",
        source=FACTS,
    ),
    "fabric.gid.type_unknown": Entry(
        "warning",
        "node",
        "The type of GID {index} ({address}) of {hca} could not be read; the entry is not used",
        "Read /sys/class/infiniband/{hca}/ports/{port}/gid_attrs/types/{index} as root",
        source=NCCL,
    ),
    "fabric.gid.other_netdev": Entry(
        "warning",
        "node",
        "GID {index} ({address}) of {hca} belongs to {ndev}, not to {netdev}; the entry is not used",
        "Put the rail's address on {netdev} itself, not on a VLAN, bridge or bond above it",
        source=FACTS,
    ),
    "fabric.gid.index_invalid": Entry(
        "error",
        "node",
        "{value} is no GID index",
        "Leave NCCL_IB_GID_INDEX out, or write one number without leading zeros: NCCL reads 4,4 as 4, "
        "010 as 8 and a word as 0, which is link-local",
        source="NVIDIA/nccl src/misc/param.cc",
    ),
    "fabric.gid.index_wrong": Entry(
        "error",
        "node",
        "GID index {value} is not the RoCE v2 entry of an IPv4 address for {hcas}",
        "Leave NCCL_IB_GID_INDEX out; the index is read anew at every start",
        source=FACTS,
    ),
    "fabric.gid.dynamic_misses": Entry(
        "error",
        "node",
        "Left to itself NCCL would take GID {chosen} of {hca}, right is {wanted}",
        "Take the other addresses off the rail's interface (`ip addr show {netdev}`), or name one HCA only",
        source=NCCL,
    ),
    "fabric.address.link_local": Entry(
        "warning",
        "node",
        "{hca} ({netdev}) is reached by the IPv4 link-local address {address}, which changes at a reboot",
        "Give the rail a static address, as the role fabric does; a link-local set-up usually uses one "
        "function of the cage, which is half the rate",
        fixed_by="fabric",
        source="NVIDIA/dgx-spark-playbooks connect-two-sparks",
    ),
    "fabric.address.link_local_unproven": Entry(
        "info",
        "node",
        "{hca} ({netdev}) has only the IPv4 link-local address {address}, and nothing shows that the peer is "
        "reached by it; it is left out",
        "Nothing, if {netdev} is not a rail; otherwise give it a static address or name the peer's address",
        source=FACTS,
    ),
    "fabric.peer.no_rail": Entry(
        "error",
        "node",
        "The peer {peer} is in the subnet of no usable HCA",
        "Compare `ip -4 -br addr` on both nodes: both ends of a rail must be in one subnet",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.peer.no_answer": Entry(
        "error",
        "node",
        "The peer {peer} does not answer on {netdevs}",
        "Run `ping -c 3 {peer}` on this node; check that the cable joins these two ports and the peer is up",
        source=FACTS,
    ),
    "fabric.subnet.no_hca": Entry(
        "error",
        "node",
        "No usable HCA has an address in the wanted subnet {subnet}",
        "Give the rail its address in {subnet}, or take the subnet off the list",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.rail.half_port": Entry(
        "warning",
        "node",
        "Only half of the port is used: {used} of the cage's two functions, and {unused} is Up as well",
        "Use both functions ({used},{unused}), each with an address in a subnet of its own: "
        "one alone stops near 100 Gb/s",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.rail.twins_same_subnet": Entry(
        "warning",
        "node",
        "{hcas} have addresses in one subnet ({subnet})",
        "Give each function a subnet of its own; a set-up that works is left as it is",
        source="eugr/spark-vllm-docker#270; NVIDIA's three-sparks example differs",
    ),
    "fabric.rail.mixed_cages": Entry(
        "info",
        "node",
        "The chosen HCAs lie in different cages: {cages}",
        "Nothing, in a ring or with two cables; for one cable choose the two functions of one cage",
        source=FACTS,
    ),
    "fabric.mtu.small": Entry(
        "warning",
        "node",
        "{hca} has an RDMA MTU of {active_mtu}, 4096 is possible ({netdev} has MTU {netdev_mtu})",
        "Set MTU 9000 on {netdev} and on the peer's port: `ip link set {netdev} mtu 9000`",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.mtu.unknown": Entry(
        "warning",
        "node",
        "The RDMA MTU of {hca} could not be read",
        "Run `ibv_devinfo -d {hca}` and `ip link show {netdev}`",
    ),
    "fabric.selection.none": Entry(
        "error",
        "node",
        "No HCA can be used for the fabric: {reason}",
        "Plug the cable in where no port is Up; give the rails their addresses (`ansible-playbook site.yml "
        "--tags fabric`)",
        fixed_by="fabric",
        source=FACTS,
    ),
    "fabric.subnet.overlaps_route": Entry(
        "error",
        "node",
        "The rail subnet {subnet} overlaps {route}, which {netdev} reaches",
        "Choose another subnet for the rail (tandem_fabric_rails)",
        source=FACTS,
    ),
}
