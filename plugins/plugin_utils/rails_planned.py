# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subnets and addresses for the rails of a group (controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from itertools import chain

from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.plugin_utils import rails_found
from ansible_collections.tandem.spark.plugins.plugin_utils.group import GroupPlan, Rail, Rank

try:
    from netaddr import AddrFormatError, IPNetwork, IPSet
except ImportError:
    pass  # plan.py says so before anything of this is called

# Eight addresses a rail: enough for the six ranks that a profile could ask for, and never a neighbour's address.
RAIL_PREFIX = 29
# This network, loopback, multicast and what is reserved: no interface can have such an address.
NO_HOSTS = ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")


def _hca_by_netdev(node: Mapping) -> dict[str, str]:
    return {
        port["netdev"]: device["name"] if len(device["ports"]) == 1 else f"{device['name']}:{port['port']}"
        for device in node["ibv"]["devices"]
        for port in device["ports"]
        if port["netdev"]
    }


def _wanted_rails(rank: Rank) -> list[Mapping]:
    named = rank.variables.get("tandem_fabric_rails") or []
    return named or [{"netdev": name} for name in (rails_found.found(rank.node) if rank.node else [])]


def _parse(address: str) -> IPNetwork:
    """An address with its prefix; ValueError says what is wrong."""
    try:
        network = IPNetwork(address)
    except (AddrFormatError, ValueError, TypeError):
        raise ValueError("it is not an IPv4 address with a prefix") from None
    if network.version != 4 or "/" not in str(address):
        raise ValueError("it is not an IPv4 address with a prefix")
    if network.prefixlen > 30:
        raise ValueError("its subnet has no room for a peer, wanted is /30 or wider")
    if network.ip in (network.network, network.broadcast):
        raise ValueError("it names the network or its broadcast address, not a host")
    _holds_hosts(network)
    return network


def overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return one in other or other in one


def _holds_hosts(network: IPNetwork) -> None:
    for part in NO_HOSTS:
        if overlap(network, IPNetwork(part)):
            raise ValueError(f"no interface can have an address of {part}")


def _given_addresses(ranks: list[Rank], plan: GroupPlan) -> dict[tuple[str, int], IPNetwork]:
    given = {}
    for rank in ranks:
        for index, rail in enumerate(_wanted_rails(rank)):
            if not rail.get("address"):
                continue
            try:
                given[rank.host, index] = _parse(rail["address"])
            except ValueError as why:
                plan.findings.append(
                    finding(
                        "plan.rail.address",
                        [rank.host],
                        address=rail["address"],
                        netdev=rail["netdev"],
                        why=why,
                    )
                )
    return given


def _taken_addresses(
    ranks: list[Rank], given: Mapping[tuple[str, int], IPNetwork], plan: GroupPlan
) -> dict[tuple[str, int], IPNetwork]:
    """The addresses that the pair has already, of rails for which nobody gave one."""
    try:
        supernet = ip_network(ranks[0].variables["tandem_fabric_supernet"])
    except ValueError:
        return {}  # told about where the subnets are planned
    rails = {rank.host: [rail["netdev"] for rail in _wanted_rails(rank)] for rank in ranks}
    found, notes = rails_found.taken({rank.host: rank.node for rank in ranks}, rails, supernet)
    wished = {index for _host, index in given}
    plan.findings += notes
    return {key: IPNetwork(text) for key, text in found.items() if key[1] not in wished}


def _plan_subnets(ranks: list[Rank], count: int, given: Mapping, plan: GroupPlan) -> None:
    """One subnet a rail: the one of the addresses given for it, else the next free part of the supernet."""
    supernet = ranks[0].variables["tandem_fabric_supernet"]
    try:
        whole = IPNetwork(supernet)
        if whole.version != 4:
            raise ValueError("it is not an IPv4 network")
        _holds_hosts(whole)
    except (AddrFormatError, ValueError) as why:
        plan.findings.append(
            finding("plan.fabric.supernet", supernet=supernet, rails=count, ranks=len(ranks), why=why)
        )
        return
    free = IPSet([whole]) - IPSet([address.cidr for address in given.values()])
    wide = (network for network in free.iter_cidrs() if network.prefixlen <= RAIL_PREFIX)
    pool = chain.from_iterable(network.subnet(RAIL_PREFIX) for network in wide)
    for index in range(count):
        mine = [address for (_host, rail), address in given.items() if rail == index]
        if mine:
            plan.subnets.append(mine[0].cidr)
            continue
        subnet = next(pool, None)
        if subnet is None or subnet.size - 2 < len(ranks):
            plan.findings.append(
                finding(
                    "plan.fabric.supernet",
                    supernet=supernet,
                    rails=count,
                    ranks=len(ranks),
                    why="it is too small",
                )
            )
            return
        plan.subnets.append(subnet)


def _addresses(ranks: list[Rank], subnet: IPNetwork, given: Mapping[str, IPNetwork]) -> dict[str, IPNetwork]:
    """An address for each host: the one given, else the one of the rank's number, else any that is free.

    A host for which there is none is left out.
    """
    chosen = dict(given)
    taken = {address.ip for address in given.values()}
    waiting = [rank for rank in ranks if rank.host not in given]
    for rank in waiting:
        own = rank.number + 1
        if own < subnet.size - 1 and subnet[own] not in taken:
            taken.add(subnet[own])
            chosen[rank.host] = IPNetwork(f"{subnet[own]}/{subnet.prefixlen}")
    free = (address for address in subnet.iter_hosts() if address not in taken)
    for rank, address in zip([rank for rank in waiting if rank.host not in chosen], free, strict=False):
        chosen[rank.host] = IPNetwork(f"{address}/{subnet.prefixlen}")
    return chosen


def plan_rails(ranks: list[Rank], plan: GroupPlan) -> None:
    wanted = {rank.host: _wanted_rails(rank) for rank in ranks}
    seen = {rank.host: len(wanted[rank.host]) for rank in ranks if rank.node}
    for rank in ranks:
        if rank.node and not wanted[rank.host]:
            links = ", ".join(
                f"{n} ({'carrier' if link['carrier'] else 'no carrier'})"
                for n, link in sorted(rails_found.links(rank.node).items())
                if n != "lo"
            )
            plan.findings.append(finding("plan.rails.none", [rank.host], seen=links or "no interface at all"))
    if len(set(seen.values())) > 1:
        counts = ", ".join(f"{host} has {count}" for host, count in seen.items())
        plan.findings.append(finding("plan.rails.count", list(seen), found=counts))
    count = max(seen.values(), default=0)
    given = _given_addresses(ranks, plan)
    taken = _taken_addresses(ranks, given, plan)
    given = {**given, **taken}
    _plan_subnets(ranks, count, given, plan)
    addresses = [
        _addresses(ranks, subnet, {host: address for (host, rail), address in given.items() if rail == index})
        for index, subnet in enumerate(plan.subnets)
    ]
    for rank in ranks:
        hcas = _hca_by_netdev(rank.node) if rank.node else {}
        # A rank that this run does not look at still has its place in the plan: its peers must know its address.
        entries = wanted[rank.host] or ([{"netdev": ""}] * count if not rank.node else [])
        plan.rails[rank.host] = [
            Rail(
                index,
                entry["netdev"],
                hcas.get(entry["netdev"]),
                addresses[index].get(rank.host),
                (rank.host, index) in taken,
            )
            for index, entry in enumerate(entries)
            if index < len(plan.subnets)
        ]
