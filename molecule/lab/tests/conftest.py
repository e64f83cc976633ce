# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of two nodes for the tests that need one.

Run as root: python3 -m pytest molecule/lab/tests
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import host  # noqa: E402 - after the path to it
from handle import Handle  # noqa: E402 - after the path to it
from settings import Lab  # noqa: E402 - after the path to it


@pytest.fixture(scope="session")
def pair():
    """Two nodes, for all tests; each test leaves the cables as it found them."""
    host.check(Lab.from_environment())
    handle = Handle("labtest")
    handle("down")
    handle("up")
    yield handle
    handle("down")


@pytest.fixture
def fabric(pair):
    """Both rails of both nodes addressed at MTU 9000; rail 0 is 10.77.0.x, rail 1 is 10.78.0.x."""
    rails = {"enp1s0f0np0": "10.77.0", "enP2p1s0f0np0": "10.78.0"}
    for number, node in enumerate(("spark-a", "spark-b"), start=1):
        for rail, subnet in rails.items():
            pair.sh(node, f"ip link set {rail} mtu 9000 up; ip address add {subnet}.{number}/24 dev {rail}")
    yield pair
    for node in ("spark-a", "spark-b"):
        for rail in rails:
            pair.sh(node, f"ip -4 address flush dev {rail}; ip link set {rail} mtu 1500")
