# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of one rank's fabric, made anew from the plan and the live machine at every start.

GID indices move while a machine is up, so nothing of them is kept in the plan or in a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface
from typing import Any

from . import commands, fabric_look, fabric_wish, nccl_rules, network
from .findings import Finding
from .ibv import Device, read_devices
from .kernel_files import Tree
from .selection import Selection, select

# What each node gets a value of its own for, or none: of no other node, and of nobody's image.
SOCKETS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES", "VLLM_HOST_IP")
OWN = ("TANDEM_NODE_RANK", "TANDEM_MASTER_ADDR", "TANDEM_MASTER_PORT")
PER_NODE = (*OWN, *SOCKETS, *sorted(nccl_rules.OF_EVERY_START))
IP_TIMEOUT_S = 30  # it takes a hundredth of one; an emulated machine beside others took more than five


class FabricEnvError(Exception):
    """Every reason why the rank must not start: found, wanted, what to do."""


@dataclass(frozen=True)
class PlannedRail:
    """One rail of this node; hca is None where the rail carries sockets only."""

    netdev: str
    hca: str | None
    address: IPv4Interface


@dataclass(frozen=True)
class Machine:
    """What is found here. addresses: of each interface; with_prefix: whether their prefixes are known."""

    tree: Tree
    devices: Sequence[Device]
    addresses: Mapping[str, tuple[IPv4Interface | IPv6Interface, ...]]
    with_prefix: bool


def look_at_machine(sysfs_root: str) -> Machine:
    """A copy of some node's sysfs has no list of addresses: there the GID tables tell them."""
    devices = read_devices(sysfs_root).devices
    if fabric_look.is_live(sysfs_root):
        shown = commands.ask(["ip", "-j", "-4", "addr"], timeout_s=IP_TIMEOUT_S)
        if not shown.ok:
            raise FabricEnvError(
                f"The addresses of this node are unknown: `ip -j -4 addr` gave no answer within {IP_TIMEOUT_S} s. "
                "Run it by hand: it needs iproute2, and a node that is not busy beyond measure."
            )
        return Machine(Tree(sysfs_root), devices, network.read_addresses(shown.out), True)
    found: dict[str, tuple[IPv4Interface, ...]] = {}
    for gid in (gid for device in devices for port in device.ports for gid in port.gids):
        if gid.ipv4 and gid.ndev and IPv4Interface(gid.ipv4) not in found.get(gid.ndev, ()):
            found[gid.ndev] = (*found.get(gid.ndev, ()), IPv4Interface(gid.ipv4))
    return Machine(Tree(sysfs_root), devices, found, False)


def planned_rails(plan: Mapping[str, Any]) -> list[PlannedRail]:
    return [
        PlannedRail(
            str(rail["netdev"]),
            str(rail["hca"]) if rail.get("hca") else None,
            IPv4Interface(rail["address"]),
        )
        for rail in plan["fabric"]["rails"]
    ]


def environment(plan: Mapping[str, Any], machine: Machine) -> tuple[dict[str, str], str, list[Finding]]:
    """The variables, one line on how the HCAs were chosen, and warnings. FabricEnvError says why not."""
    try:
        rails = planned_rails(plan)
        mtu = int(plan["fabric"]["mtu"])
        own = {
            "TANDEM_NODE_RANK": str(int(plan["rank"])),
            "TANDEM_MASTER_ADDR": str(IPv4Address(plan["master_addr"])),
            "TANDEM_MASTER_PORT": str(int(plan["master_port"])),
        }
        given = {
            name: str(value) for name, value in (plan.get("nccl") or {}).items() if value not in (None, "")
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FabricEnvError(
            f"The plan cannot be understood ({type(error).__name__}: {error}). Write it anew with site.yml."
        ) from error
    problems = [problem for rail in rails for problem in _rail_problems(rail, mtu, machine)]
    if problems:
        raise FabricEnvError("\n".join(problems))
    rdma, how, warnings = _rdma(rails, machine)
    return (
        {
            **{name: given[name] for name in given if name not in nccl_rules.OF_EVERY_START},
            **_sockets(rails),
            **rdma,
            **own,
        },
        how,
        warnings,
    )


def _rail_problems(rail: PlannedRail, mtu: int, machine: Machine) -> list[str]:
    netdev = rail.netdev
    if netdev not in machine.tree.names("class/net"):
        found = ", ".join(machine.tree.names("class/net")) or "none"
        return [
            f"The rail {netdev} does not exist; found: {found}. Run site.yml, which finds the rails again."
        ]
    carrier, found_mtu = network.carrier(machine.tree, netdev), network.mtu(machine.tree, netdev)
    problems = []
    if not carrier:
        state = "has no carrier" if carrier is False else "does not tell whether it has a carrier"
        problems.append(f"The rail {netdev} {state}; wanted: a link. Check the cable and the peer's port.")
    if found_mtu != mtu:
        problems.append(
            f"The rail {netdev} has MTU {found_mtu or 'unknown'}; wanted {mtu}. Run site.yml --tags fabric, "
            f"or `ip link set {netdev} mtu {mtu}` until then."
        )
    if not _has_address(rail, machine):
        shown = str if machine.with_prefix else (lambda address: str(address.ip))
        held = ", ".join(map(shown, machine.addresses.get(netdev, ()))) or "no IPv4 address"
        problems.append(f"The rail {netdev} has {held}; wanted {rail.address}. Run site.yml --tags fabric.")
    return problems


def _has_address(rail: PlannedRail, machine: Machine) -> bool:
    held = machine.addresses.get(rail.netdev, ())
    if machine.with_prefix:
        return rail.address in held
    return rail.address.ip in [address.ip for address in held]


def _sockets(rails: Sequence[PlannedRail]) -> dict[str, str]:
    """Rendezvous and small messages go over the first rail; NCCL reads a bare name as a prefix."""
    if not rails:
        return {}
    first = rails[0]
    return {
        "NCCL_SOCKET_IFNAME": f"={first.netdev}",
        "GLOO_SOCKET_IFNAME": first.netdev,
        "TP_SOCKET_IFNAME": first.netdev,
        "UCX_NET_DEVICES": first.netdev,
        "VLLM_HOST_IP": str(first.address.ip),
    }


def chosen(named: Sequence[PlannedRail], devices: Sequence[Device]) -> tuple[Selection, list[Finding]]:
    """The HCAs of rails that name one, each with the GID index of the rail's own address."""
    wish = fabric_wish.Wish(
        subnets=tuple(rail.address.network for rail in named),
        hcas=("=" + ",".join(str(rail.hca) for rail in named),),
    )
    return select(devices, wish, fabric_wish.Surroundings({rail.netdev: (rail.address,) for rail in named}))


def _rdma(rails: Sequence[PlannedRail], machine: Machine) -> tuple[dict[str, str], str, list[Finding]]:
    named = [rail for rail in rails if rail.hca]
    if not named:
        return {}, "no rail names an HCA: sockets only", []
    selection, notes = chosen(named, machine.devices)
    problems = [f"{note.summary}. {note.remedy}." for note in notes if note.severity == "error"]
    problems += _not_as_planned(named, selection)
    if problems:
        raise FabricEnvError("\n".join(problems))
    return (
        selection.env,
        f"{selection.strategy}: {selection.reason}",
        [n for n in notes if n.severity == "warning"],
    )


def _not_as_planned(named: Sequence[PlannedRail], selection: Selection) -> list[str]:
    found = dict(zip(selection.hcas, selection.netdevs, strict=True))
    return [
        f"{rail.hca} belongs to {found[rail.hca]}; the plan has it on {rail.netdev}. "
        "Run site.yml, which finds the rails again."
        for rail in named
        if rail.hca in found and found[rail.hca] != rail.netdev
    ]
