# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes show of their rails: which functions are some, why others are not, which addresses work already.

A node is what tandem.spark.node_info saw of a host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network
from itertools import combinations

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding

Addresses = dict[tuple[str, int], str]  # (host, number of the rail) -> address with prefix


def links(node: Mapping) -> dict[str, Mapping]:
    return {link["name"]: link for link in node["network"]["links"]}


def management(node: Mapping) -> dict[str, list[str]]:
    return {entry["name"]: entry["reasons"] for entry in node["network"]["management"]}


def functions(node: Mapping) -> dict[str, str | None]:
    """netdev of every RDMA port, in PCI order -> why it is no rail; None where it is one.

    PCI order, not name order: the first function of a cage is rail 0 on every box, whatever the names are.
    """
    ports = sorted(
        (
            (device["pci"] or "~", port["netdev"], port)
            for device in node["ibv"]["devices"]
            for port in device["ports"]
            if port["netdev"]
        ),
        key=lambda each: each[:2],
    )
    able = {netdev: _unable(node, port) for _pci, netdev, port in ports}
    rates = {netdev: port.get("rate_gbps") for _pci, netdev, port in ports if not able[netdev]}
    best = max((rate for rate in rates.values() if rate), default=0)
    return {
        netdev: why
        or (
            f"runs at {rates[netdev]:g} Gb/s where another one runs at {best:g} Gb/s"
            if rates[netdev] and rates[netdev] < best
            else None
        )
        for netdev, why in able.items()
    }


def _unable(node: Mapping, port: Mapping) -> str | None:
    """Why this port alone, whatever the others are, carries no rail. What is unknown is no reason."""
    netdev = port["netdev"]
    link = links(node).get(netdev, {})
    if port["link_layer"] != "Ethernet":
        return f"is of link layer {port['link_layer'] or 'unknown'}"
    if netdev in management(node):
        return f"is a management interface ({', '.join(management(node)[netdev])})"
    if not link.get("carrier"):
        # Switched off, nothing can be said of its cable.
        return "is switched off" if link.get("up") is False else "has no carrier"
    if link.get("virtual_function"):
        return "is a virtual function of another one"
    if port.get("state") not in (None, "ACTIVE"):
        return f"has its RDMA port in state {port['state']}"
    return None


def cabled(node: Mapping) -> list[str]:
    """The functions that are rails, in PCI order."""
    return [netdev for netdev, why in functions(node).items() if why is None]


def in_force(node: Mapping) -> list[Mapping]:
    """The rails of the plan that the node has now; none on a machine that was never planned, or not by us."""
    try:
        rails = node["plan"]["fabric"]["rails"]
        return [rail for rail in rails if rail["netdev"] in links(node)]
    except (KeyError, TypeError):
        return []


def found(node: Mapping) -> list[str]:
    """The rails of a node that nobody named: those with a cable, unless fewer have one than the plan in force needs.

    A pulled cable must not renumber the rails that are left; a cable in another cage makes other rails, as many.
    """
    now, before = cabled(node), [rail["netdev"] for rail in in_force(node)]
    return before if len(now) < len(before) else now


def left_out(host: str, node: Mapping, rails: Sequence[str]) -> Iterator[Finding]:
    for netdev, why in functions(node).items():
        if why and netdev not in rails:
            yield finding("plan.rail.left_out", [host], netdev=netdev, why=why)


# Addresses that the pair has already


def taken(
    nodes: Mapping[str, Mapping | None], rails: Mapping[str, Sequence[str]], ours: IPv4Network | None
) -> tuple[Addresses, list[Finding]]:
    """The addresses that the rails keep, since all ranks have one in the same subnet, and what to say of it.

    rails: the interfaces of each host in order; ours: the supernet, whose addresses this collection planned. Once
    taken they stay so by the plan in force, whatever happens to the interface.
    """
    count = max((len(netdevs) for netdevs in rails.values()), default=0)
    networks: dict[int, IPv4Network] = {}
    addresses: Addresses = {}
    for index in range(count):
        of_rail = _kept(nodes, rails, index) or _working(nodes, rails, index, ours)
        if of_rail:
            networks[index] = next(iter(of_rail.values())).network
            addresses.update({(host, index): str(address) for host, address in of_rail.items()})
    notes, twins = [], set()
    for (first, one), (second, other) in combinations(networks.items(), 2):
        if one.overlaps(other):
            twins |= {first, second}
            notes.append(finding("plan.rail.twins", first=first, second=second, subnet=one))
    for index in sorted(set(networks) - twins):
        shown = ", ".join(text for (_host, rail), text in addresses.items() if rail == index)
        notes.append(finding("plan.rail.taken", index=index, addresses=shown))
    return {key: text for key, text in addresses.items() if key[1] not in twins}, notes


def _netdev(rails: Mapping[str, Sequence[str]], host: str, index: int) -> str | None:
    return rails[host][index] if index < len(rails[host]) else None


def _kept(nodes: Mapping, rails: Mapping, index: int) -> dict[str, IPv4Interface]:
    """What an earlier run took, also of ranks that this run does not look at: their peers know it."""
    kept: dict[str, IPv4Interface] = {}
    for host, node in nodes.items():
        for rail in in_force(node) if node else []:
            if rail["netdev"] == _netdev(rails, host, index) and rail.get("taken"):
                try:
                    kept |= _shared(host, node["plan"]["hosts"], rail)
                except (KeyError, TypeError, ValueError):
                    continue  # a plan that somebody wrote by hand
    return {host: address for host, address in kept.items() if host in nodes}


def _shared(host: str, hosts: Sequence[str], rail: Mapping) -> dict[str, IPv4Interface]:
    """The addresses of all ranks on a rail, by the plan of one of them."""
    own = IPv4Interface(rail["address"])
    others = zip((each for each in hosts if each != host), rail["peers"], strict=False)
    return {
        host: own,
        **{other: IPv4Interface(f"{peer}/{own.network.prefixlen}") for other, peer in others},
    }


def _working(
    nodes: Mapping, rails: Mapping, index: int, ours: IPv4Network | None
) -> dict[str, IPv4Interface]:
    """An address for each host, all in one subnet; empty where the rail has no such addresses, or has ours."""
    candidates = {}
    for host, node in nodes.items():
        netdev = _netdev(rails, host, index)
        if not node or netdev not in links(node) or netdev in [rail["netdev"] for rail in in_force(node)]:
            return {}
        candidates[host] = [
            address
            for address in _hosts_addresses(links(node)[netdev])
            if not (ours and address.network.overlaps(ours)) and not _elsewhere(node, rails[host], address)
        ]
    for network in dict.fromkeys(address.network for each in candidates.values() for address in each):
        chosen = {
            host: next((address for address in each if address.network == network), None)
            for host, each in candidates.items()
        }
        if (
            None not in chosen.values()
            and len({address.ip for address in chosen.values()}) == len(chosen) > 1
        ):
            return chosen
    return {}


def _hosts_addresses(link: Mapping) -> list[IPv4Interface]:
    found = [IPv4Interface(text) for text in link["addresses"] if ":" not in text]
    return [address for address in found if address.network.prefixlen <= 30]


def _elsewhere(node: Mapping, rails: Sequence[str], address: IPv4Interface) -> bool:
    """Would packets for this subnet leave through another interface of the node?"""
    return any(
        IPv4Interface(text).network.overlaps(address.network)
        for name, link in links(node).items()
        if name not in rails and name != "lo"
        for text in link["addresses"]
        if ":" not in text
    )
