#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines to rehearse on: systemd nodes in network namespaces, with a management link and two rails.

Needs root on Debian or Ubuntu. LAB=NAME keeps labs apart (default tandem); LAB_DIR is where they and the
cached images live (default /var/lib/tandem-lab).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable

import access
import cable
import host
import image
import models
import node as nodes
from settings import IMAGES, MAX_NODES, NETWORKS, RAILS, Lab, LabError
from system import lock, namespace_exists, remove_tree, replace_file, run, within

CABLE_STATES = {
    "up": {"plugged": True},
    "down": {"plugged": False},
    "pass": {"passes": True},
    "drop": {"passes": False},
}


def prepare(lab: Lab, arguments: argparse.Namespace) -> None:
    host.prepare(lab)


def check(lab: Lab, arguments: argparse.Namespace) -> None:
    host.check(lab)


def up(lab: Lab, arguments: argparse.Namespace) -> None:
    if lab.ready_file.exists() and namespace_exists(lab.client):
        found = {"image": IMAGES[0], **lab.description()}  # an older lab does not tell
        wanted = {"nodes": arguments.nodes, "network": arguments.network, "image": arguments.image}
        for what, value in wanted.items():
            if found.get(what) != value:
                raise LabError(
                    f"{what} of lab {lab.name}: {found.get(what)}, wanted {value}: 'lab.py down' first"
                )
    else:
        host.check(lab, host.NODES if arguments.image == IMAGES[0] else host.DOCKER_NODES)
        down(lab, arguments)
        make(lab, arguments.nodes, arguments.network, arguments.image)
    for node in lab.nodes():
        nodes.power_on(node)
    for node in lab.nodes():
        nodes.wait_for_ssh(node)
    lab.ready_file.touch()
    for path in access.write_files(lab):
        print(path)


def make(lab: Lab, count: int, network: str, image_name: str) -> None:
    """Everything but power."""
    layers = [str(models.build(lab)), str(image.build(lab, image_name))]
    lab.directory.mkdir(parents=True)
    description = {"nodes": count, "network": network, "image": image_name, "layers": layers}
    replace_file(lab.description_file, json.dumps(description) + "\n")
    lab.cgroups.mkdir()
    run(["mount", "-t", "cgroup2", "cgroup2", lab.cgroups])
    cable.lay(lab)
    access.make_keys(lab)
    for node in lab.nodes():
        nodes.create(node, network)


def down(lab: Lab, arguments: argparse.Namespace) -> None:
    """Whatever is there of the lab, also after an interruption: nothing here relies on what came before."""
    for node in lab.nodes(MAX_NODES):
        nodes.power_off(node)
    cable.remove(lab)
    remove_tree(lab.directory)


def purge(lab: Lab, arguments: argparse.Namespace) -> None:
    down(lab, arguments)
    for cache in ("images", "models"):
        remove_tree(lab.home / cache)


def status(lab: Lab, arguments: argparse.Namespace) -> None:
    ports = cable.read_ports(lab)
    for node in lab.nodes():
        print(f"{node.name} {node.address} {'on' if nodes.is_on(node) else 'off'}")
        for rail in RAILS:
            port = ports.get(cable.port_name(node, rail), cable.Port())
            plug = "plugged in" if port.plugged else "pulled"
            print(f"  {rail}: {plug}, {f'passes {port.mtu} bytes' if port.passes else 'drops everything'}")


def power_off(lab: Lab, arguments: argparse.Namespace) -> None:
    nodes.power_off(lab.node(arguments.node))


def power_on(lab: Lab, arguments: argparse.Namespace) -> None:
    node = lab.node(arguments.node)
    nodes.power_on(node)
    nodes.wait_for_ssh(node)


def reboot(lab: Lab, arguments: argparse.Namespace) -> None:
    nodes.reboot(lab.node(arguments.node))


def change_cable(lab: Lab, arguments: argparse.Namespace) -> None:
    state, *rest = arguments.state
    if state in CABLE_STATES and not rest:
        what = CABLE_STATES[state]
    elif state == "mtu" and len(rest) == 1 and rest[0].isdigit():
        what = {"mtu": int(rest[0])}
    else:
        raise LabError(
            f"cable: found {' '.join(arguments.state)!r}, wanted {', '.join(CABLE_STATES)} or mtu BYTES"
        )
    cable.change(lab.node(arguments.node), arguments.rail, **what)


def execute(lab: Lab, arguments: argparse.Namespace) -> int:
    return nodes.execute(lab.node(arguments.node), words(arguments)).returncode


def client(lab: Lab, arguments: argparse.Namespace) -> int:
    return subprocess.run(within(lab.client, *words(arguments))).returncode


def words(arguments: argparse.Namespace) -> list[str]:
    found = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not found:
        raise LabError(f"{arguments.command}: no command found, wanted '-- COMMAND ...'")
    return found


# Commands that change a lab wait for one another; the others may run at any time.
CHANGES = (up, down, purge, power_on, power_off, reboot, change_cable)


def node_count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r}, wanted 1 to {MAX_NODES} (LAB_NODES or --nodes)")
    return int(text)


def parse(command_line: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, action: Callable, text: str, node: bool = False) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(action=action)
        if node:
            added.add_argument("node", metavar="NODE", help="spark-a, spark-b, ... or just its letter")
        return added

    command("prepare", prepare, "install what this machine lacks, then check it")
    command("check", check, "say what this machine lacks")
    making = command(
        "up", up, "make the nodes, or start those that are off; prints where inventory and ssh_config are"
    )
    making.add_argument(
        "--nodes",
        type=node_count,
        default=os.environ.get("LAB_NODES", "2"),  # a text, which is checked as one from the command line is
        metavar="COUNT",
        help="how many, all ranks of one group; default $LAB_NODES or %(default)s",
    )
    making.add_argument(
        "--network",
        default=os.environ.get("LAB_NETWORK", NETWORKS[0]),
        choices=NETWORKS,
        help="who writes the network of the nodes; default $LAB_NETWORK or %(default)s",
    )
    making.add_argument(
        "--image",
        default=os.environ.get("LAB_IMAGE", IMAGES[0]),
        choices=IMAGES,
        help="what the nodes have installed; default $LAB_IMAGE or %(default)s",
    )
    command("down", down, "remove the nodes and all that belongs to them")
    command("purge", purge, "down, and remove the cached images and models")
    command("status", status, "show the nodes and their rails")
    command("on", power_on, "switch a node on", node=True)
    command("off", power_off, "pull a node's plug", node=True)
    command("reboot", reboot, "reboot a node and wait until it is back", node=True)
    wire = command(
        "cable",
        change_cable,
        "up, down (no carrier), drop (all is lost, the carrier stays), pass,"
        " mtu BYTES (what is larger is lost)",
        node=True,
    )
    wire.add_argument("rail", metavar="RAIL", choices=RAILS, help=" or ".join(RAILS))
    wire.add_argument("state", metavar="STATE", nargs="+")
    inside = command("exec", execute, "run a command in a node; needs no network", node=True)
    beside = command("client", client, "run a command at the controller's place in the management network")
    for program in (inside, beside):
        program.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    return parser.parse_args(command_line)


def main(command_line: list[str]) -> int:
    arguments = parse(command_line)
    lab = Lab.from_environment()
    if arguments.action in CHANGES:
        host.require_root()
        with lock(lab.home / "lock"):
            arguments.action(lab, arguments)
        return 0
    return arguments.action(lab, arguments) or 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as problem:
        sys.exit(f"lab: {problem}")
    except KeyboardInterrupt:
        sys.exit("lab: interrupted; the next 'up' or 'down' cleans up")
