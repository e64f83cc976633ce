# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the peers asked rightly, and is each failure named?"""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import rails
from ansible_collections.tandem.spark.plugins.module_utils.rails_peers import ping
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import Rail
from pretend_node import PretendNode, link

A = Rail("enp1s0f0np0", "192.168.177.1/29", 9000, ("192.168.177.2", "192.168.177.3"))
B = Rail("enP2p1s0f0np0", "192.168.177.9/29", 9000, ("192.168.177.10",))


def pair(tmp_path, **more):
    first = link(A.netdev, A.address, mtu=9000, **more)
    return PretendNode(tmp_path, first, link(B.netdev, B.address, mtu=9000))


def test_the_packet_is_full_whole_and_bound_to_the_rail():
    assert ping(A, "192.168.177.2", 8972)[-6:] == ["do", "-s", "8972", "-I", A.netdev, "192.168.177.2"]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (lambda netdev, peer, size: True, {}),
        (
            lambda netdev, peer, size: size <= 1500,
            {"fabric.peer.path_mtu": 3},
        ),  # case 035: one end was left at 1500
        (lambda netdev, peer, size: netdev == A.netdev, {"fabric.peer.no_answer": 1}),
        # Case 059: of three nodes in a ring each reaches its neighbour only.
        (lambda netdev, peer, size: netdev == B.netdev, {"fabric.peer.one_of_several": 2}),
        (lambda netdev, peer, size: peer != "192.168.177.3", {"fabric.peer.one_of_several": 1}),
    ],
)
def test_every_failure_is_told_at_once(tmp_path, answers, told):
    node = pair(tmp_path)
    node.answers = answers
    found = [each.id for each in rails.confirm(node, [A, B], 10)]
    assert {name: found.count(name) for name in found} == told


def test_a_pulled_cable_is_named_and_its_peers_are_not(tmp_path):
    found = rails.confirm(pair(tmp_path, carrier=False), [A, B], 10)
    assert [each.id for each in found] == ["fabric.rail.no_carrier"]


def test_a_peer_that_comes_within_the_time_is_good(tmp_path):
    node = pair(tmp_path)
    node.answers = lambda netdev, peer, size: node.clock > 8
    assert rails.confirm(node, [A, B], 10) == []
    assert node.clock < 10


def test_an_address_that_went_again_is_told(tmp_path):
    node = PretendNode(tmp_path, link(A.netdev, mtu=9000))
    assert [each.id for each in rails.confirm(node, [A], 1)] == ["fabric.rail.address"]
