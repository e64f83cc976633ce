# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GID table whose indices moved is followed at the next start, without a run of Ansible."""

from __future__ import annotations

from recovery import ready

from conftest import NODES, ask, shell, wait_for

HEAD, WORKER = NODES
# As a network manager does it: the address goes, a second link-local one takes its place, the address comes back.
MOVE = """for rail in enp1s0f0np0 enP2p1s0f0np0; do
  address=$(ip -4 -br addr show dev $rail | awk '{print $3}')
  ip addr del $address dev $rail; ip -6 addr add fe80::77/64 dev $rail nodad; sleep 2
  ip addr add $address dev $rail; sleep 2
done"""


def index(node: str) -> str:
    return shell(node, ". /run/tandem/fabric.env; echo ${NCCL_IB_GID_INDEX-absent}")


def restart() -> None:
    """What an operator types: the guard held back, both down, then worker and head."""
    shell(HEAD, "tandem guard --hold operator")
    shell(HEAD, "systemctl stop tandem-head")
    shell(
        WORKER,
        "systemctl stop tandem-worker; echo 0 > /proc/sys/vm/drop_caches; systemctl start tandem-worker",
    )
    shell(HEAD, "systemctl start tandem-head")
    shell(HEAD, "tandem guard --drop operator")
    wait_for("the guard, which takes what runs", lambda: not ready(), 15, 0.5)
    wait_for("an answer that it calls right", ready, 300)


def test_a_start_without_its_rail_is_refused_with_a_reason():
    assert [index(node) for node in NODES] == ["3", "3"]
    shell(WORKER, "systemctl stop tandem-worker; ip link set enp1s0f0np0 mtu 1500")
    said = shell(
        WORKER, "tandem fabric --env 2>&1; test ! -e /run/tandem/fabric.env && echo gone", check=False
    )
    assert "enp1s0f0np0" in said and "1500" in said and "9000" in said and said.endswith("gone")
    assert "Traceback" not in said
    shell(WORKER, "ip link set enp1s0f0np0 mtu 9000")


def test_indices_that_moved_are_followed_at_the_next_start():
    """They stay moved until test_03_reboot, as they would."""
    shell(WORKER, MOVE)
    restart()
    assert [index(node) for node in NODES] == ["3", "5"]
    assert shell(WORKER, "cat /proc/sys/vm/drop_caches") == "3"
    assert "391" in wait_for("an answer", ask)
