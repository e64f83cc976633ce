# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about making the rails: their configuration, their change and their proof."""

from __future__ import annotations

from .catalogue import Entry

ENTRIES = {
    "fabric.backend.unsupported": Entry(
        "error",
        "node",
        "The network of this node is written by {backend}, which the role fabric does not write; "
        "nothing was touched",
        "Give {netdevs} their addresses and MTU by hand, or let NetworkManager or systemd-networkd (with or "
        "without netplan) own them",
    ),
    "fabric.rail.management": Entry(
        "error",
        "node",
        "{netdev} is the way to this node ({reason}) and must not be a rail; nothing was touched",
        "Name other interfaces in tandem_fabric_rails, or connect through another one (ansible_host)",
    ),
    "fabric.rail.missing": Entry(
        "error",
        "node",
        "There is no interface {netdev}; found: {found}",
        "Correct tandem_fabric_rails; after re-cabling the other cage's functions have other names",
    ),
    "fabric.rail.enslaved": Entry(
        "error",
        "node",
        "{netdev} is part of {master}; nothing was touched",
        "Take it out of {master}, or name another interface in tandem_fabric_rails",
    ),
    "fabric.rail.address": Entry(
        "error",
        "node",
        "{netdev} has {found}, wanted {wanted}",
        "Run `ansible-playbook site.yml --tags fabric`",
        fixed_by="fabric",
    ),
    "fabric.rail.mtu": Entry(
        "error",
        "node",
        "{netdev} has MTU {found}, wanted {wanted}",
        "Run `ansible-playbook site.yml --tags fabric`; a firmware update resets the MTU",
        fixed_by="fabric",
        source="tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#40",
    ),
    "fabric.rail.down": Entry(
        "error",
        "node",
        "{netdev} is {found}, wanted {wanted}",
        "Run `ansible-playbook site.yml --tags fabric`",
        fixed_by="fabric",
    ),
    "fabric.rail.no_carrier": Entry(
        "error",
        "node",
        "{netdev} has no carrier",
        "Plug the cable in at both ends; `ethtool {netdev}` and `dmesg | grep {netdev}` say more",
    ),
    "fabric.rail.lost": Entry(
        "error",
        "node",
        "{netdev} was a rail of this group and has no carrier now; nothing was touched",
        "Plug the cable in at both ends; `ethtool {netdev}` says more. To give the rail up, take it out of the "
        "files that name it ({paths}) and run again",
    ),
    "fabric.rail.extra_address": Entry(
        "warning",
        "node",
        "{netdev} also has {address}, which is not planned",
        "Find who sets it (`grep -r {bare} /etc/netplan /etc/systemd/network /etc/NetworkManager`) and take it "
        "out there; it goes with the next reboot. Every further address moves the GID table",
    ),
    "fabric.rail.foreign_file": Entry(
        "warning",
        "node",
        "{path} also configures {netdev}",
        "Take {netdev} out of {path}: {effect}. It was left as it is, a copy is made under {backup} before "
        "the rails change",
    ),
    "fabric.rail.shadowed": Entry(
        "error",
        "node",
        "{path} comes before this collection's file and decides about {netdev}",
        "Take {netdev} out of its [Match] section, or give the file a name that sorts after {ours}",
    ),
    "fabric.rail.unmanaged": Entry(
        "error",
        "node",
        "NetworkManager leaves {netdev} alone; nothing was touched",
        "`nmcli device show {netdev}` says why (GENERAL.REASON); take it out of `unmanaged-devices` "
        "(`grep -r unmanaged /etc/NetworkManager /run/NetworkManager /run/udev/rules.d`) and out of netplan "
        "files that give it to networkd",
    ),
    "fabric.rail.not_applied": Entry(
        "error",
        "node",
        "{netdev} did not take its configuration: {subject} is {found}, wanted {wanted}",
        "Read `networkctl status {netdev}` or `nmcli device show {netdev}`, and "
        "`journalctl -b -u systemd-networkd -u NetworkManager`; the change was undone",
    ),
    "fabric.peer.one_of_several": Entry(
        "error",
        "group",
        "{peer} does not answer on {netdev}, which must reach {peers}",
        "Run `ping -c 3 -I {netdev} {peer}` on this node. More than two nodes need a switch between them: in a ring "
        "or mesh of cables no rail reaches every peer, NCCL must know of it, and this collection does not set that up",
        source="eugr/spark-vllm-docker#252",
    ),
    "fabric.peer.path_mtu": Entry(
        "error",
        "group",
        "{peer} answers on {netdev}, but not to unfragmented packets of {mtu} bytes",
        "Compare the MTU of both ends (`ip link show {netdev}`) and of a switch between them: "
        "`ping -M do -s {payload} -I {netdev} {peer}` must pass both ways",
        source="field reports of two-Spark owners",
    ),
}
