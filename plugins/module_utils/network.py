# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links, routes and the way by which a node is managed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Any

from .kernel_files import Tree

PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class Link:
    """One network interface; None is unknown. speed_mbps is the link's own word, no measurement.

    virtual_function: one that SR-IOV made of another function. up: whether it is switched on, whatever its cable says.
    """

    name: str
    mac: str | None
    mtu: int | None
    carrier: bool | None
    operstate: str | None
    speed_mbps: int | None
    addresses: tuple[str, ...]
    pci: str | None
    virtual_function: bool
    up: bool | None = None


@dataclass(frozen=True)
class Management:
    """An interface that must not be touched, and why."""

    name: str
    reasons: tuple[str, ...]


def items(text: str) -> list[dict[str, Any]]:
    """The objects of one `ip -j` output; none where it is no such output."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return _objects(read)


def addresses_of(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of one interface in `ip -j address` that hold an address."""
    return [entry for entry in _objects(item.get("addr_info")) if _is_address(entry)]


def _objects(read: Any) -> list[dict[str, Any]]:
    return [item for item in read if isinstance(item, dict)] if isinstance(read, list) else []


def _is_address(entry: Mapping[str, Any]) -> bool:
    try:
        ip_interface(f"{entry['local']}/{entry['prefixlen']}")
    except (KeyError, ValueError):
        return False
    return True


def read_addresses(text: str) -> dict[str, tuple[IPv4Interface | IPv6Interface, ...]]:
    """`ip -j address` -> interface -> its addresses with prefix, in the kernel's order."""
    return {
        item["ifname"]: tuple(
            ip_interface(f"{entry['local']}/{entry['prefixlen']}") for entry in addresses_of(item)
        )
        for item in items(text)
        if isinstance(item.get("ifname"), str)
    }


def default_netdevs(*texts: str) -> list[str]:
    """Interfaces with a default route in any table, from `ip -j route show table all` of either family."""
    names: list[str] = []
    for item in (item for text in texts for item in items(text)):
        if item.get("dst") in ("default", "0.0.0.0/0", "::/0"):
            names += [hop["dev"] for hop in (item, *_objects(item.get("nexthops"))) if _has_device(hop)]
    return list(dict.fromkeys(names))


def route_netdev(text: str) -> str | None:
    """The interface in `ip -j route get ADDRESS`; None where there is no route or it stays in the machine."""
    return next((item["dev"] for item in items(text) if _has_device(item)), None)


def _has_device(route: Mapping[str, Any]) -> bool:
    return isinstance(route.get("dev"), str) and route["dev"] not in ("", "lo")


def pci_address(path: str) -> str | None:
    """PCI address of the function that a `device` link leads to; a virtual link has none."""
    name = os.path.basename(os.path.realpath(path))
    return name if PCI_ADDRESS.fullmatch(name) else None


def carrier(tree: Tree, netdev: str) -> bool | None:
    """An interface that is administratively down answers EINVAL for its carrier: that is no carrier."""
    operstate = tree.text("class/net", netdev, "operstate")
    if operstate in ("up", "down", "lowerlayerdown"):
        return operstate == "up"
    value = tree.number("class/net", netdev, "carrier")
    return None if value is None else value == 1


def mtu(tree: Tree, netdev: str) -> int | None:
    return tree.number("class/net", netdev, "mtu")


def _switched_on(tree: Tree, netdev: str) -> bool | None:
    """IFF_UP of the interface's flags."""
    match = re.fullmatch(r"0x([0-9a-f]{1,8})", tree.text("class/net", netdev, "flags") or "")
    return bool(int(match[1], 16) & 1) if match else None


def _speed_mbps(tree: Tree, netdev: str) -> int | None:
    """-1 or EINVAL without a link, absent for virtual ones: all unknown, and nothing to tell anybody."""
    speed = Tree(tree.root).number("class/net", netdev, "speed")
    return speed if speed and speed > 0 else None


def read_links(tree: Tree, addresses: Mapping[str, Iterable[IPv4Interface | IPv6Interface]]) -> list[Link]:
    """Every interface below the tree's class/net, by name."""
    return [
        Link(
            name=name,
            mac=tree.text("class/net", name, "address"),
            mtu=mtu(tree, name),
            carrier=carrier(tree, name),
            operstate=tree.text("class/net", name, "operstate"),
            speed_mbps=_speed_mbps(tree, name),
            addresses=tuple(map(str, addresses.get(name, ()))),
            pci=pci_address(tree.path("class/net", name, "device")),
            virtual_function=os.path.exists(tree.path("class/net", name, "device/physfn")),
            up=_switched_on(tree, name),
        )
        for name in tree.names("class/net")
        if os.path.isdir(tree.path("class/net", name))
    ]


def lower_links(tree: Tree) -> dict[str, list[str]]:
    """Interface -> those that carry it (of a bond, bridge or VLAN)."""
    return {
        name: [
            entry.removeprefix("lower_")
            for entry in tree.names("class/net", name)
            if entry.startswith("lower_")
        ]
        for name in tree.names("class/net")
        if os.path.isdir(tree.path("class/net", name))
    }


def management(
    defaults: Iterable[str],
    routes: Mapping[str, str | None],
    connected: Iterable[str],
    addresses: Mapping[str, Iterable[IPv4Interface | IPv6Interface]],
    lower: Mapping[str, Iterable[str]],
) -> list[Management]:
    """Every interface by which this node may be managed.

    defaults: interfaces with a default route. routes: what is at the other end -> the interface that leads
    there. connected: own addresses to which somebody is connected. An interface that carries one of them
    (port of a bond, bridge or VLAN) is one as well.
    """
    reasons: dict[str, list[str]] = {}
    for name in defaults:
        reasons.setdefault(name, []).append("default route")
    for end, name in routes.items():
        if name:
            reasons.setdefault(name, []).append(f"route to {end}")
    for address in dict.fromkeys(connected):
        for name, held in addresses.items():
            if name != "lo" and any(str(interface.ip) == address for interface in held):
                reasons.setdefault(name, []).append(f"address {address}, which Ansible connects to")
    todo = list(reasons)
    while todo:
        upper = todo.pop()
        for name in lower.get(upper, ()):
            if name not in reasons:
                reasons[name] = [f"carries {upper}"]
                todo.append(name)
    return [Management(name, tuple(why)) for name, why in sorted(reasons.items())]


def netplan_renderer(texts: Iterable[str]) -> str | None:
    """The renderer of the whole configuration: the outermost one of the last file that names one."""
    found = None
    for text in texts:
        named = re.findall(r"(?m)^([^\n#]*)\brenderer:\s*[\"']?(\w+)", text)
        if named:
            found = min(named, key=lambda pair: len(pair[0]))[1]
    return found


def backend(netplan: bool, renderer: str | None, networkd: bool, networkmanager: bool) -> str:
    """Who writes this node's network.

    netplan: it is installed. renderer: what its files name. The others: the services run. NetworkManager
    takes every interface that nobody forbids it, so it comes before networkd where both run.
    """
    if netplan:
        by_manager = renderer == "NetworkManager" or (renderer is None and networkmanager and not networkd)
        return "netplan-networkmanager" if by_manager else "netplan-networkd"
    if networkmanager:
        return "networkmanager"
    return "networkd" if networkd else "none"
