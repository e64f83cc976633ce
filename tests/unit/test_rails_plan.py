# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails as wanted against rails as found: pure comparisons and refusals."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import (
    Rail,
    RailsError,
    Route,
    differences,
    extra_addresses,
    read_links,
    read_rails,
    read_routes,
    refusals,
)
from pretend_node import link

A = Rail("enp1s0f0np0", "192.168.177.1/29", 9000, ("192.168.177.2",))
B = Rail("enP2p1s0f0np0", "192.168.177.9/29", 9000, ("192.168.177.10",))
DEFAULT = Route("default", "enP7s7")


def item(netdev="enp1s0f0np0", address="192.168.177.1/29", peers=("192.168.177.2",)):
    return {"netdev": netdev, "address": address, "peers": list(peers), "index": 0, "hca": None}


def test_the_plan_is_read():
    assert read_rails([item(), item(B.netdev, B.address, B.peers)], 9000) == [A, B]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([item(netdev="")], "has no netdev"),
        ([item(address="192.168.177.1/29x")], "'192.168.177.1/29x'"),
        ([item(address="fd00::1/64")], "'fd00::1/64'"),
        ([item(address="192.168.177.1/31", peers=[])], "no room for a peer"),
        ([item(address="192.168.177.1", peers=[])], "no room for a peer"),
        ([item(address="192.168.177.0/29")], "the broadcast one"),
        ([item(address="192.168.177.7/29")], "the broadcast one"),
        ([item(netdev="lo")], "never leaves this node"),
        ([item(), item()], "named twice"),
        ([item(), item(B.netdev, "192.168.177.3/29", [])], "in the subnet of enp1s0f0np0"),
        ([item(peers=["192.168.177.9"])], "peer 192.168.177.9"),
        ([item(peers=["192.168.177.1"])], "peer 192.168.177.1"),
        ([item(peers=["spark-b"])], "peer spark-b"),
    ],
)
def test_what_cannot_be_is_refused(items, said):
    with pytest.raises(RailsError, match=said):
        read_rails(items, 9000)


@pytest.mark.parametrize("mtu", [-1, 0, 1279, 65536, 10**30])
def test_a_number_that_is_no_mtu_is_refused(mtu):
    with pytest.raises(RailsError, match="no MTU"):
        read_rails([item()], mtu)


def test_all_problems_are_told_at_once():
    with pytest.raises(RailsError) as caught:
        read_rails([item(address="nonsense"), item(B.netdev, "192.168.177.9/29", ["10.0.0.1"])], 9000)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("found", "subjects"),
    [
        (link(A.netdev, A.address, mtu=9000), []),
        (link(A.netdev, A.address, mtu=1500), ["mtu"]),  # case 036: a firmware update resets it
        (link(A.netdev, mtu=9000), ["address"]),  # case 042: its unit is active, the address gone
        (link(A.netdev, "192.168.177.1/24", mtu=9000), ["address"]),
        (link(A.netdev, mtu=1500, up=False), ["down", "mtu", "address"]),
        (link(A.netdev, A.address, "10.9.9.9/24", mtu=9000), []),
    ],
)
def test_differences(found, subjects):
    told = differences([A], {A.netdev: found})
    assert [each.subject for each in told] == subjects
    assert all(each.finding().fixed_by == "fabric" for each in told)


@pytest.mark.parametrize(
    ("links", "routes", "management", "ids"),
    [
        ([link(A.netdev)], [DEFAULT], ["enP7s7"], []),
        ([link(A.netdev)], [DEFAULT], [A.netdev], ["fabric.rail.management"]),
        ([link(A.netdev)], [DEFAULT, Route("default", A.netdev)], [], ["fabric.rail.management"]),
        ([link(A.netdev)], [], [], ["host.management.unknown"]),
        ([], [DEFAULT], [], ["fabric.rail.missing"]),
        ([link(A.netdev, master="bond0")], [DEFAULT], [], ["fabric.rail.enslaved"]),
        # Case 044: the default subnet of the rails is also the LAN.
        ([link(A.netdev), link("lan0", "192.168.177.5/24")], [DEFAULT], [], ["fabric.subnet.overlaps_route"]),
        (
            [link(A.netdev), link("tun0")],
            [DEFAULT, Route("192.168.0.0/16", "tun0")],
            [],
            ["fabric.subnet.overlaps_route"],
        ),
        ([link(A.netdev)], [DEFAULT, Route("192.168.177.0/29", A.netdev)], [], []),
    ],
)
def test_refusals(links, routes, management, ids):
    told = refusals([A], [], {each.name: each for each in links}, routes, management)
    assert [each.id for each in told] == ids


def test_rails_may_swap_their_subnets():
    links = {A.netdev: link(A.netdev, B.address), B.netdev: link(B.netdev, A.address)}
    routes = [DEFAULT, Route("192.168.177.8/29", A.netdev), Route("192.168.177.0/29", B.netdev)]
    assert refusals([A, B], [], links, routes, []) == []
    assert [each.subject for each in differences([A, B], links)] == ["mtu", "address"] * 2


def test_a_rail_of_an_earlier_plan_that_became_the_way_in_is_refused():
    told = refusals([A], [B.netdev], {A.netdev: link(A.netdev)}, [DEFAULT], [B.netdev])
    assert [each.id for each in told] == ["fabric.rail.management"]


def test_merged_addresses_are_seen():
    links = {A.netdev: link(A.netdev, A.address, "192.168.100.10/24", "169.254.7.7/16")}
    told = extra_addresses([A, B], links)
    assert [each.summary.split()[3].rstrip(",") for each in told] == ["192.168.100.10/24", "169.254.7.7/16"]


ADDRESSES = """[
 {"ifname": "enp1s0f0np0", "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 9000,
  "address": "02:00:00:00:00:01",
  "addr_info": [
   {"family": "inet", "local": "192.168.177.1", "prefixlen": 29, "scope": "global"},
   {"family": "inet", "local": "10.0.0.7", "prefixlen": 24, "scope": "global", "dynamic": true},
   {"family": "inet", "local": "169.254.7.7", "prefixlen": 16, "scope": "link"},
   {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"}]},
 {"ifname": "enp1s0f1np1", "flags": ["BROADCAST"], "mtu": 1500, "master": "bond0",
  "address": "02:00:00:00:00:02", "addr_info": [{}]}]"""


def test_links_are_read():
    rail, idle = read_links(ADDRESSES).values()
    assert rail.up and rail.carrier and rail.mtu == 9000
    assert rail.texts == ["192.168.177.1/29", "10.0.0.7/24", "169.254.7.7/16"]
    assert [address.lasting for address in rail.addresses] == [True, False, False]
    assert not idle.up and not idle.carrier and idle.master == "bond0" and idle.texts == []
    assert read_links("") == {}


def test_routes_are_read():
    text = '[{"dst": "default", "dev": "enP7s7"}, {"type": "blackhole", "dst": "10.0.0.0/8"}]'
    assert read_routes(text) == [DEFAULT]
