# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the nodes are and what the inventory asks to one plan for a group of ranks (controller only).

Every check runs, whatever another one found: an operator hears all problems at once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import chain, combinations

from ansible_collections.tandem.spark.plugins.module_utils import nccl_rules
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding
from ansible_collections.tandem.spark.plugins.plugin_utils import rails_found

try:
    from netaddr import AddrFormatError, IPNetwork, IPSet, cidr_merge
except ImportError as error:  # said by plan_group, to the operator
    NETADDR_PROBLEM: ImportError | None = error
else:
    NETADDR_PROBLEM = None

# Eight addresses a rail: enough for the six ranks that a profile could ask for, and never a neighbour's address.
RAIL_PREFIX = 29
FREE_SUPERNETS = ("192.168.177.0/24", "172.31.177.0/24", "10.177.177.0/24")
# This network, loopback, multicast and what is reserved: no interface can have such an address.
NO_HOSTS = ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")


class PlanError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Rail:
    """One rail of one rank. `address` is in CIDR form; None where the plan could not give one.

    taken: the pair had it already, and not from this collection.
    """

    index: int
    netdev: str
    hca: str | None
    address: IPNetwork | None
    taken: bool = False


@dataclass(frozen=True)
class Rank:
    """One host of the group; `node` is what node_info saw, None where this run did not look at it."""

    number: int
    host: str
    variables: Mapping
    node: Mapping | None


@dataclass
class GroupPlan:
    """The rails of each host and everything that is wrong."""

    rails: dict[str, list[Rail]] = field(default_factory=dict)
    subnets: list[IPNetwork] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


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


def _holds_hosts(network: IPNetwork) -> None:
    for part in NO_HOSTS:
        if _overlap(network, IPNetwork(part)):
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


def _plan_rails(ranks: list[Rank], plan: GroupPlan) -> None:
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


def _check_cables(ranks: list[Rank], plan: GroupPlan) -> Iterator[Finding]:
    for rank in ranks:
        if rank.node and not rank.variables.get("tandem_fabric_rails"):
            functions = rails_found.functions(rank.node)
            yield from rails_found.left_out(rank.host, rank.node, [r.netdev for r in plan.rails[rank.host]])
            for netdev in (rail.netdev for rail in plan.rails[rank.host]):
                if why := functions.get(netdev):
                    yield finding("plan.rail.lost", [rank.host], netdev=netdev, why=why)


def _check_interfaces(ranks: list[Rank], plan: GroupPlan) -> Iterator[Finding]:
    for rank in ranks:
        if not rank.node:
            continue
        known, management = set(rails_found.links(rank.node)) - {"lo"}, rails_found.management(rank.node)
        counts = Counter(rail.netdev for rail in plan.rails[rank.host])
        for netdev in (netdev for netdev, count in counts.items() if count > 1):
            yield finding("plan.rail.named_twice", [rank.host], netdev=netdev)
        for rail in plan.rails[rank.host]:
            if rail.netdev not in known:
                yield finding(
                    "plan.rail.unknown_netdev",
                    [rank.host],
                    netdev=rail.netdev,
                    known=", ".join(sorted(known)),
                )
            if rail.netdev in management:
                yield finding(
                    "plan.rail.management",
                    [rank.host],
                    netdev=rail.netdev,
                    reasons=", ".join(management[rail.netdev]),
                )


def _check_addresses(ranks: list[Rank], plan: GroupPlan) -> Iterator[Finding]:
    for rank in ranks:
        for rail in plan.rails[rank.host]:
            subnet = plan.subnets[rail.index]
            if rail.address is None:
                yield finding(
                    "plan.rail.full", [rank.host], index=rail.index, subnet=subnet, ranks=len(ranks)
                )
            elif rail.address.cidr != subnet:
                yield finding(
                    "plan.rail.outside_subnet",
                    [rank.host],
                    address=str(rail.address),
                    index=rail.index,
                    netdev=rail.netdev,
                    subnet=subnet,
                )
    owners = Counter(rail.address.ip for rails in plan.rails.values() for rail in rails if rail.address)
    for address in sorted(address for address, count in owners.items() if count > 1):
        hosts = [
            h
            for h, rails in plan.rails.items()
            for rail in rails
            if rail.address and rail.address.ip == address
        ]
        yield finding("plan.rail.address_twice", hosts, address=address)


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return one in other or other in one


def _free_supernet(networks: list[IPNetwork]) -> str:
    free = (
        each for each in FREE_SUPERNETS if not any(_overlap(IPNetwork(each), taken) for taken in networks)
    )
    return next(free, "one of your own")


def _check_subnets(ranks: list[Rank], plan: GroupPlan) -> Iterator[Finding]:
    for (first, one), (second, other) in combinations(enumerate(plan.subnets), 2):
        if _overlap(one, other):
            yield finding(
                "plan.rail.one_subnet", first=first, second=second, subnet=cidr_merge([one, other])[0]
            )
    for rank in ranks:
        if not rank.node:
            continue
        rails = {rail.netdev for rail in plan.rails[rank.host]}
        management = rails_found.management(rank.node)
        networks = [
            (name, IPNetwork(address).cidr)
            for name, link in rails_found.links(rank.node).items()
            if name != "lo" and (name not in rails or name in management)
            for address in link["addresses"]
            if ":" not in address
        ]
        for subnet in plan.subnets:
            for name, network in networks:
                if _overlap(subnet, network):
                    free = _free_supernet([each for _name, each in networks])
                    yield finding(
                        "plan.rail.subnet_taken",
                        [rank.host],
                        subnet=subnet,
                        other=network,
                        netdev=name,
                        free=free,
                        management=", a management interface" if name in management else "",
                    )


def _check_ranks(group: str, ranks: list[Rank], profile: Mapping) -> Iterator[Finding]:
    wanted = profile["tensor_parallel_size"]
    if wanted != len(ranks):
        hosts = [rank.host for rank in ranks]
        yield finding(
            "plan.ranks.tensor_parallel",
            hosts,
            profile=profile["name"],
            wanted=wanted,
            group=group,
            found=len(ranks),
            names=", ".join(hosts),
        )


def _check_machines(ranks: list[Rank], profile: Mapping) -> Iterator[Finding]:
    runtime = profile["runtime"]
    for rank in ranks:
        if not rank.node:
            continue
        python = ".".join(rank.node["python"]["version"].split(".")[:2])
        if rank.node["arch"] != runtime["machine"]:
            yield finding(
                "plan.node.machine",
                [rank.host],
                found=rank.node["arch"],
                profile=profile["name"],
                wanted=runtime["machine"],
            )
        if python != runtime["python"]:
            yield finding(
                "plan.node.python",
                [rank.host],
                found=python,
                profile=profile["name"],
                wanted=runtime["python"],
            )


def _owner(listener: Mapping) -> str:
    words = [listener["process"] or "an unknown process"]
    if listener["pid"]:
        words.append(f"pid {listener['pid']}")
    if listener["unit"]:
        words.append(f"unit {listener['unit']}")
    return ", ".join(words)


def _ours(unit: str | None) -> bool:
    return bool(unit) and unit.startswith("tandem-")


def _check_ports(ranks: list[Rank]) -> Iterator[Finding]:
    head = ranks[0]
    api, rendezvous = (head.variables[name] for name in ("tandem_api_port", "tandem_master_port"))
    if api == rendezvous:
        yield finding("plan.port.same", [head.host], port=api)
    uses = {api: ("the API", "tandem_api_port"), rendezvous: ("the ranks' rendezvous", "tandem_master_port")}
    for listener in head.node["listeners"] if head.node else []:
        if (
            listener["port"] in uses
            and listener["protocol"].startswith("tcp")
            and not _ours(listener["unit"])
        ):
            use, variable = uses[listener["port"]]
            yield finding(
                "plan.port.taken",
                [head.host],
                port=listener["port"],
                use=use,
                owner=_owner(listener),
                unit=listener["unit"] or "UNIT",
                pid=listener["pid"] or "PID",
                variable=variable,
            )


def _check_gpus(ranks: list[Rank], profile: Mapping) -> Iterator[Finding]:
    for rank in ranks:
        processes = rank.node["gpu"]["processes"] if rank.node and profile["accelerator"] != "none" else []
        for process in processes:
            if not _ours(process.get("unit")):
                owner = f"{process['name']}, pid {process['pid']}, {process['memory_mib']} MiB"
                yield finding("plan.gpu.taken", [rank.host], owner=owner)


def plan_group(group: str, ranks: list[Rank], profile: Mapping) -> GroupPlan:
    """The rails, subnets and addresses of a group, and every finding against it.

    `ranks` is in the order of the inventory group: the first is the head. `profile` is the merged profile.
    Raises PlanError where nothing can be planned at all.
    """
    if NETADDR_PROBLEM:
        raise PlanError(
            f"The controller's Python ({sys.executable}) has no netaddr: {NETADDR_PROBLEM}. "
            "Install it with `pip install --require-hashes -r requirements/runtime.txt`."
        )
    plan = GroupPlan()
    _plan_rails(ranks, plan)
    plan.findings += _check_ranks(group, ranks, profile)
    plan.findings += _check_machines(ranks, profile)
    plan.findings += _check_cables(ranks, plan)
    plan.findings += _check_interfaces(ranks, plan)
    plan.findings += _check_addresses(ranks, plan)
    plan.findings += _check_subnets(ranks, plan)
    plan.findings += _check_ports(ranks)
    plan.findings += _check_gpus(ranks, profile)
    return plan


def node_plan(group: str, ranks: list[Rank], rank: Rank, plan: GroupPlan, profile: Mapping) -> dict:
    """What one node must know to start its rank: the content of /etc/tandem/plan.json."""
    head = ranks[0]

    def peers(index: int) -> list[str]:
        return [
            str(rail.address.ip)
            for host, rails in plan.rails.items()
            for rail in rails
            if host != rank.host and rail.index == index and rail.address
        ]

    return {
        "group": group,
        "rank": rank.number,
        "ranks": len(ranks),
        "hosts": [each.host for each in ranks],
        "fabric": {
            "mtu": head.variables["tandem_fabric_mtu"],
            "rails": [
                {
                    "index": rail.index,
                    "netdev": rail.netdev,
                    "hca": rail.hca,
                    "taken": rail.taken,
                    "address": str(rail.address),
                    "subnet": str(plan.subnets[rail.index]),
                    "peers": peers(rail.index),
                }
                for rail in plan.rails[rank.host]
            ],
        },
        "master_addr": str(plan.rails[head.host][0].address.ip),
        "master_port": head.variables["tandem_master_port"],
        "api": {
            "host": head.variables["tandem_api_host"],
            "port": head.variables["tandem_api_port"],
            "model": profile["served_model_name"],
        },
        "warm_up": profile["warm_up"],
        "cache_max_gib": head.variables["tandem_cache_max_gib"],
        "nccl": nccl_rules.environment(profile["transport"], profile["nccl"].get("environment") or {}),
    }
