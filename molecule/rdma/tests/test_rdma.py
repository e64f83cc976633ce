# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GID tables of a real kernel move, and the index that a start would take carries RDMA where the old one does not.

Each test leaves the rails as the plan has them. No rate is a figure here: the machines are emulated.
"""

from __future__ import annotations

import json
import subprocess
import sys

import hands
import pytest
from hands import NODES, ansible, lab, play, shell, wait_for

FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
HCAS = {FIRST: "rocep1s0f0", SECOND: "roceP2p1s0f0"}
HEAD, WORKER = NODES
PORT = 18500
MEASURE = ("playbooks/measure.yml", "--tags", "link")


def planned(node: str) -> dict[str, dict]:
    rails = json.loads(shell(node, "cat /etc/tandem/plan.json"))["fabric"]["rails"]
    return {rail["netdev"]: rail for rail in rails}


def chosen(node: str) -> int:
    """The index that a start would take: of all HCAs."""
    said = shell(node, "tandem fabric --env --output /run/fabric.env && cat /run/fabric.env")
    (index,) = [line.split("=")[1] for line in said.splitlines() if line.startswith("NCCL_IB_GID_INDEX=")]
    return int(index.strip('"'))


def address_at(node: str, index: int, rail: str = FIRST) -> str:
    return shell(node, f"cat /sys/class/infiniband/{HCAS[rail]}/ports/1/gids/{index}")


def mapped(address: str) -> str:
    """An IPv4 address as a GID table has it."""
    first, second, third, fourth = (int(part) for part in address.split("/")[0].split("."))
    return f"0000:0000:0000:0000:0000:ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"


def carries(of_head: int, of_worker: int, rail: str = FIRST, limit_s: int = 90) -> bool:
    """Does ib_write_bw from the worker to the head, each with its index, come to a result?"""
    words = f"timeout {limit_s} ib_write_bw -F -d {HCAS[rail]} -p {PORT} -s 4096 -n 100 --report_gbits"
    waiting = ["exec", HEAD, "--", "sh", "-c", f"{words} -x {of_head}"]
    server = subprocess.Popen(
        [sys.executable, str(hands.LAB_PROGRAM), *waiting],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        listening = f"ss -Hltn sport = :{PORT}"
        wait_for(
            "the server of ib_write_bw", lambda: shell(HEAD, listening) or server.poll() is not None, 600, 1
        )
        address = planned(HEAD)[rail]["address"].split("/")[0]
        said = shell(WORKER, f"{words} -x {of_worker} {address} 2>&1; echo ended=$?", check=False)
    finally:
        shell(HEAD, "pkill -x ib_write_bw", check=False)
        server.wait(timeout=600)
    return "ended=0" in said and "BW average" in said


def shift(node: str, first: str) -> None:
    """Take the rails' addresses away, do something first, and give them back: the way in which tables move."""
    script = []
    for number, (rail, plan) in enumerate(planned(node).items()):
        script += [
            f"ip addr del {plan['address']} dev {rail}",
            first.format(rail=rail, number=number),
            f"ip addr add {plan['address']} dev {rail}",
        ]
    shell(node, " && ".join(script))


def undo(node: str, first: str) -> None:
    """Back to the first free slot after the link-local address."""
    for number, (rail, plan) in enumerate(planned(node).items()):
        shell(
            node,
            f"ip addr del {plan['address']} dev {rail}; {first.format(rail=rail, number=number)}",
            check=False,
        )
        shell(node, f"ip addr add {plan['address']} dev {rail}")


def test_rails_of_real_devices_are_found_and_planned():
    for node in NODES:
        found = planned(node)
        assert {rail: plan["hca"] for rail, plan in found.items()} == HCAS
        for rail, plan in found.items():
            assert shell(node, f"cat /sys/class/net/{rail}/mtu") == "9000"
            assert address_at(node, chosen(node), rail) == mapped(plan["address"])


def test_the_chosen_index_carries_and_an_empty_slot_does_not():
    ours, theirs = chosen(HEAD), chosen(WORKER)
    assert carries(ours, theirs, FIRST) and carries(ours, theirs, SECOND)
    assert not carries(ours, 900)


MOVES = {
    "an IPv6 address came before it": (
        "-6 addr add fd00:7a::{number}5/64 nodad",
        "-6 addr del fd00:7a::{number}5/64",
    ),
    "another IPv4 address came before it": ("addr add 10.7{number}.0.9/24", "addr del 10.7{number}.0.9/24"),
}


@pytest.fixture
def strict():
    """The head takes packets only from where it would send the answer, as many hosts are set.

    Without it Linux answers an address that it has no route to over the rail from which it came, and the wrong index
    would carry by chance.
    """
    names = ("all", FIRST)
    before = {name: shell(HEAD, f"cat /proc/sys/net/ipv4/conf/{name}/rp_filter") for name in names}
    set_to = "echo {} > /proc/sys/net/ipv4/conf/{}/rp_filter"
    shell(HEAD, " && ".join(set_to.format(1, name) for name in names))
    yield
    shell(HEAD, " && ".join(set_to.format(value, name) for name, value in before.items()))


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("what", MOVES)
def test_a_table_that_moved(what):
    first, back = (f"ip {words} dev {{rail}}" for words in MOVES[what])
    old, partner = chosen(WORKER), chosen(HEAD)
    shift(WORKER, first)
    try:
        new = chosen(WORKER)
        assert new != old, what
        assert address_at(WORKER, old) != mapped(planned(WORKER)[FIRST]["address"])
        assert carries(partner, new), f"{what}: index {new} that `tandem fabric` chose does not carry"
        # Whoever gets no answer asks for long. What carries does so in a tenth of this time.
        assert not carries(partner, old, limit_s=40), f"{what}: index {old} of before still carries"
    finally:
        undo(WORKER, back)
    assert chosen(WORKER) == old and carries(partner, old)


def test_a_table_that_moved_on_one_rail_pins_nothing_and_is_measured_by_rail():
    """Two indices: NCCL is told none, and the proof takes the right one of each HCA."""
    plan = planned(WORKER)[SECOND]["address"]
    shell(WORKER, f"ip addr del {plan} dev {SECOND} && ip addr add 10.79.0.9/24 dev {SECOND}")
    shell(WORKER, f"ip addr add {plan} dev {SECOND}")
    try:
        said = shell(WORKER, "tandem fabric --env --output /run/fabric.env; cat /run/fabric.env")
        assert said.startswith("dynamic") and "NCCL_IB_GID_INDEX" not in said
        run = play(*MEASURE)
        assert run.code == 0, run.text
        for node in NODES:
            assert run.text.count("ib_write_bw") >= 6, (node, run.text)
    finally:
        shell(WORKER, f"ip addr del {plan} dev {SECOND}; ip addr del 10.79.0.9/24 dev {SECOND}", check=False)
        shell(WORKER, f"ip addr add {plan} dev {SECOND}")


def test_a_link_that_flapped():
    old = {node: chosen(node) for node in NODES}
    lab("cable", FIRST, "down")
    try:
        state = f"cat /sys/class/infiniband/{HCAS[FIRST]}/ports/1/state"
        wait_for("a port that is down", lambda: "DOWN" in shell(WORKER, state), 300)
        said = shell(WORKER, "tandem fabric --env --output /run/fabric.env 2>&1", check=False)
        assert f"{FIRST} has no carrier" in said
    finally:
        lab("cable", FIRST, "up")
    wait_for("a port that is up", lambda: "ACTIVE" in shell(WORKER, state), 300)
    wait_for(
        "the addresses",
        lambda: (
            mapped(planned(WORKER)[FIRST]["address"])
            in shell(WORKER, f"cat /sys/class/infiniband/{HCAS[FIRST]}/ports/1/gids/[0-9]")
        ),
        300,
    )
    new = {node: chosen(node) for node in NODES}
    assert carries(new[HEAD], new[WORKER])
    if new[WORKER] != old[WORKER]:
        assert not carries(new[HEAD], old[WORKER])


def active_mtus(node: str) -> dict[str, int]:
    said = ansible("ansible", node, "-m", "tandem.spark.ibv_info", "-o").text
    devices = json.loads(said.partition("=>")[2])["devices"]
    assert {device["ports"][0]["active_mtu_source"] for device in devices} == {"verbs"}
    return {device["name"]: device["ports"][0]["active_mtu"] for device in devices}


def test_the_rdma_mtu_follows_the_interface_and_a_start_is_refused_meanwhile():
    assert active_mtus(WORKER) == dict.fromkeys(HCAS.values(), 4096)
    shell(WORKER, f"ip link set {FIRST} mtu 1500")
    try:
        assert active_mtus(WORKER) == {HCAS[FIRST]: 1024, HCAS[SECOND]: 4096}
        said = shell(WORKER, "tandem fabric --env --output /run/fabric.env 2>&1", check=False)
        assert f"{FIRST} has MTU 1500; wanted 9000" in said
        run = play(*MEASURE, "-e", "tandem_fabric_peer_timeout_s=5")
        # One end is enough, and nothing is measured: its peer would wait for it. virtio takes frames that are larger
        # than its MTU, which a card does not; the scenarios of the rails show what the peer sees then.
        assert run.code != 0 and f"{FIRST} has MTU 1500, wanted 9000" in run.text, run.text
        assert "ib_write_bw" not in run.text, run.text
    finally:
        shell(WORKER, f"ip link set {FIRST} mtu 9000")
    assert active_mtus(WORKER) == dict.fromkeys(HCAS.values(), 4096)
    assert carries(chosen(HEAD), chosen(WORKER))


def test_a_link_below_its_limits_is_named_with_what_it_carries():
    limits = {
        "tandem_profile_overrides": {
            "transport": "rdma",
            "link": {"min_rail_gbps": 85, "join_timeout_s": 600, "test_seconds": 6, "test_bytes": 4096},
        }
    }
    run = play(*MEASURE, "-e", json.dumps(limits))
    assert run.code != 0
    for hca in HCAS.values():
        assert f"{hca} (" in run.text and "where 85 are wanted" in run.text, run.text


def test_without_perftest_or_beside_a_running_rank_nothing_is_measured():
    shell(WORKER, "mv /usr/bin/ib_write_bw /usr/bin/hidden")
    shell(HEAD, "systemd-run --quiet --unit=tandem-head.service sleep 1200")
    try:
        run = play(*MEASURE)
    finally:
        shell(WORKER, "mv /usr/bin/hidden /usr/bin/ib_write_bw")
        shell(HEAD, "systemctl stop tandem-head.service")
    assert run.code != 0 and run.seconds < 300
    assert "ib_write_bw not found on this node" in run.text and "apt-get install perftest" in run.text, (
        run.text
    )
    assert "tandem-head.service runs here" in run.text and "Traceback" not in run.text


def test_a_rebooted_machine_has_its_rails_and_nothing_is_left_to_do():
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = shell(WORKER, boot)
    shell(WORKER, "systemctl reboot", check=False)
    wait_for("the machine again", lambda: shell(WORKER, boot, check=False) not in ("", before), 900, 10)
    run = play("playbooks/fabric.yml")
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert carries(chosen(HEAD), chosen(WORKER))
