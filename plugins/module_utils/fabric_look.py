# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the RDMA side of one node: tables, and on a live node its addresses and the peers that answer."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from . import commands
from .fabric_wish import Surroundings, Wish
from .findings import Finding, finding, worst_first
from .ibv import Device, parse_devinfo, read_devices
from .network import read_addresses
from .selection import Selection, select

LIVE_SYSFS = "/sys"


@dataclass(frozen=True)
class FabricLook:
    devices: tuple[Device, ...]
    selection: Selection
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """The shape that ibv_info returns."""
        return {
            "devices": [device.as_dict() for device in self.devices],
            "selection": self.selection.as_dict(),
            "findings": [note.as_dict() for note in self.findings],
        }


def ping(netdev: str, peer: IPv4Address) -> list[str]:
    """One small echo request that leaves through this interface, whatever the routes say."""
    return ["ping", "-n", "-q", "-c", "2", "-i", "0.2", "-W", "1", "-I", netdev, str(peer)]


def look_around(netdevs: Iterable[str], peers: Iterable[IPv4Address]) -> Surroundings:
    """Read the live node's addresses, and try every peer on every named interface that has one.

    Without peers one command runs; with peers all pings run at the same time, about a second.
    """
    addresses = read_addresses(commands.ask(["ip", "-j", "-4", "addr"]).out)
    tried = tuple(netdev for netdev in netdevs if addresses.get(netdev))
    peers = tuple(peers)
    pairs = [(peer, netdev) for peer in peers for netdev in tried]
    if not pairs:
        return Surroundings(addresses)
    replies = commands.ask_all([ping(netdev, peer) for peer, netdev in pairs])
    if any(reply.rc is None for reply in replies):
        return Surroundings(addresses)  # no ping here: nothing is known about the peers
    answers: dict[IPv4Address, set[str]] = {peer: set() for peer in peers}
    for (peer, netdev), reply in zip(pairs, replies, strict=True):
        if reply.ok:
            answers[peer].add(netdev)
    return Surroundings(addresses, {peer: frozenset(found) for peer, found in answers.items()}, tried)


def is_live(sysfs_root: str) -> bool:
    return os.path.realpath(sysfs_root) == LIVE_SYSFS


def look(sysfs_root: str, wish: Wish) -> FabricLook:
    """Read the devices below sysfs_root and choose among them.

    Commands run for the live /sys alone; another root is a copy of some node, of which only files are known.
    """
    live = is_live(sysfs_root)
    verbs_mtus = parse_devinfo(commands.ask(["ibv_devinfo"]).out) if live else {}
    table = read_devices(sysfs_root, verbs_mtus)
    netdevs = [port.netdev for device in table.devices for port in device.ports if port.netdev]
    around = look_around(netdevs, wish.peers) if live and netdevs else Surroundings()
    selection, notes = select(table.devices, wish, around)
    if not table.devices:
        notes.append(finding("fabric.rdma.no_device", path=os.path.join(sysfs_root, "class/infiniband")))
    if table.unreadable:
        first = table.unreadable[0]
        notes.append(finding("fabric.sysfs.unreadable", count=len(table.unreadable), first=first))
    return FabricLook(table.devices, selection, tuple(worst_first(notes)))
