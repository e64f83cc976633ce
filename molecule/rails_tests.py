# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the rails proves good or undoes itself, and nobody is cut off: for whoever writes the nodes' network.

A scenario takes these tests over: `from rails_tests import *`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from hands import INVENTORY, LAB_PROGRAM, NODES, ansible, lab, play, shell, wait_for

FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
BACKEND = json.loads((INVENTORY.parent / "lab.json").read_text())["network"]
# Addresses (an IPv6 one is a GID too), MTU and files of the rails, and whether a change waits to be undone.
RAILS = f"""for rail in {FIRST} {SECOND}; do ip -br addr show dev $rail | tr -s ' ' | cut -d' ' -f3-
cat /sys/class/net/$rail/mtu; done
find /run/netplan /run/systemd/network /run/NetworkManager/conf.d /etc/netplan /etc/systemd/network \\
     /etc/NetworkManager -type f 2>/dev/null | sort
find /run/NetworkManager/system-connections -type f ! -name 'Wired*' ! -name lo.nmconnection 2>/dev/null | sort
cat /etc/netplan/90-tandem* /etc/systemd/network/*tandem* /etc/NetworkManager/*/*tandem* 2>/dev/null
systemctl is-active tandem-fabric-revert.timer"""
# Rails by another plan than the one that is in force.
MOVED = ("-e", "tandem_fabric_supernet=192.168.188.0/24")


@dataclass(frozen=True)
class Foreign:
    """A file of somebody else for the first rail. After `end` there is no trace of it; merged: in use beside ours."""

    path: str
    text: str
    merged: bool
    begin: str = "true"
    end: str = "true"


NETPLAN = "/etc/netplan/40-cx7.yaml"
NETPLAN_TEXT = f"network: {{version: 2, ethernets: {{{FIRST}: {{addresses: [192.168.100.10/24]}}}}}}"
GENERATED = {
    "netplan-networkd": f"/run/systemd/network/10-netplan-{FIRST}.network",
    "netplan-networkmanager": f"/run/NetworkManager/system-connections/netplan-{FIRST}.nmconnection",
}
FOREIGN = {
    # Not `netplan generate` at the end: networkd would take up every interface anew at the next reload.
    "netplan-networkd": Foreign(
        NETPLAN,
        NETPLAN_TEXT,
        merged=True,
        end=f"sed -i /192.168.100.10/d {GENERATED['netplan-networkd']}; networkctl reload",
    ),
    "netplan-networkmanager": Foreign(
        NETPLAN,
        NETPLAN_TEXT,
        merged=True,
        end=f"netplan generate; nmcli connection load {GENERATED['netplan-networkmanager']}; "
        f"nmcli device reapply {FIRST}",
    ),
    "networkd": Foreign(
        "/etc/systemd/network/20-cx7.network",
        f"[Match]\nName={FIRST}\n\n[Network]\nAddress=192.168.100.10/24",
        merged=False,
        begin="networkctl reload",
        end="networkctl reload",
    ),
    # In use before ours is: what somebody set stays until the next boot, whoever set it.
    "networkmanager": Foreign(
        "/etc/NetworkManager/system-connections/cx7.nmconnection",
        f"[connection]\nid=cx7\nuuid=8f0c1c5e-4a51-4b8e-9a41-2f6f0a8f9c11\ntype=ethernet\ninterface-name={FIRST}\n\n"
        "[ipv4]\nmethod=manual\naddress1=192.168.100.10/24",
        merged=True,
        begin="nmcli connection load /etc/NetworkManager/system-connections/cx7.nmconnection; "
        f"nmcli connection up cx7 ifname {FIRST}",
        end="nmcli connection load /etc/NetworkManager/system-connections/cx7.nmconnection; "
        f"ip address del 192.168.100.10/24 dev {FIRST}",
    ),
}[BACKEND]


def rails() -> list[str]:
    return [shell(node, RAILS, check=False) for node in NODES]


def fabric(*words: str):
    return play("playbooks/fabric.yml", *words)


def step(node: str, state: str, *words: str, **changes) -> str:
    """One step of the module by hand, on one node, with its plan but for the changes."""
    plan = json.loads(shell(node, "cat /etc/tandem/plan.json"))["fabric"]
    arguments = {**plan, "state": state, "management": ["eth0"], "backend": BACKEND, **changes}
    return ansible(
        "ansible", node, "-m", "tandem.spark.fabric_rails", "-a", json.dumps(arguments), *words
    ).text


def planned(node: str) -> list[dict]:
    return json.loads(shell(node, "cat /etc/tandem/plan.json"))["fabric"]["rails"]


def moved(node: str) -> list[dict]:
    """The node's rails by another plan."""
    return json.loads(json.dumps(planned(node)).replace("192.168.177.", "192.168.188."))


@pytest.fixture
def narrow():
    """One end of the second rail's cable loses large packets: the peer answers, but not in full."""
    lab("cable", NODES[1], SECOND, "mtu", "1500")
    yield
    lab("cable", NODES[1], SECOND, "mtu", "9000")


def test_functions_with_a_cable_are_rails_and_no_others():
    for node in NODES:
        assert [rail["netdev"] for rail in planned(node)] == [FIRST, SECOND]
        assert "9000" not in shell(node, "cat /sys/class/net/enp1s0f1np1/mtu /sys/class/net/eth0/mtu")


def test_a_rail_has_one_ipv6_address_and_that_is_its_cards():
    """Another one would be another GID, and move the IPv4 ones (a stable-privacy address did in the field)."""
    for node in NODES:
        for rail in (FIRST, SECOND):
            mac = shell(node, f"cat /sys/class/net/{rail}/address").split(":")
            found = shell(node, f"ip -o -6 addr show dev {rail}").split()
            assert found.count("inet6") == 1
            assert found[found.index("inet6") + 1].endswith(f"ff:fe{mac[3]}:{int(mac[4] + mac[5], 16):x}/64")


def test_a_change_that_cuts_the_peer_off_is_undone_on_every_rank(narrow):
    before = rails()
    run = fabric(*MOVED)
    assert run.code != 0
    assert run.text.count("not to unfragmented packets of 9000 bytes") >= len(NODES)
    assert "every rank was put back" in run.text
    assert rails() == before


def test_a_pulled_cable_is_named_and_its_rail_not_given_up():
    """Nor does it lose its addresses, however long the cable is out: a peer that boots is no cable either."""
    before = rails()
    lab("cable", NODES[0], SECOND, "down")
    begun = time.monotonic()
    try:
        run = fabric()
        time.sleep(max(0.0, 12 - (time.monotonic() - begun)))
        without = rails()
    finally:
        lab("cable", NODES[0], SECOND, "up")
    assert run.code != 0 and f"{SECOND} was a rail of this group and has no carrier now" in run.text
    assert without == before
    assert rails() == before


def test_a_rail_that_is_switched_off_is_named_with_what_switches_it_on(node=NODES[1]):
    """Somebody did it on purpose, perhaps: it is told and left, and the other rail keeps its number."""
    before = rails()
    shell(node, f"ip link set {SECOND} down")
    try:
        run = fabric()
        assert run.code != 0 and f"{SECOND} was a rail of this group and is switched off now" in run.text
        assert f"ip link set {SECOND} up" in run.text
        assert [rail["netdev"] for rail in planned(node)] == [FIRST, SECOND]
    finally:
        shell(node, f"ip link set {SECOND} up")
    wait_for("the rail with its addresses", lambda: rails() == before or fabric().code == 0, 120)
    assert rails() == before


def test_addresses_that_somebody_swapped_are_named_and_put_back(node=NODES[1]):
    before = rails()
    first, second = (rail["address"] for rail in planned(node))
    moves = [f"del {first} dev {FIRST}", f"del {second} dev {SECOND}"]
    moves += [f"add {first} dev {SECOND}", f"add {second} dev {FIRST}"]
    shell(node, " && ".join(f"ip addr {move}" for move in moves))
    told = ansible(
        "ansible", node, "-m", "tandem.spark.link_check", "-a", "measure=false peer_timeout=1"
    ).text
    for rail, wanted in ((FIRST, first), (SECOND, second)):
        assert re.search(rf"{rail} has \S+, wanted {re.escape(wanted)}", told), told
    # The other end is well, and is told that nobody answers there.
    peer = ansible(
        "ansible", NODES[0], "-m", "tandem.spark.link_check", "-a", "measure=false peer_timeout=1"
    ).text
    assert "fabric.peer" in peer, peer
    run = fabric()
    assert run.code == 0 and run.changed[node] > 0, run.text
    assert rails() == before


def test_a_change_whose_controller_went_away_is_undone_by_the_node(node=NODES[0]):
    before = rails()
    staged = step(node, "staged", rails=moved(node), revert_after_s=8, peer_timeout_s=1)
    assert "CHANGED" in staged, staged
    assert "192.168.188.1/29" in shell(node, "ip -4 -br addr")
    wait_for("the node to undo it", lambda: rails() == before, 30)
    told = "journalctl --no-pager -o cat -u tandem-fabric-revert.service"
    wait_for("the unit to say so, which it does last", lambda: "undone" in shell(node, told), 10)


def test_a_reboot_in_the_guarded_window_leads_back(node=NODES[1]):
    before = rails()
    assert "CHANGED" in step(node, "staged", rails=moved(node), revert_after_s=600)
    lab("reboot", node)
    wait_for("the rails", lambda: rails() == before, 20)


def test_a_change_that_was_broken_off_is_taken_up_by_the_next_run():
    before = rails()
    assert "CHANGED" in step(NODES[0], "staged", rails=moved(NODES[0]), revert_after_s=600)
    run = fabric()
    assert run.code == 0, run.text
    assert rails() == before


def test_rails_that_lost_their_mtu_or_address_are_repaired():
    before = rails()
    shell(NODES[0], f"ip link set {FIRST} mtu 1500")
    shell(NODES[1], f"ip -4 addr flush dev {SECOND}")
    assert rails() != before
    run = fabric()
    assert run.code == 0 and min(run.changed.values()) > 0, run.text
    assert rails() == before


def test_rails_that_the_user_names_are_taken_in_that_order():
    before = rails()
    named = json.dumps({"tandem_fabric_rails": [{"netdev": SECOND}, {"netdev": FIRST}]})
    run = fabric("-e", named)
    assert run.code == 0, run.text
    assert [rail["netdev"] for rail in planned(NODES[0])] == [SECOND, FIRST]
    assert "192.168.177.1/29" in shell(NODES[0], f"ip -4 -br addr show dev {SECOND}")
    assert fabric().code == 0
    assert rails() == before


def test_the_way_to_the_node_is_never_a_rail(node=NODES[0]):
    before = shell(node, "ip -br addr")
    wanted = [{"netdev": "eth0", "address": "192.168.188.1/29", "peers": []}]
    for management in (["eth0"], ["lo"]):
        said = step(node, "staged", rails=wanted, management=management)
        assert "FAILED" in said and "fabric.rail.management" in said
    assert shell(node, "ip -br addr") == before


def test_a_backend_that_is_not_known_is_one_finding_and_nothing_is_touched(node=NODES[0]):
    before = rails()
    said = step(node, "staged", rails=moved(node), backend="none")
    assert "FAILED" in said and "fabric.backend.unsupported" in said
    assert rails() == before


def test_a_foreign_file_is_told_backed_up_and_left(node=NODES[0]):
    before = rails()
    path = FOREIGN.path
    mode = 644 if path.endswith(".network") else 600
    shell(node, f"printf '%s\\n' '{FOREIGN.text}' > {path}; chmod {mode} {path}; {FOREIGN.begin}")
    shell(node, f"ip link set {FIRST} mtu 1500")
    try:
        assert "fabric.rail.foreign_file" in step(node, "staged", "--check")
        assert fabric().code == 0
        assert shell(node, f"cat {path}") == FOREIGN.text == shell(node, f"cat /var/lib/tandem/backup{path}")
        told = "192.168.100.10/24, which is not planned" in step(node, "staged", "--check")
        assert told is FOREIGN.merged
        assert "192.168.177.1/29" in shell(node, f"ip -4 -br addr show dev {FIRST}")
    finally:
        shell(node, f"rm {path}; {FOREIGN.end}")
    wait_for("the rail without it", lambda: rails() == before, 10)


def test_the_way_to_the_node_is_not_felt_to_change_with_its_rails(node=NODES[0]):
    """systemd's reload has netplan write every interface's file anew, and networkd then takes those up with ours.

    So the interface that we are connected through may be told again what it has: its address goes and comes back
    within a moment. Measured: 0 of 400 packets lost, one each 20 ms. More than two would be felt.
    """
    shell(node, "systemctl daemon-reload")
    before = rails()
    words = ["exec", NODES[1], "--", "ping", "-q", "-i", "0.02", "-c", "900", "192.168.50.11"]
    ping = subprocess.Popen([sys.executable, str(LAB_PROGRAM), *words], stdout=subprocess.PIPE, text=True)
    assert "CHANGED" in step(node, "staged", rails=moved(node), revert_after_s=600)
    assert "CHANGED" in step(node, "reverted")
    said = ping.communicate(timeout=60)[0]
    sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", said).groups())
    assert sent == 900 and sent - received <= 2, said
    assert rails() == before


def test_a_rebooted_node_has_its_rails_and_nothing_is_left_to_do():
    before = rails()
    lab("reboot", NODES[1])
    wait_for("the rails", lambda: rails() == before, 20)
    run = fabric()
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text


def test_addresses_that_a_factory_pair_has_are_taken_as_they_are():
    """Link-local ones too, which is how the vendor sets a pair up; they last from then on. Ours are forgotten first."""
    forget = """rm -f /etc/tandem/plan.json /etc/netplan/90-tandem* /etc/systemd/network/*tandem*
rm -f /etc/NetworkManager/*/*tandem*"""
    for number, node in enumerate(NODES, start=1):
        shell(node, forget)
        for rail, address in ((FIRST, f"169.254.7.{number}/16"), (SECOND, f"10.9.9.{number}/24")):
            shell(node, f"ip -4 addr flush dev {rail}; ip addr add {address} dev {rail}")
    run = fabric()
    assert run.code == 0, run.text
    assert [rail["address"] for rail in planned(NODES[1])] == ["169.254.7.2/16", "10.9.9.2/24"]
    lab("reboot", NODES[1])
    for rail, address in ((FIRST, "169.254.7.2/16"), (SECOND, "10.9.9.2/24")):
        shown = f"ip -4 addr show dev {rail}"
        wait_for(address, lambda shown=shown, address=address: address in shell(NODES[1], shown), 20)
    quiet = fabric()
    assert quiet.code == 0 and quiet.changed == dict.fromkeys(NODES, 0), quiet.text
