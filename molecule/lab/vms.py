#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two virtual machines with soft-RoCE: real RDMA devices and real GID tables, which the lab's nodes only pretend.

Needs root on Debian or Ubuntu; no KVM. LAB=NAME keeps labs apart (default tandem), LAB_DIR is where they live:
a name that lab.py uses at the same time must not be used here.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys

import access
import host
import vm
import vm_image
from lab import words
from settings import MANAGEMENT_NETWORK, RAILS, Lab, LabError
from system import delete_namespace, ip, lock, namespace_exists, remove_tree, replace_file, run

# RDMA carries something, however little: an emulated processor's figures are none. Everything has time. perftest hears
# of its messages by the hundred: of the usual size, a hundred take more than the usual two seconds on a busy machine.
INVENTORY = """# Written by molecule/lab/vms.py: edits are lost.
tandem:
  vars:
    ansible_timeout: 300
    tandem_fabric_revert_after_s: 1200
    tandem_fabric_peer_timeout_s: 120
    tandem_profile_overrides:
      transport: rdma
      link: {min_rail_gbps: 0.00001, min_total_gbps: 0.00001, max_latency_us: 10000000, join_timeout_s: 600,
             test_seconds: 6, test_bytes: 4096}
"""
COUNT = 2  # their rails are cables: each end has one peer
KIND = "virtual machines"


def prepare(lab: Lab, arguments: argparse.Namespace) -> None:
    host.prepare(lab, host.VMS)


def check(lab: Lab, arguments: argparse.Namespace) -> None:
    host.check(lab, host.VMS)


def up(lab: Lab, arguments: argparse.Namespace) -> None:
    if not (lab.ready_file.exists() and namespace_exists(lab.client)):
        host.check(lab, host.VMS)
        down(lab, arguments)
        make(lab)
    elif lab.description().get("kind") != KIND:
        raise LabError(f"lab {lab.name} is one of lab.py: take another name, or 'lab.py down' first")
    for node in lab.nodes():
        vm.power_on(node)
    for node in lab.nodes():
        vm.wait_for_ssh(node)
    lab.ready_file.touch()
    inventory, ssh_config = access.write_files(lab)
    (inventory.parent / "rdma.yml").write_text(INVENTORY)
    print(inventory, ssh_config, sep="\n")


def make(lab: Lab) -> None:
    """Everything but power."""
    layers = [str(vm_image.build(lab))]
    lab.directory.mkdir(parents=True)
    description = {"kind": KIND, "nodes": COUNT, "network": "networkd", "layers": layers}
    replace_file(lab.description_file, json.dumps(description) + "\n")
    run(["ip", "netns", "add", lab.client])
    ip(
        lab.client,
        "link set lo up",
        "link add name management type bridge",
        f"addr add {MANAGEMENT_NETWORK}.1/24 dev management",
        "link set management up",
    )
    access.make_keys(lab)
    for node in lab.nodes():
        vm.create(node)


def down(lab: Lab, arguments: argparse.Namespace) -> None:
    """Whatever is there of the lab, also after an interruption: nothing here relies on what came before."""
    if lab.description_file.exists() and lab.description().get("kind") != KIND:
        raise LabError(f"lab {lab.name} is one of lab.py: 'lab.py down' removes it")
    for node in lab.nodes(COUNT):
        vm.power_off(node)
    delete_namespace(lab.client)
    remove_tree(lab.directory)


def purge(lab: Lab, arguments: argparse.Namespace) -> None:
    down(lab, arguments)
    remove_tree(lab.home / "images" / vm_image.digest())


def cable(lab: Lab, arguments: argparse.Namespace) -> None:
    """A cable has two ends: pulled at one, both lose the carrier."""
    for node in lab.nodes():
        vm.set_link(node, arguments.rail, arguments.state == "up")


def execute(lab: Lab, arguments: argparse.Namespace) -> int:
    return vm.execute(lab.node(arguments.node), [shlex.join(words(arguments))])


# Commands that change a lab wait for one another; not for those of other labs, for these take minutes.
CHANGES = (up, down, purge, cable)


def parse(command_line: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, action, text in (
        ("prepare", prepare, "install what this machine lacks, then check it"),
        ("check", check, "say what this machine lacks"),
        (
            "up",
            up,
            "make the machines, or start those that are off; prints where inventory and ssh_config are",
        ),
        ("down", down, "remove the machines and all that belongs to them"),
        ("purge", purge, "down, and remove the cached image"),
        ("cable", cable, "pull a rail's cable or put it back"),
        ("exec", execute, "run a command in a machine, by ssh"),
    ):
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(action=action)
        if name == "cable":
            added.add_argument("rail", metavar="RAIL", choices=RAILS, help=" or ".join(RAILS))
            added.add_argument("state", choices=("up", "down"))
        if name == "exec":
            added.add_argument("node", metavar="NODE", help="spark-a or spark-b, or just its letter")
            added.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    return parser.parse_args(command_line)


def main(command_line: list[str]) -> int:
    arguments = parse(command_line)
    lab = Lab.from_environment()
    if arguments.action in CHANGES:
        host.require_root()
        with lock(lab.home / f"{lab.name}.lock"):
            arguments.action(lab, arguments)
        return 0
    return arguments.action(lab, arguments) or 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as problem:
        sys.exit(f"vms: {problem}")
    except KeyboardInterrupt:
        sys.exit("vms: interrupted; the next 'up' or 'down' cleans up")
