# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can happen to a rail, and that nothing else happens."""

from __future__ import annotations

import pytest

RAIL, OTHER = "enp1s0f0np0", "enP2p1s0f0np0"
CARRIER, OTHER_CARRIER = (f"/sys/class/net/{rail}/carrier" for rail in (RAIL, OTHER))
PORT_STATE = "/sys/class/infiniband/rocep1s0f0/ports/1/state"


def reaches(lab, address: str, payload: int = 56) -> bool:
    """Does a packet that may not be cut into pieces come back?"""
    return not lab.fails("spark-a", f"ping -c 1 -W 1 -M do -s {payload} {address}")


@pytest.fixture
def cable(fabric):
    yield lambda *words: fabric("cable", "spark-b", RAIL, *words)
    for words in (("up",), ("pass",), ("mtu", "9000")):
        fabric("cable", "spark-b", RAIL, *words)


def test_a_good_cable_carries_jumbo_frames_and_no_more(fabric):
    assert reaches(fabric, "10.77.0.2", 8972)
    assert not reaches(fabric, "10.77.0.2", 8973)


def test_pulled_at_one_end_both_ends_lose_the_carrier(fabric, cable):
    cable("down")
    for node in ("spark-a", "spark-b"):
        assert fabric.read(node, CARRIER) == "0"
        assert fabric.read(node, OTHER_CARRIER) == "1"
        fabric.eventually(node, PORT_STATE, "1: DOWN")
    cable("up")
    assert fabric.read("spark-a", CARRIER) == "1"
    fabric.eventually("spark-a", PORT_STATE, "4: ACTIVE")
    assert reaches(fabric, "10.77.0.2")


def test_a_cable_that_drops_everything_keeps_its_carrier(fabric, cable):
    cable("drop")
    assert fabric.read("spark-a", CARRIER) == "1"
    assert not reaches(fabric, "10.77.0.2")
    assert reaches(fabric, "10.78.0.2")
    cable("pass")
    assert reaches(fabric, "10.77.0.2")


def test_a_narrow_path_loses_large_packets_only(fabric, cable):
    cable("mtu", "1500")
    assert reaches(fabric, "10.77.0.2", 1472)
    assert not reaches(fabric, "10.77.0.2", 8972)
    for node in ("spark-a", "spark-b"):
        assert "tcp-segmentation-offload: off" in fabric.sh(node, f"ethtool -k {RAIL}")
    cable("mtu", "9000")
    assert reaches(fabric, "10.77.0.2", 8972)


def test_a_pulled_cable_stays_pulled_over_a_reboot(fabric, cable):
    cable("down")
    fabric("reboot", "spark-b")
    assert fabric.read("spark-b", CARRIER) == "0"


def test_power_off_takes_the_peers_carrier_and_nothing_else(pair):
    pair("off", "spark-b")
    assert pair.read("spark-a", CARRIER) == "0"
    assert pair.read("spark-a", "/sys/class/net/eth0/carrier") == "1"
    pair("on", "spark-b")
    assert pair.read("spark-a", CARRIER) == "1"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("spark-z", RAIL, "up"), "no node 'spark-z'"),
        (("spark-a", "eth0", "up"), "invalid choice: 'eth0'"),
        (("spark-a", RAIL, "cut"), "wanted up, down, pass, drop or mtu BYTES"),
        (("spark-a", RAIL, "mtu", "big"), "wanted up, down, pass, drop or mtu BYTES"),
    ],
)
def test_a_wrong_command_says_what_is_wanted(pair, words, complaint):
    result = pair.run("cable", *words)
    assert result.returncode and complaint in result.stderr
