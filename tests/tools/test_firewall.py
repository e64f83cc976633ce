# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filter's table in a real kernel: who reaches which port of a node, before it is there and after.

Namespaces in place of machines: a node, its peer and a stranger at the same switch, and somebody on the LAN.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import firewall

LAN, NODE, RAIL = "192.168.50.1", "192.168.50.11", "192.168.177.1"
PEER, STRANGER = "192.168.177.2", "192.168.177.3"
API, RENDEZVOUS, GUARDS, PAGE, FOREIGN, ENGINE = 8888, 25000, 25001, 25002, 9999, 40123
PLAN = {
    "rank": 0,
    "fabric": {"rails": [{"netdev": "ra0", "address": f"{RAIL}/29", "peers": [PEER]}]},
    "master_port": RENDEZVOUS,
    "guard": {"port": GUARDS, "http_port": PAGE},
    "api": {"port": API},
}
# The rendezvous listens on every address and family, whatever it is told; the engine's other ports are bound to a rail.
LISTENERS = [
    ("::", RENDEZVOUS),
    (RAIL, GUARDS),
    ("0.0.0.0", PAGE),
    ("0.0.0.0", API),
    ("::", FOREIGN),
    (RAIL, ENGINE),
]
LISTEN = """
import socket, sys, time
held = []
for word in sys.argv[1:]:
    address, _, port = word.rpartition("@")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    held.append(socket.create_server((address, int(port)), family=family, dualstack_ipv6=family == socket.AF_INET6))
print("ready", flush=True)
time.sleep(600)
"""
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.7).close()"
FOREIGN_TABLE = """table inet other {
  chain input {
    type filter hook input priority 5; policy accept;
    tcp dport 7 drop
  }
}
"""


class Net:
    """Namespaces of this run, and what is done in them."""

    def __init__(self) -> None:
        self.prefix = f"tandemfw{os.getpid()}"
        self.processes: list[subprocess.Popen] = []

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def inside(self, name: str, *command: str, **more) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["ip", "netns", "exec", f"{self.prefix}-{name}", *command], capture_output=True, text=True, **more
        )

    def make(self) -> None:
        for name in ("node", "lan", "switch", "peer", "stranger"):
            self.ip("netns", "add", f"{self.prefix}-{name}")
            self.inside(name, "ip", "link", "set", "lo", "up", check=True)
        self.inside("switch", "ip", "link", "add", "br0", "type", "bridge", check=True)
        self.inside("switch", "ip", "link", "set", "br0", "up", check=True)
        self.cable("node", "eth0", f"{NODE}/24", "lan", "eth0", f"{LAN}/24")
        for name, device, address in (
            ("node", "ra0", RAIL),
            ("peer", "ra0", PEER),
            ("stranger", "ra0", STRANGER),
        ):
            self.cable(name, device, f"{address}/29", "switch", f"to-{name}", None)
            self.inside("switch", "ip", "link", "set", f"to-{name}", "master", "br0", check=True)
        self.inside("node", "ip", "address", "add", "fd00:50::11/64", "dev", "eth0", "nodad", check=True)
        self.inside("lan", "ip", "address", "add", "fd00:50::1/64", "dev", "eth0", "nodad", check=True)
        # As somebody does who knows the rails' addresses: the kernel answers for each of its addresses on any link.
        self.inside("lan", "ip", "route", "add", "192.168.177.0/29", "via", NODE, check=True)
        self.listen("node", LISTENERS)
        self.listen("stranger", [("0.0.0.0", 7777)])

    def cable(
        self, one: str, device: str, address: str | None, other: str, end: str, far: str | None
    ) -> None:
        self.ip(
            *("link", "add", device, "netns", f"{self.prefix}-{one}", "type", "veth"),
            *("peer", "name", end, "netns", f"{self.prefix}-{other}"),
        )
        for name, link, own in ((one, device, address), (other, end, far)):
            if own:
                self.inside(name, "ip", "address", "add", own, "dev", link, check=True)
            self.inside(name, "ip", "link", "set", link, "up", check=True)

    def listen(self, name: str, where: list[tuple[str, int]]) -> None:
        words = [f"{address}@{port}" for address, port in where]
        command = ["ip", "netns", "exec", f"{self.prefix}-{name}", sys.executable, "-c", LISTEN, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout.readline() == "ready\n"

    def reaches(self, name: str, address: str, port: int) -> bool:
        return self.inside(name, sys.executable, "-c", REACH, address, str(port)).returncode == 0

    def load(self, text: str) -> None:
        done = self.inside("node", "nft", "-f", "-", input=text)
        assert done.returncode == 0, done.stderr

    def listing(self) -> str:
        return self.inside("node", "nft", "list", "table", *firewall.TABLE, check=True).stdout

    def remove(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for name in ("node", "lan", "switch", "peer", "stranger"):
            subprocess.run(
                ["ip", "netns", "delete", f"{self.prefix}-{name}"], check=False, capture_output=True
            )


@pytest.fixture(scope="module")
def net():
    net = Net()
    try:
        net.make()
        until = time.monotonic() + 20
        while not net.reaches("peer", RAIL, ENGINE):
            assert time.monotonic() < until
        yield net
    finally:
        net.remove()


def table(guard=(), api=(), rails=()) -> str:
    return firewall.text(firewall.wish_of(PLAN, guard, api, rails))


EVERYBODY = {
    ("lan", NODE): {RENDEZVOUS, PAGE, API, FOREIGN},
    ("lan", RAIL): {RENDEZVOUS, GUARDS, PAGE, API, FOREIGN, ENGINE},
    ("lan", "fd00:50::11"): {RENDEZVOUS, FOREIGN},
    ("peer", RAIL): {RENDEZVOUS, GUARDS, PAGE, API, FOREIGN, ENGINE},
    ("stranger", RAIL): {RENDEZVOUS, GUARDS, PAGE, API, FOREIGN, ENGINE},
    ("node", "127.0.0.1"): {RENDEZVOUS, PAGE, API, FOREIGN},
    ("node", RAIL): {RENDEZVOUS, GUARDS, PAGE, API, FOREIGN, ENGINE},
}
CLOSED = {
    **EVERYBODY,
    ("lan", NODE): {API, FOREIGN},
    ("lan", RAIL): set(),
    ("lan", "fd00:50::11"): {FOREIGN},
    ("stranger", RAIL): set(),
}


def seen(net: Net) -> dict[tuple[str, str], set[int]]:
    ports = [port for _address, port in LISTENERS]
    return {
        (name, address): {port for port in ports if net.reaches(name, address, port)}
        for name, address in EVERYBODY
    }


def test_without_the_table_everybody_reaches_everything(net):
    assert seen(net) == EVERYBODY


def test_with_it_the_engines_ports_are_for_the_ranks_and_all_else_is_as_before(net):
    net.load(FOREIGN_TABLE)
    net.load(table())
    assert seen(net) == CLOSED
    assert net.reaches("node", STRANGER, 7777)  # what the node asks for itself


def test_what_nft_lists_has_the_mark_of_what_was_loaded(net):
    net.load(table(guard=["10.0.0.0/8", "fd00::/8"], api=["0.0.0.0/0"], rails=["10.9.0.0/16"]))
    wanted = table(guard=["10.0.0.0/8", "fd00::/8"], api=["0.0.0.0/0"], rails=["10.9.0.0/16"])
    assert firewall.mark(net.listing()) == firewall.mark(wanted)
    net.load("flush chain inet tandem input")
    assert firewall.mark(net.listing()) != firewall.mark(wanted)


def test_who_is_named_may_come(net):
    net.load(table(guard=["192.168.50.0/24", "192.168.50.1"], api=["10.0.0.0/8"], rails=[f"{STRANGER}/32"]))
    found = seen(net)
    assert found["lan", NODE] == {PAGE, FOREIGN} and found["peer", RAIL] == CLOSED["peer", RAIL]
    assert found["stranger", RAIL] == {FOREIGN, ENGINE}  # never what asks nobody for a name


def test_without_it_again_all_is_as_before_and_others_tables_are_there(net):
    net.load(f"delete table {' '.join(firewall.TABLE)}")
    assert seen(net) == EVERYBODY
    assert "table inet other" in net.inside("node", "nft", "list", "ruleset", check=True).stdout
