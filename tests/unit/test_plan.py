# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a group and every problem that it can have."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils.group import Rank
from ansible_collections.tandem.spark.plugins.plugin_utils.plan import node_plan, plan_group
from ansible_collections.tandem.spark.plugins.plugin_utils.rails_found import cabled

PROFILE = {
    "name": "p",
    "tensor_parallel_size": 2,
    "accelerator": "gb10",
    "served_model_name": "m",
    "runtime": {"machine": "aarch64", "python": "3.12"},
    "transport": "rdma",
    "nccl": {"environment": {"NCCL_DEBUG": "INFO"}},
    "warm_up": {},
    "engine": {"start_timeout_s": 600},
}
VARIABLES = {
    "tandem_fabric_rails": [],
    "tandem_fabric_supernet": "192.168.177.0/24",
    "tandem_fabric_mtu": 9000,
    "tandem_api_port": 8888,
    "tandem_api_host": "0.0.0.0",
    "tandem_master_port": 25000,
    "tandem_guard_port": 25001,
    "tandem_guard_http_host": "0.0.0.0",
    "tandem_guard_http_port": 25002,
    "tandem_guard_limits": {},
    "tandem_cache_max_gib": 20,
}


def link(name, carrier=True, addresses=()):
    return {"name": name, "carrier": carrier, "addresses": list(addresses), "mtu": 1500}


def node(rails=("enp1s0f0np0", "enP2p1s0f0np0"), management="192.168.1.10/24"):
    """A node as node_info sees it: two cabled functions of one cage and a management link."""
    devices = [
        {
            "name": f"roce{number}",
            "pci": f"000{2 * number}:01:00.0",
            "ports": [{"netdev": name, "link_layer": "Ethernet"}],
        }
        for number, name in enumerate(rails)
    ]
    links = [link("lo"), link("eth0", addresses=[management]), *(link(name) for name in rails)]
    return {
        "arch": "aarch64",
        "python": {"version": "3.12.3"},
        "network": {"links": links, "management": [{"name": "eth0", "reasons": ["default route"]}]},
        "ibv": {"devices": devices[::-1]},
        "listeners": [],
        "gpu": {"processes": []},
    }


def ranks(*nodes, **variables):
    return [
        Rank(number, f"spark-{'abcd'[number]}", {**VARIABLES, **variables}, each)
        for number, each in enumerate(nodes or (node(), node()))
    ]


def ids(plan):
    """What is wrong; what is only told has tests of its own."""
    return sorted(finding.id for finding in plan.findings if finding.severity != "info")


def addresses(plan):
    return {host: [str(rail.address) for rail in rails] for host, rails in plan.rails.items()}


def test_two_factory_machines():
    plan = plan_group("tandem", ranks(), PROFILE)
    assert ids(plan) == []
    assert addresses(plan) == {
        "spark-a": ["192.168.177.1/29", "192.168.177.9/29"],
        "spark-b": ["192.168.177.2/29", "192.168.177.10/29"],
    }


def test_rails_are_in_pci_order_on_every_box():
    other = node(rails=("zz0", "aa0"))
    assert cabled(other) == ["zz0", "aa0"]
    plan = plan_group("tandem", ranks(node(), other), PROFILE)
    assert [rail.netdev for rail in plan.rails["spark-b"]] == ["zz0", "aa0"]
    assert [rail.hca for rail in plan.rails["spark-b"]] == ["roce0", "roce1"]


def test_a_cabled_management_interface_is_no_rail():
    managed = node()
    managed["network"]["management"].append({"name": "enp1s0f0np0", "reasons": ["default route"]})
    assert cabled(managed) == ["enP2p1s0f0np0"]


@pytest.mark.parametrize(
    ("given", "second"),
    [("192.168.177.1/29", ".9/29"), ("192.168.177.1/25", ".129/29"), ("10.0.0.1/8", ".1/29")],
)
def test_a_rail_without_address_gets_the_next_free_subnet(given, second):
    pair = ranks()
    rails = [rail(address=given), rail("enP2p1s0f0np0")]
    pair[0] = Rank(0, "spark-a", {**VARIABLES, "tandem_fabric_rails": rails}, pair[0].node)
    plan = plan_group("tandem", pair, PROFILE)
    assert ids(plan) == [] and addresses(plan)["spark-a"] == [given, f"192.168.177{second}"]


def test_what_a_node_is_told():
    pair = ranks()
    plan = plan_group("tandem", pair, PROFILE)
    told = node_plan("tandem", pair, pair[1], plan, PROFILE)
    assert told["rank"] == 1 and told["master_addr"] == "192.168.177.1" and told["cache_max_gib"] == 20
    assert told["fabric"]["rails"][1] == {
        "index": 1,
        "netdev": "enP2p1s0f0np0",
        "hca": "roce1",
        "taken": False,
        "address": "192.168.177.10/29",
        "subnet": "192.168.177.8/29",
        "peers": ["192.168.177.9"],
    }


def test_a_host_outside_this_run_keeps_its_place():
    pair = ranks(None, node())
    plan = plan_group("tandem", pair, PROFILE)
    assert ids(plan) == []
    told = node_plan("tandem", pair, pair[1], plan, PROFILE)
    assert told["master_addr"] == "192.168.177.1"
    assert told["fabric"]["rails"][0]["peers"] == ["192.168.177.1"]


def rail(name="enp1s0f0np0", address=None):
    return {"netdev": name, "address": address} if address else {"netdev": name}


def with_listener(**more):
    changed = node()
    changed["listeners"] = [
        {"protocol": "tcp", "address": "0.0.0.0", "pid": 7, "process": "x", "unit": None, **more}
    ]
    return changed


def with_gpu_process(unit=None):
    changed = node()
    changed["gpu"]["processes"] = [{"pid": 9, "name": "python3", "memory_mib": 99, "unit": unit}]
    return changed


def without_carrier():
    changed = node()
    for each in changed["network"]["links"]:
        each["carrier"] = each["name"] == "eth0"
    return changed


def with_machine(**values):
    return {**node(), **values}


@pytest.mark.parametrize(
    ("nodes", "variables", "wanted"),
    [
        # rails
        ((without_carrier(), node()), {}, ["plan.rails.count", "plan.rails.none"]),
        ((node(), node(rails=("enp1s0f0np0",))), {}, ["plan.rails.count"]),
        ((), {"tandem_fabric_rails": [rail("enp9")]}, ["plan.rail.unknown_netdev"] * 2),
        ((), {"tandem_fabric_rails": [rail("eth0")]}, ["plan.rail.management"] * 2),
        (
            (node(management="192.168.177.3/24"), node()),
            {"tandem_fabric_rails": [rail("eth0")]},
            ["plan.rail.management"] * 2 + ["plan.rail.subnet_taken"],
        ),
        # addresses
        ((), {"tandem_fabric_rails": [rail(address="10.0.0.999/24")]}, ["plan.rail.address"] * 2),
        ((), {"tandem_fabric_rails": [rail(address="10.0.0.1")]}, ["plan.rail.address"] * 2),
        ((), {"tandem_fabric_rails": [rail(address="10.0.0.0/24")]}, ["plan.rail.address"] * 2),
        ((), {"tandem_fabric_rails": [rail(address="fd00::1/64")]}, ["plan.rail.address"] * 2),
        ((), {"tandem_fabric_rails": [rail(address="10.0.0.1/24")]}, ["plan.rail.address_twice"]),
        *(
            ((), {"tandem_fabric_rails": [rail(address=address)]}, ["plan.rail.address"] * 2)
            for address in ("10.0.0.1/32", "10.0.0.0/31", "127.0.0.5/24", "0.0.0.1/0", "224.0.0.5/24")
        ),
        ((), {"tandem_fabric_rails": [rail(), rail()]}, ["plan.rail.named_twice"] * 2),
        ((), {"tandem_fabric_rails": [rail("lo")]}, ["plan.rail.unknown_netdev"] * 2),
        # subnets
        ((), {"tandem_fabric_supernet": "192.168.0.0/16", "tandem_fabric_rails": [rail()]}, []),
        ((), {"tandem_fabric_supernet": "192.168.1.0/24"}, ["plan.rail.subnet_taken"] * 4),
        ((node(management="192.168.177.130/24"), node()), {}, ["plan.rail.subnet_taken"] * 2),
        ((), {"tandem_fabric_supernet": "192.168.177.0/29"}, ["plan.fabric.supernet"]),
        *(
            ((), {"tandem_fabric_supernet": supernet}, ["plan.fabric.supernet"])
            for supernet in ("nonsense", "", "fd00::/64", "0.0.0.0/0", "127.0.0.0/24", "10.0.0.1")
        ),
        # ranks
        ((node(), node(), node()), {}, ["plan.ranks.tensor_parallel"]),
        ((node(),), {}, ["plan.ranks.tensor_parallel"]),
        # machines
        ((with_machine(arch="x86_64"), node()), {}, ["plan.node.machine"]),
        ((node(), with_machine(python={"version": "3.11.2"})), {}, ["plan.node.python"]),
        # occupied
        ((), {"tandem_master_port": 8888}, ["plan.port.same"]),
        ((with_listener(port=8888), node()), {}, ["plan.port.taken"]),
        ((with_listener(port=25000), node()), {}, ["plan.port.taken"]),
        ((with_listener(port=8888, unit="tandem-head.service"), node()), {}, []),
        ((with_listener(port=8888, protocol="udp"), node()), {}, []),
        ((node(), with_listener(port=8888)), {}, []),
        ((), {"tandem_guard_port": 25002}, ["plan.port.same"]),
        ((with_listener(port=25001), node()), {}, ["plan.port.taken"]),
        ((node(), with_listener(port=25001)), {}, []),
        ((node(), with_listener(port=25002)), {}, ["plan.port.taken"]),
        ((node(), with_listener(port=25002, unit="tandem-guard.service")), {}, []),
        # access
        (
            (),
            {
                "tandem_access_guard_from": ["192.168.1.0/24", "fd00::1"],
                "tandem_access_api_from": ["0.0.0.0/0"],
            },
            [],
        ),
        ((), {"tandem_access_guard_from": ["192.168.1.0/24", "lan"]}, ["plan.access.network"]),
        ((), {"tandem_access_rails_from": ["192.168.1.300"]}, ["plan.access.network"]),
        ((), {"tandem_api_key": "0123456789abcdef"}, []),
        ((), {"tandem_api_key": "short"}, ["plan.access.key"]),
        ((node(), with_gpu_process()), {}, ["plan.gpu.taken"]),
        ((node(), with_gpu_process("tandem-worker.service")), {}, []),
    ],
)
def test_each_problem_is_found(nodes, variables, wanted):
    assert ids(plan_group("tandem", ranks(*nodes, **variables), PROFILE)) == wanted


def test_a_key_that_cannot_be_is_not_shown():
    plan = plan_group("tandem", ranks(tandem_api_key="hunter 2"), PROFILE)
    assert "hunter" not in repr(plan.findings)


def test_addresses_given_on_one_rank_set_the_subnet_of_the_other():
    pair = ranks()
    pair[0] = Rank(
        0, "spark-a", {**VARIABLES, "tandem_fabric_rails": [rail(address="10.9.0.7/24")]}, pair[0].node
    )
    pair[1] = Rank(1, "spark-b", {**VARIABLES, "tandem_fabric_rails": [rail()]}, pair[1].node)
    plan = plan_group("tandem", pair, PROFILE)
    assert ids(plan) == [] and addresses(plan) == {"spark-a": ["10.9.0.7/24"], "spark-b": ["10.9.0.2/24"]}


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        (["10.9.0.2/24", None], ["10.9.0.2/24", "10.9.0.1/24"]),
        ([None, "10.9.0.1/24"], ["10.9.0.2/24", "10.9.0.1/24"]),
        ([None, None, None, "10.9.0.3/29"], ["10.9.0.1/29", "10.9.0.2/29", "10.9.0.4/29", "10.9.0.3/29"]),
        (["10.9.0.4/29", None, None, None], ["10.9.0.4/29", "10.9.0.2/29", "10.9.0.3/29", "10.9.0.1/29"]),
        # As wide as can be: the hosts of it are never listed.
        (["10.9.0.2/8", None], ["10.9.0.2/8", "10.0.0.2/8"]),
        # Room for two.
        (["10.9.0.1/30", None, None], ["10.9.0.1/30", "10.9.0.2/30", "None"]),
    ],
)
def test_addresses_beside_given_ones(given, planned):
    group = [
        Rank(rank.number, rank.host, {**VARIABLES, "tandem_fabric_rails": [rail(address=address)]}, rank.node)
        for rank, address in zip(ranks(*[node()] * len(given)), given, strict=True)
    ]
    plan = plan_group("tandem", group, {**PROFILE, "tensor_parallel_size": len(given)})
    assert [first for (first,) in addresses(plan).values()] == planned
    assert ids(plan) == ["plan.rail.full"] * planned.count("None")


def test_a_port_of_a_card_with_several_is_named_with_its_number():
    card = node()
    ports = [
        {"port": n + 1, "netdev": device["ports"][0]["netdev"], "link_layer": "Ethernet"}
        for n, device in enumerate(card["ibv"]["devices"])
    ]
    card["ibv"]["devices"] = [{"name": "mlx5_0", "pci": "0000:01:00.0", "ports": ports}]
    plan = plan_group("tandem", ranks(card, node()), PROFILE)
    assert {rail.hca for rail in plan.rails["spark-a"]} == {"mlx5_0:1", "mlx5_0:2"}


def planned(*rails, pulled=()):
    """A node that an earlier run planned these rails for; the cables of some are pulled now."""
    changed = node()
    changed["plan"] = {"fabric": {"rails": [{"netdev": name} for name in rails]}}
    for each in changed["network"]["links"]:
        each["carrier"] = each["name"] not in pulled
    return changed


RAIL, TWIN = "enp1s0f0np0", "enP2p1s0f0np0"


@pytest.mark.parametrize(
    ("nodes", "lost"),
    [
        ((planned(RAIL, TWIN), planned(RAIL, TWIN)), 0),
        # pulled: the rail is named, and the one that is left keeps its number
        ((planned(RAIL, TWIN, pulled=[RAIL]), planned(RAIL, TWIN, pulled=[RAIL])), 2),
        ((planned(RAIL, TWIN, pulled=[RAIL, TWIN]), planned(RAIL, TWIN)), 2),
        # moved to another cage, or a rail more than before: what has a cable counts
        ((planned("enp1s0f1np1", "enP2p1s0f1np1"), planned(RAIL, TWIN)), 0),
        ((planned(RAIL), planned(RAIL)), 0),
    ],
)
def test_a_pulled_cable_is_named_and_renumbers_nothing(nodes, lost):
    plan = plan_group("tandem", ranks(*nodes), PROFILE)
    assert ids(plan) == ["plan.rail.lost"] * lost
    assert [rail.netdev for rail in plan.rails["spark-a"]] == [RAIL, TWIN]


def test_rails_that_are_named_may_be_fewer_than_before():
    pair = ranks(planned(RAIL, TWIN, pulled=[RAIL]), planned(RAIL, TWIN), tandem_fabric_rails=[rail(TWIN)])
    assert ids(plan_group("tandem", pair, PROFILE)) == []


@pytest.mark.parametrize("plan", [None, {}, {"fabric": {}}, {"fabric": [1]}, {"fabric": {"rails": [1, {}]}}])
def test_an_earlier_plan_without_rails_is_none(plan):
    pair = ranks({**node(), "plan": plan}, node())
    assert ids(plan_group("tandem", pair, PROFILE)) == []


def test_an_address_outside_its_rails_subnet():
    pair = ranks()
    for number, address in enumerate(("10.9.0.1/24", "10.9.1.2/24")):
        variables = {**VARIABLES, "tandem_fabric_rails": [rail(address=address)]}
        pair[number] = Rank(number, pair[number].host, variables, pair[number].node)
    (finding,) = plan_group("tandem", pair, PROFILE).findings
    assert finding.id == "plan.rail.outside_subnet" and finding.hosts == ("spark-b",)
    assert "10.9.1.2/24" in finding.summary and "10.9.0.0/24" in finding.summary


def test_two_rails_in_one_subnet():
    pair = ranks()
    for number in (0, 1):
        given = [rail(address=f"10.9.0.{number + 1}/24"), rail("enP2p1s0f0np0", f"10.9.0.{number + 11}/24")]
        pair[number] = Rank(
            number, pair[number].host, {**VARIABLES, "tandem_fabric_rails": given}, pair[number].node
        )
    assert ids(plan_group("tandem", pair, PROFILE)) == ["plan.rail.one_subnet"]


def test_all_problems_come_at_once():
    first = with_listener(port=8888)
    first["arch"] = "x86_64"
    found = ids(plan_group("tandem", ranks(first, without_carrier(), node()), PROFILE))
    assert found == sorted(
        [
            "plan.node.machine",
            "plan.port.taken",
            "plan.rails.count",
            "plan.rails.none",
            "plan.ranks.tensor_parallel",
        ]
    )


def test_the_nodes_are_not_changed_by_planning():
    pair = ranks()
    before = copy.deepcopy([rank.node for rank in pair])
    plan_group("tandem", pair, PROFILE)
    assert [rank.node for rank in pair] == before


def test_addresses_of_the_pair_are_kept_and_the_other_rail_is_planned():
    pair = ranks()
    for rank, text in zip(pair, ("169.254.7.1/16", "169.254.9.9/16"), strict=True):
        rank.node["network"]["links"][2]["addresses"] = [text]
    plan = plan_group("tandem", pair, PROFILE)
    assert ids(plan) == [] and [each.id for each in plan.findings] == ["plan.rail.taken"]
    assert addresses(plan) == {
        "spark-a": ["169.254.7.1/16", "192.168.177.1/29"],
        "spark-b": ["169.254.9.9/16", "192.168.177.2/29"],
    }
    told = node_plan("tandem", pair, pair[0], plan, PROFILE)["fabric"]["rails"]
    assert [each["taken"] for each in told] == [True, False]


def test_an_address_that_was_given_is_not_taken():
    pair = ranks()
    for rank, text in zip(pair, ("10.1.0.1/24", "10.1.0.2/24"), strict=True):
        rank.node["network"]["links"][2]["addresses"] = [text]
    rails = [rail(address="10.2.0.1/24"), rail("enP2p1s0f0np0")]
    pair[0] = Rank(0, "spark-a", {**VARIABLES, "tandem_fabric_rails": rails}, pair[0].node)
    plan = plan_group("tandem", pair, PROFILE)
    assert [each[0] for each in addresses(plan).values()] == ["10.2.0.1/24", "10.2.0.2/24"]


def remembering(total, available, unit="inactive"):
    units = {"tandem-head.service": {"active": unit}}
    return {**node(), "memory": {"total_gib": total, "available_gib": available}, "engine": {"units": units}}


@pytest.mark.parametrize(
    ("memory", "engine", "expected"),
    [
        ((121.69, 116.2), {"gpu-memory-utilization": 0.78}, []),
        # What is free stays below the total, whatever the page cache: the measured figure counts.
        ((121.69, 101.5), {"gpu-memory-utilization": 0.87}, ["memory.plan.not_free"]),
        ((121.69, 106.5), {"gpu-memory-utilization": 0.87}, ["memory.plan.no_headroom"]),
        ((63.0, 60.0), {"gpu-memory-utilization": 0.78}, ["memory.plan.no_kv"]),
        ((121.69, 20.0), {"gpu-memory-utilization": 0.78}, ["memory.plan.not_free"]),
        ((121.69, 20.0, "active"), {"gpu-memory-utilization": 0.78}, []),
        ((121.69, 20.0, "activating"), {"gpu-memory-utilization": 0.78}, []),
        ((121.69, 101.0), {"kv-cache-memory-bytes": 20 << 30}, ["memory.plan.not_free"]),
        ((121.69, 20.0), {}, []),
        ((None, None), {"gpu-memory-utilization": 0.78}, []),
        ((121.69, 116.2), {"gpu-memory-utilization": 78}, []),
    ],
)
def test_an_engine_that_does_not_fit_is_said_before_anything_starts(memory, engine, expected):
    profile = {**PROFILE, "engine": {"flags": engine, "expect": {"model_gib": 79.17}}}
    plan = plan_group("tandem", ranks(node(), remembering(*memory)), profile)
    assert ids(plan) == expected
    assert all(each.hosts == ("spark-b",) for each in plan.findings if each.id in expected)
    assert (
        ids(plan_group("tandem", ranks(node(), remembering(*memory)), {**profile, "accelerator": "none"}))
        == []
    )
