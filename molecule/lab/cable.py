# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wires: two rails and a management link per node, and what can go wrong with a rail.

Every rail of a node is a veth whose far end is a bridge port in the fabric's namespace, so a node that
loses power takes only its own ends along. Two nodes share a direct cable: unplugged at either side, or
with either machine off, both lose the carrier. More nodes have a switch between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import settings
from settings import Lab, Node
from system import delete_namespace, ip, lock, namespace_exists, replace_file, run, within


@dataclass(frozen=True)
class Port:
    """Where a rail of a node enters the fabric."""

    plugged: bool = True
    passes: bool = True  # False: every packet is lost, and both ends believe the cable is fine
    mtu: int = settings.CABLE_MTU  # larger packets are lost without a word


def port_name(node: Node, rail: str) -> str:
    return f"{node.name}-{settings.RAILS.index(rail)}"


def bridge_name(rail: str) -> str:
    return f"rail{settings.RAILS.index(rail)}"


def lay(lab: Lab) -> None:
    """Namespaces and bridges, before there is a node."""
    for namespace in (lab.fabric, lab.client):
        run(["ip", "netns", "add", namespace])
    bridges = [bridge_name(rail) for rail in settings.RAILS]
    ip(
        lab.fabric,
        "link set lo up",
        *[f"link add name {name} mtu {settings.CABLE_MTU} type bridge" for name in bridges],
        *[f"link set {name} up" for name in bridges],
    )
    ip(
        lab.client,
        "link set lo up",
        "link add name management type bridge",
        f"addr add {lab.client_address}/24 dev management",
        "link set management up",
    )


def remove(lab: Lab) -> None:
    """ssh connections that Ansible keeps open end with the client's namespace."""
    for namespace in (lab.fabric, lab.client):
        delete_namespace(namespace)


def connect(node: Node) -> None:
    """A fresh set of links, as a machine has after its power came: MTU 1500, no address."""
    lab, inside = node.lab, node.namespace
    rails = [
        f"link add name {port_name(node, rail)} mtu {settings.CABLE_MTU} type veth peer name {rail}"
        f" mtu {settings.FACTORY_MTU} address {node.mac(number)} netns {inside}"
        for number, rail in enumerate(settings.RAILS, start=1)
    ]
    idle = [
        f"link add name {node.name}-idle{number} type veth peer name {name}"
        f" address {node.mac(0x10 + number)} netns {inside}"
        for number, name in enumerate(settings.IDLE_FUNCTIONS)
    ]
    with wiring(lab):
        run(["ip", "netns", "add", inside])
        ip(lab.fabric, *rails, *idle)
        ip(
            lab.client,
            f"link add name {node.name} type veth peer name {settings.MANAGEMENT}"
            f" address {node.mac(0)} netns {inside}",
            f"link set {node.name} master management up",
        )
        ip(
            inside,
            "link set lo up",
            *[f"link set {name} up" for name in (*settings.RAILS, *settings.IDLE_FUNCTIONS)],
        )


def cut_power(node: Node) -> None:
    """Nothing that the dying node still says may reach the others."""
    for namespace, names in links(node).items():
        for name in names:
            ip(namespace, f"link set {name} down")


def disconnect(node: Node) -> None:
    """Remove the node's links by name: orphaned sockets can keep a deleted namespace, and the links
    in it, alive for minutes."""
    with wiring(node.lab):
        for namespace, names in links(node).items():
            ip(namespace, *[f"link del {name}" for name in names])
        delete_namespace(node.namespace)


def links(node: Node) -> dict[str, list[str]]:
    """The outer ends of the node's links that exist: {namespace: [names]}."""
    found = {}
    for namespace in (node.lab.fabric, node.lab.client):
        if namespace_exists(namespace):
            names = [link["ifname"] for link in json.loads(run(["ip", "-n", namespace, "-j", "link"]))]
            found[namespace] = [
                name for name in names if name == node.name or name.startswith(f"{node.name}-")
            ]
    return found


def change(node: Node, rail: str, **what) -> None:
    """Pull, plug, narrow, block: see Port."""
    key = port_name(node, rail)
    with wiring(node.lab):
        ports = read_ports(node.lab)
        ports[key] = replace(ports.get(key, Port()), **what)
        stored = {name: asdict(port) for name, port in ports.items()}
        replace_file(node.lab.directory / "cables.json", json.dumps(stored, indent=1) + "\n")


def read_ports(lab: Lab) -> dict[str, Port]:
    """Ports that differ, or once differed, from those of a good cable."""
    try:
        stored = json.loads((lab.directory / "cables.json").read_text())
    except FileNotFoundError:
        return {}
    return {name: Port(**port) for name, port in stored.items()}


@contextmanager
def wiring(lab: Lab) -> Iterator[None]:
    """One change of the wires at a time; afterwards the links are what cables and powered nodes make them."""
    with lock(lab.directory / "cables.lock"):
        yield
        if lab.description_file.exists():
            stored = read_ports(lab)
            powered = [node for node in lab.nodes() if is_wired(node)]
            for rail in settings.RAILS:
                ports = {node: stored.get(port_name(node, rail), Port()) for node in lab.nodes()}
                settle(rail, powered, ports)


def is_wired(node: Node) -> bool:
    """Has all its links: whoever dies while it makes them leaves less."""
    rails = {port_name(node, rail) for rail in settings.RAILS}
    return namespace_exists(node.namespace) and rails <= set(links(node).get(node.lab.fabric, ()))


def settle(rail: str, powered: list[Node], ports: dict[Node, Port]) -> None:
    """Bring one rail's links to the state that follows from all the lab's ports of that rail."""
    direct = len(ports) == 2
    whole = len(powered) == 2 and all(port.plugged for port in ports.values())
    joined = "off" if any(port.mtu < settings.CABLE_MTU for port in ports.values()) else "on"
    for node in powered:
        port, name = ports[node], port_name(node, rail)
        carrier = whole if direct else port.plugged
        ip(
            node.lab.fabric,
            f"link set {name} mtu {port.mtu} {'up' if carrier else 'down'}",
            f"link set {name} master {bridge_name(rail)}" if port.passes else f"link set {name} nomaster",
        )
        # Segments joined for speed would pass a port that is too narrow for a single one of them.
        run(within(node.namespace, "ethtool", "-K", rail, "tso", joined, "gso", joined))
