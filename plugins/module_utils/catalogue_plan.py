# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about the inventory and the plan made from it, before any machine is touched."""

from __future__ import annotations

from .catalogue import Entry

INVENTORY = "the plan check of site.yml"

ENTRIES = {
    "plan.variable.unknown": Entry(
        "error",
        "group",
        "No role knows the variable {name}",
        "Remove it from the inventory{hint}; `ansible-doc -t role tandem.spark.ROLE` lists what a role takes",
        source=INVENTORY,
    ),
    "plan.variable.wrong": Entry(
        "error",
        "group",
        "The variable {name} cannot be used: {why}",
        "Correct it in the inventory. `ansible-doc -t role tandem.spark.{role}` says what it takes",
        source=INVENTORY,
    ),
    "plan.variable.differs": Entry(
        "error",
        "group",
        "The variable {name} is not the same on all ranks: {found}",
        "Set it once for the whole group, in its group_vars",
        source=INVENTORY,
    ),
    "plan.profile.unknown": Entry(
        "error",
        "group",
        "There is no profile {name}",
        "Set tandem_profile to one of {known}",
        source=INVENTORY,
    ),
    "plan.profile.wrong": Entry(
        "error",
        "group",
        "The profile {name} cannot be used: {why}",
        "Correct tandem_profile_overrides, or the profile's file",
        source=INVENTORY,
    ),
    "plan.ranks.tensor_parallel": Entry(
        "error",
        "group",
        "The profile {profile} shards over {wanted} ranks, the group {group} has {found} hosts ({names})",
        "Put {wanted} hosts into the group, or choose a profile for {found}",
        source=INVENTORY,
    ),
    "plan.node.machine": Entry(
        "error",
        "node",
        "This machine is {found}, the profile {profile} has an engine for {wanted}",
        "Choose a profile for {found}: set tandem_profile",
        source=INVENTORY,
    ),
    "plan.node.python": Entry(
        "error",
        "node",
        "/usr/bin/python3 is {found}, the engine's wheels of profile {profile} are for Python {wanted}",
        "Choose a profile whose runtime.python is {found}, or use the operating system that carries {wanted}",
        source=INVENTORY,
    ),
    "plan.rails.none": Entry(
        "error",
        "node",
        "No rail was found: {seen}",
        "Plug the cable in and look at `ip -br link`, or name the rails: tandem_fabric_rails: [{{netdev: NAME}}]",
        source=INVENTORY,
    ),
    "plan.rails.count": Entry(
        "error",
        "group",
        "The ranks do not have the same number of rails: {found}",
        "Cable both ends alike, or name the rails of each host in tandem_fabric_rails",
        source=INVENTORY,
    ),
    "plan.rail.lost": Entry(
        "error",
        "node",
        "{netdev} was a rail of this group and {why} now",
        "Plug the cable in at both ends (`ethtool {netdev}` says more), or switch it on (`ip link set {netdev} up`). "
        "To go on with fewer rails, name those that are left in tandem_fabric_rails",
        source=INVENTORY,
    ),
    "plan.rail.left_out": Entry(
        "info",
        "node",
        "{netdev} is no rail: it {why}",
        "Nothing, if that is meant; the rails can be named in tandem_fabric_rails",
        source=INVENTORY,
    ),
    "plan.rail.taken": Entry(
        "info",
        "group",
        "Rail {index} keeps the addresses that the ranks have already: {addresses}",
        "Nothing, if they are meant; others can be given in tandem_fabric_rails",
        source=INVENTORY,
    ),
    "plan.rail.twins": Entry(
        "warning",
        "group",
        "Rails {first} and {second} have addresses of one subnet ({subnet}), so the kernel sends through one of "
        "them only; each gets a subnet of its own",
        "Take the old addresses out of the files that set them",
        source="eugr/spark-vllm-docker#270",
    ),
    "plan.rail.unknown_netdev": Entry(
        "error",
        "node",
        "tandem_fabric_rails names {netdev}, which this machine does not have",
        "Name one of {known}",
        source=INVENTORY,
    ),
    "plan.rail.management": Entry(
        "error",
        "node",
        "The rail {netdev} is a management interface ({reasons})",
        "Choose another interface in tandem_fabric_rails: the collection never reconfigures the way to a machine",
        source=INVENTORY,
    ),
    "plan.rail.address": Entry(
        "error",
        "node",
        "The address {address} of rail {netdev} is not usable: {why}",
        "Write it as ADDRESS/PREFIX, a host address of the rail's subnet",
        source=INVENTORY,
    ),
    "plan.rail.outside_subnet": Entry(
        "error",
        "node",
        "The address {address} of rail {index} ({netdev}) is outside the rail's subnet {subnet}",
        "Give all ranks addresses of one subnet on the same rail, or leave the addresses out to have them planned",
        source=INVENTORY,
    ),
    "plan.rail.address_twice": Entry(
        "error",
        "group",
        "The address {address} is given to more than one rank",
        "Give every rank an address of its own, or leave the addresses out to have them planned",
        source=INVENTORY,
    ),
    "plan.rail.named_twice": Entry(
        "error",
        "node",
        "tandem_fabric_rails names {netdev} more than once",
        "Name each interface once: one rail, one interface",
        source=INVENTORY,
    ),
    "plan.rail.full": Entry(
        "error",
        "node",
        "The subnet {subnet} of rail {index} has no address left for this host, wanted are {ranks}",
        "Give the rail's addresses a shorter prefix, or leave them out to have them planned",
        source=INVENTORY,
    ),
    "plan.rail.one_subnet": Entry(
        "error",
        "group",
        "Rails {first} and {second} share the subnet {subnet}: replies would leave by either",
        "Give each rail a subnet of its own",
        source="eugr/spark-vllm-docker#270",
    ),
    "plan.rail.subnet_taken": Entry(
        "error",
        "node",
        "The rail subnet {subnet} collides with {other} on {netdev}{management}",
        "Set tandem_fabric_supernet to a private network that no interface uses, such as {free}",
        source=INVENTORY,
    ),
    "plan.fabric.supernet": Entry(
        "error",
        "group",
        "tandem_fabric_supernet {supernet} does not hold {rails} subnets for {ranks} ranks: {why}",
        "Give a private network with a prefix of /24 or shorter",
        source=INVENTORY,
    ),
    "plan.port.same": Entry(
        "error",
        "node",
        "Port {port} is given to {uses}",
        "Set {variables} to different ports",
        source=INVENTORY,
    ),
    "plan.port.taken": Entry(
        "error",
        "node",
        "Port {port} ({use}) is taken by {owner}",
        "Stop it (`systemctl stop {unit}` or `kill {pid}`), or set {variable}",
        source=INVENTORY,
    ),
    "plan.gpu.taken": Entry(
        "error",
        "node",
        "The GPU is in use by {owner}",
        "Stop it before the engine starts (`systemctl stop {unit}` or `kill {pid}`): unified memory has no room for "
        "both",
        source=INVENTORY,
    ),
}
