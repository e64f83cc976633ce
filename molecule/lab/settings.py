# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses and paths of a lab: the one place that knows them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")  # the two PCIe functions of a Spark's first cage
IDLE_FUNCTIONS = ("enp1s0f1np1", "enP2p1s0f1np1")  # the second cage: nothing is plugged in
MANAGEMENT = "eth0"
# Who writes the network of the nodes, the first unless told otherwise.
NETWORKS = ("netplan-networkd", "networkd", "netplan-networkmanager", "networkmanager")
# What the nodes have installed; a folder beside this file each. The second has Docker and a registry too.
IMAGES = ("image", "docker_image")
MANAGEMENT_NETWORK = "192.168.50"  # /24: the client is .1, the nodes are .11, .12 ...
FACTORY_MTU = 1500
CABLE_MTU = 9000
MAX_NODES = 4


class LabError(Exception):
    """Something the person at the keyboard has to know; the text says what to do."""


@dataclass(frozen=True)
class Node:
    """Node number `index` (0-based) of `lab`."""

    lab: Lab
    index: int

    @property
    def letter(self) -> str:
        return chr(ord("a") + self.index)

    @property
    def name(self) -> str:
        return f"spark-{self.letter}"

    @property
    def namespace(self) -> str:
        return f"{self.lab.name}-{self.name}"

    @property
    def address(self) -> str:
        """Address on the management network."""
        return f"{MANAGEMENT_NETWORK}.{11 + self.index}"

    @property
    def directory(self) -> Path:
        return self.lab.directory / "nodes" / self.name

    @property
    def cgroup(self) -> Path:
        return self.lab.cgroups / f"lab-{self.namespace}"

    @property
    def supply(self) -> tuple[str, str, str]:
        """Arguments of the node's power.py, by which its process is found."""
        return str(self.lab.home), self.lab.name, self.name

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    def mac(self, port: int) -> str:
        """Stays the same over reboots, as a burnt-in address does. Locally administered."""
        return f"02:4c:ab:{self.index:02x}:00:{port:02x}"


@dataclass(frozen=True)
class Lab:
    """One lab: `name` keeps labs on one machine apart, `home` holds them all and the caches."""

    name: str
    home: Path

    @classmethod
    def from_environment(cls) -> Lab:
        name = os.environ.get("LAB", "tandem")
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) or name in ("images", "models"):
            raise LabError(f"LAB={name!r} is no lab name: wanted a-z, 0-9 and - (not images, not models)")
        return cls(name, Path(os.environ.get("LAB_DIR", "/var/lib/tandem-lab")).resolve())

    @property
    def directory(self) -> Path:
        return self.home / self.name

    @property
    def cgroups(self) -> Path:
        """A view of the host's cgroup2 tree, mounted while the lab exists."""
        return self.directory / "cgroup"

    @property
    def fabric(self) -> str:
        """Namespace that the rails of all nodes run through."""
        return f"{self.name}-fabric"

    @property
    def client(self) -> str:
        """Namespace of whoever manages the nodes: the controller's place in the network."""
        return f"{self.name}-client"

    @property
    def description_file(self) -> Path:
        """{"nodes": how many, "network": who writes theirs, "image": which, "layers": [of each root, upper first]}"""
        return self.directory / "lab.json"

    @property
    def ready_file(self) -> Path:
        """Written last by `up`: a lab without it was interrupted."""
        return self.directory / "ready"

    @property
    def client_address(self) -> str:
        return f"{MANAGEMENT_NETWORK}.1"

    def description(self) -> dict:
        try:
            return json.loads(self.description_file.read_text())
        except FileNotFoundError:
            raise LabError(f"there is no lab {self.name!r}: make one with 'lab.py up'") from None

    def nodes(self, count: int | None = None) -> list[Node]:
        count = self.description()["nodes"] if count is None else count
        return [Node(self, index) for index in range(count)]

    def node(self, name: str) -> Node:
        for node in self.nodes():
            if name in (node.name, node.letter):
                return node
        raise LabError(
            f"no node {name!r} in lab {self.name!r}: it has {', '.join(n.name for n in self.nodes())}"
        )
