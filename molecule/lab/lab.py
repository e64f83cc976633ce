#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines to rehearse on: systemd nodes in network namespaces, with a management link and two rails.

Needs root on Debian or Ubuntu. LAB=NAME keeps labs apart (default tandem), LAB_DIR is where they and the
cached images live (default /var/lib/tandem-lab).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import access
import cable
import host
import image
import models
import node as nodes
from settings import MAX_NODES, RAILS, Lab, LabError, Node
from system import NAMESPACES, lock, namespace_exists, remove_tree, run


def up(lab: Lab, count: int) -> None:
    if lab.ready_file.exists() and namespace_exists(lab.client):
        if len(lab.nodes()) != count:
            raise LabError(f"lab {lab.name!r} has {len(lab.nodes())} nodes, wanted {count}: first 'lab.py down'")
    else:
        down(lab)
        make(lab, count)
    for node in lab.nodes():
        nodes.power_on(node)
    for node in lab.nodes():
        nodes.wait_for_ssh(node)
    lab.ready_file.touch()
    for path in access.write_files(lab):
        print(path)


def make(lab: Lab, count: int) -> None:
    layers = [models.build(lab), image.build(lab)]
    lab.directory.mkdir(parents=True)
    lab.description_file.write_text(json.dumps({"nodes": count, "layers": [str(layer) for layer in layers]}) + "\n")
    lab.cgroups.mkdir()
    run(["mount", "-t", "cgroup2", "cgroup2", lab.cgroups])
    cable.lay(lab)
    access.make_keys(lab)
    for node in lab.nodes():
        nodes.create(node)


def down(lab: Lab) -> None:
    """Also after a run that was interrupted anywhere: nothing here asks for what came before."""
    for node in lab.nodes(MAX_NODES):
        nodes.power_off(node)
    cable.remove(lab)
    remove_tree(lab.directory)


def status(lab: Lab) -> None:
    ports = cable.read_ports(lab)
    for node in lab.nodes():
        print(f"{node.name} {'on' if nodes.is_on(node) else 'off'} {node.address}")
        for rail in RAILS:
            print(f"  {rail}: {ports.get(cable.port_name(node, rail), cable.Port())}")


def purge(lab: Lab) -> None:
    for cache in ("images", "models"):
        remove_tree(lab.home / cache)


CABLE_STATES = {"up": {"plugged": True}, "down": {"plugged": False}, "pass": {"passes": True},
                "drop": {"passes": False}}


def turn(node: Node, rail: str, words: list[str]) -> None:
    """cable NODE RAIL up|down|drop|pass|mtu BYTES"""
    if len(words) == 1 and words[0] in CABLE_STATES:
        cable.change(node, rail, **CABLE_STATES[words[0]])
    elif len(words) == 2 and words[0] == "mtu" and words[1].isdigit():
        cable.change(node, rail, mtu=int(words[1]))
    else:
        raise LabError(f"cable: found {' '.join(words)!r}, wanted up, down, drop, pass or mtu BYTES")


def client(lab: Lab, command: list[str]) -> int:
    return subprocess.run(["nsenter", f"--net={NAMESPACES / lab.client}", *command]).returncode


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="\n".join(__doc__.splitlines()[2:]))
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("prepare", help="install what this machine lacks and check the rest")
    commands.add_parser("check", help="say what this machine lacks")
    commands.add_parser("up", help="make the nodes, or start those that are off; prints the paths of the inventory"
                        " and of the ssh configuration").add_argument("--nodes", type=int, default=2,
                                                                      choices=range(1, MAX_NODES + 1))
    commands.add_parser("down", help="remove the nodes and all that belongs to them")
    commands.add_parser("purge", help="down, and the cached images and models too")
    commands.add_parser("status", help="show the nodes and their rails")
    for name, text in (("on", "switch a node on"), ("off", "pull a node's plug"), ("reboot", "reboot a node")):
        commands.add_parser(name, help=text).add_argument("node")
    wire = commands.add_parser("cable", help="up, down (no carrier), drop (everything is lost, carrier stays), pass,"
                               " mtu BYTES (larger packets are lost)")
    wire.add_argument("node")
    wire.add_argument("rail", help=" or ".join(RAILS))
    wire.add_argument("state", nargs="+", metavar="STATE")
    inside = commands.add_parser("exec", help="run a command in a node, also when it has no network")
    inside.add_argument("node")
    for command in (inside, commands.add_parser("client", help="run a command at the controller's place in the"
                                                " management network")):
        command.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return top


def without_dashes(words: list[str]) -> list[str]:
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise LabError("no command: wanted '-- COMMAND ...'")
    return words


def main() -> int:
    arguments = parser().parse_args()
    lab, command = Lab.from_environment(), arguments.command
    if command == "prepare":
        host.prepare(lab)
        return 0
    if command == "exec":
        return nodes.execute(lab.node(arguments.node), without_dashes(arguments.words)).returncode
    if command == "client":
        return client(lab, without_dashes(arguments.words))
    if command == "status":
        status(lab)
        return 0
    host.check(lab)
    with lock(lab.home / "lock"):
        if command == "up":
            up(lab, arguments.nodes)
        elif command in ("down", "purge"):
            down(lab)
            if command == "purge":
                purge(lab)
        elif command != "check":
            node = lab.node(arguments.node)
            if command == "cable":
                turn(node, arguments.rail, arguments.state)
            elif command == "off":
                nodes.power_off(node)
            elif command == "on":
                nodes.power_on(node)
                nodes.wait_for_ssh(node)
            else:
                nodes.reboot(node)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as problem:
        sys.exit(f"lab: {problem}")
