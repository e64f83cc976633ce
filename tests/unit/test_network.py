# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links, routes, and by which interface a node is managed."""

from __future__ import annotations

import json
from ipaddress import ip_interface

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import network
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from sysfs_tree import put

ADDRESSES = {
    "lo": (ip_interface("127.0.0.1/8"),),
    "enP7s7": (ip_interface("192.168.50.11/24"), ip_interface("fe80::11/64")),
    "wlP9s9": (ip_interface("10.7.0.5/16"),),
    "enp1s0f0np0": (ip_interface("192.168.177.1/29"),),
    "bond0": (ip_interface("10.8.0.1/24"),),
}
LOWER = {"bond0": ["enp1s0f1np1", "vlan7"], "vlan7": ["enP2p1s0f1np1"]}


@pytest.mark.parametrize(
    ("defaults", "routes", "connected", "expected"),
    [
        ([], {}, [], {}),
        (["enP7s7"], {}, [], {"enP7s7": ["default route"]}),
        (["enP7s7", "wlP9s9"], {}, [], {"enP7s7": ["default route"], "wlP9s9": ["default route"]}),
        ([], {"the ssh client 10.7.0.9": "wlP9s9"}, [], {"wlP9s9": ["route to the ssh client 10.7.0.9"]}),
        ([], {"the controller 10.7.0.9": None}, [], {}),
        ([], {}, ["192.168.50.11"], {"enP7s7": ["address 192.168.50.11, which Ansible connects to"]}),
        ([], {}, ["fe80::11"], {"enP7s7": ["address fe80::11, which Ansible connects to"]}),
        ([], {}, ["spark-a", "127.0.0.1"], {}),
        (
            ["enP7s7"],
            {"the controller 192.168.50.1": "enP7s7"},
            ["192.168.50.11", "192.168.50.11"],
            {
                "enP7s7": [
                    "default route",
                    "route to the controller 192.168.50.1",
                    "address 192.168.50.11, which Ansible connects to",
                ]
            },
        ),
        (
            ["bond0"],
            {},
            [],
            {
                "bond0": ["default route"],
                "enp1s0f1np1": ["carries bond0"],
                "vlan7": ["carries bond0"],
                "enP2p1s0f1np1": ["carries vlan7"],
            },
        ),
    ],
)
def test_management(defaults, routes, connected, expected):
    found = network.management(defaults, routes, connected, ADDRESSES, LOWER)
    assert {each.name: list(each.reasons) for each in found} == expected


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ([], []),
        (
            [{"dst": "default", "gateway": "10.0.0.1", "dev": "eth0"}, {"dst": "10.0.0.0/24", "dev": "eth1"}],
            ["eth0"],
        ),
        ([{"dst": "default", "dev": "eth0", "table": "7"}, {"dst": "default", "dev": "lo"}], ["eth0"]),
        ([{"dst": "default", "nexthops": [{"dev": "eth0"}, {"dev": "eth1"}]}], ["eth0", "eth1"]),
        ([{"type": "unreachable", "dst": "default"}], []),
    ],
)
def test_default_routes(routes, expected):
    assert network.default_netdevs(json.dumps(routes), "[]") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"dst":"10.0.0.9","gateway":"10.1.0.1","dev":"eth0","prefsrc":"10.1.0.2"}]', "eth0"),
        ('[{"type":"local","dst":"10.1.0.2","dev":"lo"}]', None),
        ("RTNETLINK answers: Network is unreachable", None),
        ("", None),
        ("[null, 7]", None),
        ('{"dev": "eth0"}', None),
    ],
)
def test_route_to_one_address(text, expected):
    assert network.route_netdev(text) == expected


def test_addresses():
    text = json.dumps(
        [
            {
                "ifname": "eth0",
                "addr_info": [
                    {"family": "inet", "local": "10.0.0.1", "prefixlen": 29},
                    {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
                    {},
                ],
            },
            {"ifname": "eth1"},
        ]
    )
    found = network.read_addresses(text)
    assert {name: list(map(str, held)) for name, held in found.items()} == {
        "eth0": ["10.0.0.1/29", "fe80::1/64"],
        "eth1": [],
    }
    assert network.read_addresses("no JSON") == {}


def test_links(tmp_path):
    function = tmp_path / "devices/0000:01:00.0"
    function.mkdir(parents=True)
    for name, value in (
        ("address", "02:00:00:00:00:01"),
        ("mtu", "9000"),
        ("operstate", "up"),
        ("speed", "200000"),
        ("flags", "0x1003"),
    ):
        put(tmp_path / "class/net/enp1s0f0np0" / name, value)
    (tmp_path / "class/net/enp1s0f0np0/device").symlink_to(function)
    put(tmp_path / "class/net/veth0/speed", "-1")
    put(tmp_path / "class/net/veth0/flags", "0x1002")
    put(tmp_path / "class/net/veth1/flags", "no")
    put(tmp_path / "class/net/bonding_masters", "bond0")
    (tmp_path / "class/net/veth0/lower_enp1s0f0np0").symlink_to(tmp_path)
    tree = Tree(str(tmp_path))
    first, second, third = network.read_links(tree, ADDRESSES)
    assert (first.up, second.up, third.up) == (True, False, None)
    assert (first.name, first.mtu, first.carrier, first.speed_mbps) == ("enp1s0f0np0", 9000, True, 200000)
    assert (first.pci, first.addresses) == ("0000:01:00.0", ("192.168.177.1/29",))
    assert (second.name, second.mtu, second.carrier, second.speed_mbps, second.pci) == (
        "veth0",
        None,
        None,
        None,
        None,
    )
    assert network.lower_links(tree) == {"enp1s0f0np0": [], "veth0": ["enp1s0f0np0"], "veth1": []}
    assert tree.unreadable == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], None),
        (["network: {version: 2}"], None),
        (["network:\n  version: 2\n  renderer: NetworkManager\n"], "NetworkManager"),
        (["network: {version: 2, renderer: networkd}"], "networkd"),
        (["network:\n  renderer: NetworkManager\n", "network:\n  renderer: networkd\n"], "networkd"),
        (
            ["network:\n  ethernets:\n    eth0:\n      renderer: networkd\n  renderer: NetworkManager\n"],
            "NetworkManager",
        ),
        (["# renderer: networkd\nnetwork:\n  renderer: 'NetworkManager'\n"], "NetworkManager"),
    ],
)
def test_netplan_renderer(texts, expected):
    assert network.netplan_renderer(texts) == expected


@pytest.mark.parametrize(
    ("netplan", "renderer", "networkd", "manager", "expected"),
    [
        (True, "networkd", True, True, "netplan-networkd"),
        (True, "NetworkManager", True, True, "netplan-networkmanager"),
        (True, None, True, False, "netplan-networkd"),
        (True, None, False, True, "netplan-networkmanager"),
        (True, None, False, False, "netplan-networkd"),
        (False, None, True, True, "networkmanager"),
        (False, None, True, False, "networkd"),
        (False, None, False, False, "none"),
    ],
)
def test_backend(netplan, renderer, networkd, manager, expected):
    assert network.backend(netplan, renderer, networkd, manager) == expected
