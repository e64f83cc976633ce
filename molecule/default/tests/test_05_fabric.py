# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the rails proves good or undoes itself, and nobody is cut off."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import INVENTORY, LAB_PROGRAM, NODES, PROJECT, lab, shell, site, wait_for

FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
# Addresses, MTU and files of the rails, and whether a change waits to be undone.
RAILS = f"""for rail in {FIRST} {SECOND}; do ip -4 -br addr show dev $rail | tr -s ' ' | cut -d' ' -f3-
cat /sys/class/net/$rail/mtu; done; find /run/netplan /run/systemd/network -type f 2>/dev/null | sort
cat /etc/netplan/90-tandem-fabric.yaml; systemctl is-active tandem-fabric-revert.timer"""
# Rails by another plan than the one that is in force.
MOVED = ("--tags", "fabric", "-e", "tandem_fabric_supernet=192.168.188.0/24")


def rails() -> list[str]:
    return [shell(node, RAILS, check=False) for node in NODES]


def step(node: str, state: str, *words: str, **changes) -> str:
    """One step of the module by hand, on one node, with its plan but for the changes."""
    plan = json.loads(shell(node, "cat /etc/tandem/plan.json"))["fabric"]
    arguments = {**plan, "state": state, "management": ["eth0"], "backend": "netplan-networkd", **changes}
    done = subprocess.run(
        [
            "ansible",
            node,
            "-i",
            str(INVENTORY),
            "-m",
            "tandem.spark.fabric_rails",
            "-a",
            json.dumps(arguments),
            *words,
        ],
        cwd=PROJECT,
        env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout


def moved(node: str) -> list[dict]:
    """The node's rails by another plan."""
    text = shell(node, "cat /etc/tandem/plan.json").replace("192.168.177.", "192.168.188.")
    return json.loads(text)["fabric"]["rails"]


@pytest.fixture
def narrow():
    """One end of the second rail's cable loses large packets: the peer answers, but not in full."""
    lab("cable", NODES[1], SECOND, "mtu", "1500")
    yield
    lab("cable", NODES[1], SECOND, "mtu", "9000")


def test_a_change_that_cuts_the_peer_off_is_undone_on_every_rank(narrow):
    before = rails()
    run = site(*MOVED)
    assert run.code != 0
    assert run.text.count("not to unfragmented packets of 9000 bytes") >= len(NODES)
    assert "every rank was put back" in run.text
    assert rails() == before


def test_a_pulled_cable_is_named_and_its_rail_not_given_up():
    before = rails()
    lab("cable", NODES[0], SECOND, "down")
    try:
        run = site("--tags", "fabric")
    finally:
        lab("cable", NODES[0], SECOND, "up")
    assert run.code != 0 and f"{SECOND} was a rail of this group and has no carrier now" in run.text
    assert rails() == before


def test_a_change_whose_controller_went_away_is_undone_by_the_node(node=NODES[0]):
    before = rails()
    staged = step(node, "staged", rails=moved(node), revert_after_s=4, peer_timeout_s=1)
    assert "CHANGED" in staged, staged
    assert "192.168.188.1/29" in shell(node, "ip -4 -br addr")
    wait_for("the node to undo it", lambda: rails() == before, 20)
    assert "undone" in shell(node, "journalctl --no-pager -o cat -u tandem-fabric-revert.service")


def test_a_reboot_in_the_guarded_window_leads_back(node=NODES[1]):
    before = rails()
    assert "CHANGED" in step(node, "staged", rails=moved(node), revert_after_s=600)
    lab("reboot", node)
    wait_for("the rails", lambda: rails() == before, 20)


def test_a_change_that_was_broken_off_is_taken_up_by_the_next_run():
    before = rails()
    assert "CHANGED" in step(NODES[0], "staged", rails=moved(NODES[0]), revert_after_s=600)
    run = site("--tags", "fabric")
    assert run.code == 0, run.text
    assert rails() == before


def test_rails_that_lost_their_mtu_or_address_are_repaired():
    before = rails()
    shell(NODES[0], f"ip link set {FIRST} mtu 1500")
    shell(NODES[1], f"ip -4 addr flush dev {SECOND}")
    assert rails() != before
    run = site("--tags", "fabric")
    assert run.code == 0 and min(run.changed.values()) > 0, run.text
    assert rails() == before


def test_the_way_to_the_node_is_never_a_rail(node=NODES[0]):
    before = shell(node, "ip -br addr")
    wanted = [{"netdev": "eth0", "address": "192.168.188.1/29", "peers": []}]
    for management in (["eth0"], ["lo"]):
        said = step(node, "staged", rails=wanted, management=management)
        assert "FAILED" in said and "fabric.rail.management" in said
    assert shell(node, "ip -br addr") == before


def test_a_backend_that_is_not_written_yet_is_one_finding_and_nothing_is_touched(node=NODES[0]):
    before = rails()
    said = step(node, "staged", rails=moved(node), backend="netplan-networkmanager")
    assert "FAILED" in said and "fabric.backend.unsupported" in said
    assert rails() == before


def test_a_foreign_file_is_told_backed_up_and_left(node=NODES[0], path="/etc/netplan/40-cx7.yaml"):
    text = f"network: {{version: 2, ethernets: {{{FIRST}: {{addresses: [192.168.100.10/24]}}}}}}"
    before = rails()
    shell(node, f"echo '{text}' > {path}; chmod 600 {path}; ip link set {FIRST} mtu 1500")
    try:
        assert "fabric.rail.foreign_file" in step(node, "staged", "--check")
        assert site("--tags", "fabric").code == 0
        assert shell(node, f"cat {path}") == text == shell(node, f"cat /var/lib/tandem/backup{path}")
        assert "192.168.100.10/24 which is not planned" in step(node, "staged", "--check").replace(",", "")
    finally:
        # Not `netplan generate`: it would have networkd take up every interface anew at the next reload.
        generated = f"/run/systemd/network/10-netplan-{FIRST}.network"
        shell(node, f"rm {path}; sed -i /192.168.100.10/d {generated}; networkctl reload")
    wait_for("networkd to let go of it", lambda: rails() == before, 10)


def test_the_way_to_the_node_is_not_felt_to_change_with_its_rails(node=NODES[0]):
    """systemd's reload has netplan write every interface's file anew, and networkd then takes those up with ours.

    So the interface that we are connected through may be told again what it has: its address goes and comes back
    within a moment. Measured: 0 of 400 packets lost, one each 20 ms. More than two would be felt.
    """
    shell(node, "systemctl daemon-reload")
    before = rails()
    words = ["client", "--", "ping", "-q", "-i", "0.02", "-c", "900", "192.168.50.11"]
    ping = subprocess.Popen([sys.executable, str(LAB_PROGRAM), *words], stdout=subprocess.PIPE, text=True)
    assert "CHANGED" in step(node, "staged", rails=moved(node), revert_after_s=600)
    assert "CHANGED" in step(node, "reverted")
    said = ping.communicate(timeout=60)[0]
    sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", said).groups())
    assert sent == 900 and sent - received <= 2, said
    assert rails() == before


def test_the_pair_is_as_it_was():
    run = site()
    assert run.code == 0, run.text
