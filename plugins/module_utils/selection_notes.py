# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator should know about a selection: who was left out, who is half used, who is not reached."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from . import nccl_rules
from .fabric_wish import LINK_LOCAL, Surroundings, Wish
from .findings import Finding, finding
from .ibv import Device, cage_of
from .rdma_rails import UpRail, hca_names

FULL_RDMA_MTU = 4096


def wanted_text(wish: Wish) -> str:
    """The wish in words: subnets, else the peers' networks."""
    if wish.subnets:
        return ", ".join(map(str, wish.subnets))
    if wish.peers:
        return "the subnet of " + ", ".join(map(str, wish.peers))
    return "any subnet"


def left_out(rails: Sequence[UpRail], wish: Wish) -> list[Finding]:
    notes = []
    for rail in rails:
        if rail.right:
            continue
        names = {"hca": rail.hca, "netdev": rail.netdev}
        if rail.named:
            notes.append(
                finding("fabric.hca.no_address", port=rail.port.port, wanted=wanted_text(wish), **names)
            )
        elif not rail.entries:
            notes.append(finding("fabric.hca.unaddressed", **names))
        elif all(gid.link_local for gid in rail.entries):
            address = rail.entries[0].ipv4
            notes.append(finding("fabric.address.link_local_unproven", address=address, **names))
        else:
            address = ", ".join(sorted({gid.ipv4 for gid in rail.entries}))
            notes.append(
                finding("fabric.hca.other_subnet", address=address, wanted=wanted_text(wish), **names)
            )
    return notes


def chosen(rails: Sequence[UpRail], around: Surroundings) -> list[Finding]:
    """MTU, link-local addresses, two rails in one subnet, rails of several cages."""
    notes = []
    networks: dict[object, list[UpRail]] = {}
    for rail in rails:
        names = {"hca": rail.hca, "netdev": rail.netdev}
        address = IPv4Address(rail.right[0].ipv4)
        if address in LINK_LOCAL:
            tried = "a peer answered there" if around.answers else "whether the peer answers there is unknown"
            notes.append(finding("fabric.address.link_local", evidence=tried, address=address, **names))
        networks.setdefault(around.network(rail.netdev, address), []).append(rail)
        mtu = rail.port.active_mtu
        if mtu is None:
            notes.append(finding("fabric.mtu.unknown", **names))
        elif mtu < FULL_RDMA_MTU:
            notes.append(
                finding("fabric.mtu.small", active_mtu=mtu, netdev_mtu=rail.port.netdev_mtu, **names)
            )
    for network, sharing in networks.items():
        if len(sharing) > 1:
            hcas = ", ".join(rail.hca for rail in sharing)
            notes.append(finding("fabric.rail.twins_same_subnet", hcas=hcas, subnet=network))
    cages = {rail.cage: rail.hca for rail in rails if rail.cage}
    if len(cages) > 1:
        named = ", ".join(f"{hca} in {cage[1]}" for cage, hca in cages.items() if cage)
        notes.append(finding("fabric.rail.mixed_cages", cages=named))
    return notes


def twins(rails: Sequence[UpRail], devices: Sequence[Device]) -> list[Finding]:
    """One function of a cage used while the other is Up as well is half of what the cable carries."""
    used: dict[object, list[str]] = {}
    for rail in rails:
        if rail.cage:
            used.setdefault(rail.cage, []).append(rail.hca)
    unused: dict[object, list[str]] = {}
    for device in devices:
        names = hca_names(device)
        for port in device.ports:
            cage = cage_of(device, port)
            if cage in used and port.state == "ACTIVE" and names[port.port] not in used[cage]:
                unused.setdefault(cage, []).append(names[port.port])
    return [
        finding("fabric.rail.half_port", used=",".join(used[cage]), unused=",".join(idle))
        for cage, idle in unused.items()
    ]


def coverage(rails: Sequence[UpRail], wish: Wish, around: Surroundings) -> list[Finding]:
    """Wanted subnets that no HCA serves, and peers that no chosen HCA can reach or that do not answer."""
    addresses = [(rail.netdev, IPv4Address(gid.ipv4)) for rail in rails for gid in rail.right]
    own = {IPv4Address(gid.ipv4) for rail in rails for gid in rail.entries}
    notes = [
        finding("fabric.subnet.no_hca", subnet=subnet)
        for subnet in wish.subnets
        if rails and not any(address in subnet for netdev, address in addresses)
    ]
    networks = [around.network(netdev, address) for netdev, address in addresses]
    for peer in wish.peers:
        if peer in own:
            continue
        if around.answers is not None and not around.answers.get(peer):
            tried = ", ".join(around.tried) or "any rail"
            notes.append(finding("fabric.peer.no_answer", peer=peer, netdevs=tried))
        elif rails and not any(peer in network for network in networks):
            notes.append(finding("fabric.peer.no_rail", peer=peer))
    return notes


def wanted_index(value: str, rails: Sequence[UpRail]) -> list[Finding]:
    """Judge an index that somebody wants to pin."""
    try:
        index = nccl_rules.parse_gid_index(value)
    except ValueError:
        return [finding("fabric.gid.index_invalid", value=repr(value))]
    wrong = [rail.hca for rail in rails if index not in [gid.index for gid in rail.right]]
    if index is None or not wrong:
        return []
    return [finding("fabric.gid.index_wrong", value=index, hcas=", ".join(wrong))]
