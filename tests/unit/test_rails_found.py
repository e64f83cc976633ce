# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which functions of a node are rails and why others are not; addresses that a pair has already."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils.rails_found import (
    cabled,
    found,
    functions,
    left_out,
    taken,
)

A, B, C = "enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1"
OURS = ip_network("192.168.177.0/24")


def function(netdev=A, pci="0000:01:00.0", layer="Ethernet", state="ACTIVE", rate=200.0, **link):
    """One function as (device, interface); link: what its interface has."""
    port = {"netdev": netdev, "link_layer": layer, "state": state, "rate_gbps": rate}
    has = {"name": netdev, "carrier": True, "addresses": [], "virtual_function": False, **link}
    return {"name": f"hca-{netdev}", "pci": pci, "ports": [port]}, has


def node(*functions, others=(), plan=None, management=("enP7s7",)):
    links = [{"name": "lo", "carrier": True, "addresses": ["127.0.0.1/8"]}]
    links.append({"name": "enP7s7", "carrier": True, "addresses": ["192.168.1.7/24"]})
    return {
        "network": {
            "links": [*links, *others, *(link for _device, link in functions)],
            "management": [{"name": name, "reasons": ["default route"]} for name in management],
        },
        "ibv": {"devices": [device for device, _link in functions]},
        "plan": plan,
    }


def planned(*rails, hosts=("a", "b")):
    return {"hosts": list(hosts), "fabric": {"rails": list(rails)}}


def rail(netdev=A, address="169.254.7.1/16", peers=("169.254.7.2",), **more):
    return {"netdev": netdev, "address": address, "peers": list(peers), **more}


SECOND = function(B, "0002:01:00.0")


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (function(), None),
        (function(carrier=False), "has no carrier"),
        (function(carrier=None), "has no carrier"),
        (function(carrier=False, up=True), "has no carrier"),
        (function(carrier=False, up=False), "is switched off"),
        (function(layer="InfiniBand"), "is of link layer InfiniBand"),
        (function(layer=None), "is of link layer unknown"),
        (function(state="DOWN"), "has its RDMA port in state DOWN"),
        (function(state=None), None),
        (function(rate=40.0), "runs at 40 Gb/s where another one runs at 200 Gb/s"),
        (function(rate=None), None),
        (function(virtual_function=True), "is a virtual function of another one"),
    ],
)
def test_why_a_function_is_no_rail(first, why):
    assert functions(node(first, SECOND)) == {A: why, B: None}
    told = list(left_out("a", node(first, SECOND), [B]))
    assert [each.summary for each in told] == ([f"{A} is no rail: it {why}"] if why else [])


def test_the_way_to_the_node_is_no_rail():
    assert (
        functions(node(function(), SECOND, management=[B]))[B] == "is a management interface (default route)"
    )


def test_a_slow_cable_is_measured_against_those_that_carry():
    """The rate of a function without a cable says nothing."""
    assert cabled(node(function(rate=100.0), function(B, "0002:01:00.0", rate=400.0, carrier=False))) == [A]


def test_what_is_named_is_not_told_to_be_left_out():
    assert not list(left_out("a", node(function(carrier=False), SECOND), [A, B]))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (None, [B]),
        ("no plan", [B]),
        (planned(rail(A), rail(B)), [A, B]),
        (planned(rail(C)), [B]),
        (planned(rail("gone")), [B]),
    ],
)
def test_a_pulled_cable_gives_no_rail_up(plan, expected):
    seen = node(function(carrier=False), SECOND, function(C, "0000:01:00.1", carrier=False), plan=plan)
    assert found(seen) == expected


def pair(first, second, plans=(None, None), others=((), ())):
    """Two nodes whose rails have these addresses: lists for the first and the second rail."""
    return {
        host: node(
            function(addresses=addresses[0]),
            function(B, "0002:01:00.0", addresses=addresses[1]),
            others=[{"name": "docker0", "carrier": True, "addresses": list(more)}],
            plan=plan,
        )
        for host, addresses, plan, more in zip("ab", (first, second), plans, others, strict=True)
    }


def texts(nodes, rails=None):
    addresses, notes = taken(nodes, rails or {host: [A, B] for host in nodes}, OURS)
    return {f"{host}{index}": text for (host, index), text in addresses.items()}, [each.id for each in notes]


FACTORY = {"a0": "169.254.7.1/16", "b0": "169.254.9.9/16"}


@pytest.mark.parametrize(
    ("nodes", "addresses", "ids"),
    [
        (pair(([], []), ([], [])), {}, []),
        # The vendor's own set-up: link-local on one function of the cage, nothing on its twin.
        (
            pair((["169.254.7.1/16", "fe80::1/64"], []), (["169.254.9.9/16"], [])),
            FACTORY,
            ["plan.rail.taken"],
        ),
        (
            pair(
                (["192.168.100.10/24"], ["192.168.101.10/24"]), (["192.168.100.11/24"], ["192.168.101.11/24"])
            ),
            {
                "a0": "192.168.100.10/24",
                "b0": "192.168.100.11/24",
                "a1": "192.168.101.10/24",
                "b1": "192.168.101.11/24",
            },
            ["plan.rail.taken", "plan.rail.taken"],
        ),
        # A second address of one rank only is no matter.
        (
            pair((["10.1.0.1/24", "10.2.0.1/24"], []), (["10.2.0.2/24"], [])),
            {"a0": "10.2.0.1/24", "b0": "10.2.0.2/24"},
            ["plan.rail.taken"],
        ),
        # Both functions in one subnet: the kernel would send through one of them.
        (
            pair((["169.254.7.1/16"], ["169.254.7.3/16"]), (["169.254.7.2/16"], ["169.254.7.4/16"])),
            {},
            ["plan.rail.twins"],
        ),
        (pair((["10.1.0.1/24"], []), ([], [])), {}, []),
        (pair((["10.1.0.1/24"], []), (["10.9.0.1/24"], [])), {}, []),
        (pair((["10.1.0.1/24"], []), (["10.1.0.2/25"], [])), {}, []),
        (pair((["10.1.0.1/24"], []), (["10.1.0.1/24"], [])), {}, []),
        (pair((["10.1.0.1/32"], []), (["10.1.0.1/32"], [])), {}, []),
        # What this collection planned is planned again, and what another interface reaches is no rail's.
        (pair((["192.168.177.1/29"], []), (["192.168.177.2/29"], [])), {}, []),
        (pair((["10.1.0.1/24"], []), (["10.1.0.2/24"], []), others=((), ["10.1.0.9/16"])), {}, []),
        # A plan in force decides, whatever else there is and whatever was lost.
        (
            pair((["10.1.0.1/24"], []), (["10.1.0.2/24"], []), (planned(rail()), planned(rail()))),
            {},
            [],
        ),
        (
            pair(
                (["10.1.0.1/24"], []),
                ([], []),
                (
                    planned(rail(taken=True)),
                    planned(rail(address="169.254.7.2/16", peers=["169.254.7.1"], taken=True)),
                ),
            ),
            {"a0": "169.254.7.1/16", "b0": "169.254.7.2/16"},
            ["plan.rail.taken"],
        ),
        # A machine in the place of another one gets that one's address.
        (
            pair(([], []), (["10.1.0.2/24"], []), (planned(rail(taken=True)), None)),
            {"a0": "169.254.7.1/16", "b0": "169.254.7.2/16"},
            ["plan.rail.taken"],
        ),
        (pair(([], []), ([], []), (planned(rail(address="x", taken=True)), None)), {}, []),
    ],
)
def test_addresses_that_are_taken_as_they_are(nodes, addresses, ids):
    assert texts(nodes) == (addresses, ids)


def test_a_rank_that_is_not_looked_at_keeps_what_its_peer_knows():
    nodes = {**pair(([], []), ([], []), (planned(rail(taken=True)), None)), "b": None}
    assert texts(nodes, {"a": [A, B], "b": []})[0] == {"a0": "169.254.7.1/16", "b0": "169.254.7.2/16"}


def test_nothing_is_taken_while_a_rank_is_unknown():
    nodes = {**pair((["10.1.0.1/24"], []), (["10.1.0.2/24"], [])), "b": None}
    assert texts(nodes, {"a": [A, B], "b": []}) == ({}, [])
