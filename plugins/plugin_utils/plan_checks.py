# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a group cannot be as the inventory asks: ranks, machines, cables, addresses, ports (controller only)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_network
from itertools import combinations

from ansible_collections.tandem.spark.plugins.module_utils import api_key
from ansible_collections.tandem.spark.plugins.module_utils.containers import stays
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding
from ansible_collections.tandem.spark.plugins.module_utils.gpu_users import Orphan, gpu_findings
from ansible_collections.tandem.spark.plugins.module_utils.memory_plan import MemoryPlanError, Wish
from ansible_collections.tandem.spark.plugins.module_utils.memory_plan import plan as plan_memory
from ansible_collections.tandem.spark.plugins.plugin_utils import rails_found
from ansible_collections.tandem.spark.plugins.plugin_utils.group import GroupPlan, Rank
from ansible_collections.tandem.spark.plugins.plugin_utils.rails_planned import overlap

try:
    from netaddr import IPNetwork, cidr_merge
except ImportError:
    pass  # plan.py says so before anything of this is called

FREE_SUPERNETS = ("192.168.177.0/24", "172.31.177.0/24", "10.177.177.0/24")
# What listens on a port, and the variable that moves it.
PORTS = {
    "tandem_api_port": "the API",
    "tandem_master_port": "the ranks' rendezvous",
    "tandem_guard_port": "the guards",
    "tandem_guard_http_port": "the guard's page",
}


def check(group: str, ranks: list[Rank], plan: GroupPlan, profile: Mapping) -> Iterator[Finding]:
    """Everything that is wrong: every check runs, whatever another one found."""
    yield from _check_ranks(group, ranks, profile)
    yield from _check_machines(ranks, profile)
    yield from _check_cables(ranks, plan)
    yield from _check_interfaces(ranks, plan)
    yield from _check_addresses(ranks, plan)
    yield from _check_subnets(ranks, plan)
    yield from _check_ports(ranks)
    yield from _check_access(ranks[0])
    yield from _check_gpus(ranks, profile)
    yield from _check_licence(ranks[0], profile)
    yield from _check_memory(ranks, profile)


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


def _free_supernet(networks: list[IPNetwork]) -> str:
    free = (each for each in FREE_SUPERNETS if not any(overlap(IPNetwork(each), taken) for taken in networks))
    return next(free, "one of your own")


def _check_subnets(ranks: list[Rank], plan: GroupPlan) -> Iterator[Finding]:
    for (first, one), (second, other) in combinations(enumerate(plan.subnets), 2):
        if overlap(one, other):
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
                if overlap(subnet, network):
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
        if python != runtime.get("python", python):
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
    """The head listens on all of its ports, the others have the guard's page alone."""
    head = ranks[0]
    same: dict[int, list[str]] = {}
    for variable in PORTS:
        same.setdefault(head.variables[variable], []).append(variable)
    for port, variables in same.items():
        if len(variables) > 1:
            uses, names = " and to ".join(map(PORTS.get, variables)), " and ".join(variables)
            yield finding("plan.port.same", [head.host], port=port, uses=uses, variables=names)
    for rank in ranks:
        yield from _taken_ports(rank, PORTS if rank is head else ["tandem_guard_http_port"])


def _taken_ports(rank: Rank, variables: Iterable[str]) -> Iterator[Finding]:
    wanted = {rank.variables[variable]: (PORTS[variable], variable) for variable in variables}
    for listener in rank.node["listeners"] if rank.node else []:
        if (
            listener["port"] in wanted
            and listener["protocol"].startswith("tcp")
            and not _ours(listener["unit"])
        ):
            use, variable = wanted[listener["port"]]
            if container := listener.get("container"):
                values = {name: container[name] for name in ("image", "program")}
                values |= {"container": container["name"], "again": stays(container)}
                yield finding(
                    "container.foreign.port",
                    [rank.host],
                    port=listener["port"],
                    use=use,
                    variable=variable,
                    **values,
                )
                continue
            yield finding(
                "plan.port.taken",
                [rank.host],
                port=listener["port"],
                use=use,
                owner=_owner(listener),
                unit=listener["unit"] or "UNIT",
                pid=listener["pid"] or "PID",
                variable=variable,
            )


def _check_access(head: Rank) -> Iterator[Finding]:
    for name in ("tandem_access_api_from", "tandem_access_guard_from", "tandem_access_rails_from"):
        for value in head.variables.get(name) or []:
            try:
                ip_network(value, strict=False)
            except ValueError as why:
                yield finding("plan.access.network", name=name, value=value, why=why)
    key = head.variables.get("tandem_api_key")
    if key and not api_key.FORM.fullmatch(key):
        yield finding("plan.access.key")


def _check_gpus(ranks: list[Rank], profile: Mapping) -> Iterator[Finding]:
    for rank in ranks:
        if rank.node and profile["accelerator"] != "none":
            gpu = rank.node["gpu"]
            left_over = [Orphan(**each) for each in gpu.get("orphans") or ()]
            yield from gpu_findings(gpu["processes"], left_over, [rank.host])


def _check_licence(head: Rank, profile: Mapping) -> Iterator[Finding]:
    """Whoever pulls an image accepts its licence; where the licence is not told, the image itself is named."""
    runtime = profile["runtime"]
    image = runtime.get("image") if runtime.get("kind") == "container" else None
    if not image:
        return
    accepted = head.variables.get("tandem_accept_licenses") or []
    if image["licence"] in accepted or image["name"] in accepted:
        return
    told = image["licence"] if "not told" not in image["licence"] else image["name"]
    yield finding("container.image.licence", name=image["name"], licence=image["licence"], accepted=told)


def _check_memory(ranks: list[Rank], profile: Mapping) -> Iterator[Finding]:
    """Whether the engine fits what is available now. Where it runs already, that memory is its own."""
    engine = profile.get("engine") or {}
    flags, weights = engine.get("flags") or {}, (engine.get("expect") or {}).get("model_gib")
    share, cache = flags.get("gpu-memory-utilization"), flags.get("kv-cache-memory-bytes")
    if profile["accelerator"] == "none" or weights is None or (share is None and cache is None):
        return
    for rank in ranks:
        memory = (rank.node or {}).get("memory") or {"total_gib": None}
        if None in memory.values() or _runs(rank.node):
            continue
        try:
            planned = plan_memory(
                Wish(
                    memory["total_gib"],
                    memory["available_gib"],
                    weights,
                    share,
                    cache,
                    flags.get("max-model-len"),
                )
            )
        except MemoryPlanError:
            continue  # the engine's own parser says what is wrong with its flags
        yield from (replace(each, hosts=(rank.host,)) for each in planned.findings if each.severity != "info")


def _runs(node: Mapping) -> bool:
    units = (node.get("engine") or {}).get("units") or {}
    return any(unit["active"] not in ("inactive", "failed", None) for unit in units.values())
