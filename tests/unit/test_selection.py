# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which HCAs are chosen, and when an index is pinned: one kind of machine after the other."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    commands,
    fabric_look,
    fabric_wish,
    ibv,
    selection,
)
from sysfs_tree import write_tree

HEALTHY = """
rocep1s0f0 enp1s0f0np0
  1 fe80::1        v2
  2 10.9.0.1       v1
  3 10.9.0.1       v2
rocep1s0f1 enp1s0f1np1 state=DOWN rate=40 mtu=1500
  0 fe80::2        v1
roceP2p1s0f0 enP2p1s0f0np0
  1 fe80::3        v2
  2 10.9.1.1       v1
  3 10.9.1.1       v2
"""

# One HCA had a second link-local address before its IPv4 came; v1 and v2 are not neighbours there.
SHIFTED = """
rocep1s0f0 enp1s0f0np0
  0 fe80::1        v1
  1 fe80::1        v2
  2 fe80::d4d1:1   v1
  4 fe80::d4d1:1   v2
  5 10.9.0.2       v1
  6 10.9.0.2       v2
roceP2p1s0f0 enP2p1s0f0np0
  0 fe80::3        v1
  1 fe80::3        v2
  2 10.9.1.2       v1
  3 10.9.1.2       v2
"""

ONE_TWIN = """
rocep1s0f1 enp1s0f1np1
  3 10.9.0.1       v2
roceP2p1s0f1 enP2p1s0f1np1
  1 fe80::3        v2
"""

POLLUTED = """
rocep1s0f0 enp1s0f0np0
  3 10.9.0.1       v2
rocep1s0f1 enp1s0f1np1
  3 169.254.60.178 v2
roceP2p1s0f0 enP2p1s0f0np0
  3 169.254.22.230 v2
roceP2p1s0f1 enP2p1s0f1np1
  3 10.9.1.1       v2
"""

LINK_LOCAL = """
rocep1s0f1 enp1s0f1np1 mtu=1500
  1 fe80::1        v2
  3 169.254.10.11  v2
rocep1s0f0 enp1s0f0np0 state=DOWN
"""

LEGACY = """
mlx5_0 ens1f0np0 pci=0000:01:00.0 guid=a
  3 10.9.0.1       v2
mlx5_1 ens1f1np1 pci=0000:01:00.1 guid=a state=DOWN
mlx5_2 fabric7 pci=0002:01:00.0 guid=a
  3 10.9.1.1       v2
mlx5_10 eth9 guid=b
  3 10.7.0.1       v2
"""

MANY_ENTRIES = """
rocep1s0f0 enp1s0f0np0
  2 10.9.0.1       v1
  3 10.9.0.1       v2
  5 10.9.0.3       v2
roceP2p1s0f0 enP2p1s0f0np0
  4 10.9.1.1       v1
  5 10.9.1.1       v2
"""


def choose(tmp_path, tree, around=None, **options):
    devices = ibv.read_devices(write_tree(tmp_path, tree)).devices
    found, notes = selection.select(devices, fabric_wish.wish(**options), around)
    return found, {note.id for note in notes}, notes


PINNED = [
    ("two rails", HEALTHY, {}, {"rocep1s0f0": 3, "roceP2p1s0f0": 3}, 3),
    (
        "wanted subnets",
        HEALTHY,
        {"subnets": ["10.9.0.0/24", "10.9.1.0/24"]},
        {"rocep1s0f0": 3, "roceP2p1s0f0": 3},
        3,
    ),
    ("one wanted subnet", HEALTHY, {"subnets": ["10.9.1.0/24"]}, {"roceP2p1s0f0": 3}, 3),
    ("peer of one rail", HEALTHY, {"peers": ["10.9.0.2"]}, {"rocep1s0f0": 3}, 3),
    ("own address among peers", HEALTHY, {"peers": ["10.9.0.1", "10.9.0.2"]}, {"rocep1s0f0": 3}, 3),
    ("only one named", SHIFTED, {"hcas": ["=rocep1s0f0"]}, {"rocep1s0f0": 6}, 6),
    ("one excluded", SHIFTED, {"exclude_netdevs": ["enp1s0f0np0"]}, {"roceP2p1s0f0": 3}, 3),
    (
        "twin excluded by its interface",
        ONE_TWIN,
        {"exclude_netdevs": ["enP2p1s0f1np1"]},
        {"rocep1s0f1": 3},
        3,
    ),
    ("subnets complete", ONE_TWIN, {"subnets": ["10.9.0.0/24"]}, {"rocep1s0f1": 3, "roceP2p1s0f1": None}, 3),
    ("peer among left-overs", POLLUTED, {"peers": ["10.9.0.2"]}, {"rocep1s0f0": 3}, 3),
    ("left-overs", POLLUTED, {}, {"rocep1s0f0": 3, "roceP2p1s0f1": 3}, 3),
    ("link-local is all there is", LINK_LOCAL, {}, {"rocep1s0f1": 3}, 3),
    ("link-local peer", LINK_LOCAL, {"peers": ["169.254.77.1"]}, {"rocep1s0f1": 3}, 3),
    ("link-local wanted", LINK_LOCAL, {"subnets": ["169.254.0.0/16"]}, {"rocep1s0f1": 3}, 3),
    ("old names", LEGACY, {"hcas": ["^mlx5_10"]}, {"mlx5_0": 3, "mlx5_2": 3}, 3),
    ("the one index that both have", MANY_ENTRIES, {}, {"rocep1s0f0": 5, "roceP2p1s0f0": 5}, 5),
    (
        "the first of two that both have",
        HEALTHY.replace("  3 ", "  5 ").replace("  2 10.9.0.1       v1", "  2 10.9.0.1 v1\n  4 10.9.0.3 v2")
        + "  4 10.9.1.3       v2\n",
        {},
        {"rocep1s0f0": 4, "roceP2p1s0f0": 4},
        4,
    ),
    (
        "own address alone among peers",
        HEALTHY,
        {"peers": ["10.9.0.1"]},
        {"rocep1s0f0": 3, "roceP2p1s0f0": 3},
        3,
    ),
    (
        "a peer on either kind of address",
        POLLUTED,
        {"peers": ["10.9.0.2", "169.254.77.1"]},
        {"rocep1s0f0": 3, "rocep1s0f1": 3, "roceP2p1s0f0": 3},
        3,
    ),
    (
        "an empty table in the other cage is not waited for",
        "rocep1s0f0 a port=p0\n  3 10.9.0.1 v2\nrocep1s0f1 b port=p1\n  1 fe80::2 v2\n",
        {},
        {"rocep1s0f0": 3, "rocep1s0f1": None},
        3,
    ),
    (
        "a carrier that is unknown",
        "rocep1s0f0 a operstate=unknown\n  3 10.9.0.1 v2\n",
        {},
        {"rocep1s0f0": 3},
        3,
    ),
    ("the rate that is wanted", HEALTHY, {"min_rate_gbps": 200}, {"rocep1s0f0": 3, "roceP2p1s0f0": 3}, 3),
]


@pytest.mark.parametrize(
    ("tree", "options", "per_hca", "index"), [p[1:] for p in PINNED], ids=[p[0] for p in PINNED]
)
def test_pinned(tmp_path, tree, options, per_hca, index):
    found, ids, _ = choose(tmp_path, tree, **options)
    hcas = [name for name, number in per_hca.items() if number is not None]
    assert (found.strategy, found.gid_index, found.per_hca) == ("pinned", index, per_hca)
    assert list(found.hcas) == hcas
    assert found.env == {"NCCL_IB_HCA": "=" + ",".join(hcas), "NCCL_IB_GID_INDEX": str(index)}
    assert "fabric.gid.no_common_index" not in ids


DYNAMIC = [
    ("no common index", SHIFTED, {}, {"rocep1s0f0": 6, "roceP2p1s0f0": 3}, "10.9.0.0/23"),
    ("twin still to join", ONE_TWIN, {}, {"rocep1s0f1": 3, "roceP2p1s0f1": None}, "10.9.0.0/24"),
    (
        "both twins named, one without address",
        ONE_TWIN,
        {"hcas": ["rocep1s0f1", "roceP2p1s0f1"]},
        {"rocep1s0f1": 3, "roceP2p1s0f1": None},
        "10.9.0.0/24",
    ),
]


@pytest.mark.parametrize(
    ("tree", "options", "per_hca", "address_range"), [d[1:] for d in DYNAMIC], ids=[d[0] for d in DYNAMIC]
)
def test_dynamic(tmp_path, tree, options, per_hca, address_range):
    found, _, _ = choose(tmp_path, tree, **options)
    assert (found.strategy, found.gid_index, found.per_hca) == ("dynamic", None, per_hca)
    hcas = [name for name, number in per_hca.items() if number is not None]
    assert found.env == {
        "NCCL_IB_HCA": "=" + ",".join(hcas),
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_ADDR_RANGE": address_range,
        "NCCL_IB_ROCE_VERSION_NUM": "2",
    }


NONE = [
    ("no device", "", {}, "no RDMA device"),
    ("all down", "rocep1s0f0 enp1s0f0np0 state=DOWN\n  3 10.9.0.1 v2\n", {}, "no port is Up"),
    (
        "not quite active",
        "rocep1s0f0 enp1s0f0np0 state=ACTIVE_DEFER operstate=up\n  3 10.9.0.1 v2\n",
        {},
        "no port is Up",
    ),
    ("no address yet", "rxe0 enp1s0f0np0 parent=enp1s0f0np0\n  0 fe80::1 v2\n", {}, "no RoCE v2 entry"),
    ("version 1 only", "rocep1s0f0 enp1s0f0np0\n  2 10.9.0.1 v1\n", {}, "no RoCE v2 entry"),
    ("type unknown", "rocep1s0f0 enp1s0f0np0\n  3 10.9.0.1 -\n", {}, "no RoCE v2 entry"),
    ("on a VLAN", "rocep1s0f0 enp1s0f0np0\n  3 10.9.0.1 v2 ndev=enp1s0f0np0.7\n", {}, "no RoCE v2 entry"),
    ("InfiniBand", "mlx5_0 ib0 layer=InfiniBand\n  3 10.9.0.1 v2\n", {}, "no port is Up"),
    ("another subnet", HEALTHY, {"subnets": ["192.168.177.0/29"]}, "no address is in 192.168.177.0/29"),
    ("link-local where routable is wanted", LINK_LOCAL, {"subnets": ["10.9.0.0/24"]}, "no address is in"),
    ("slow", HEALTHY, {"min_rate_gbps": 400}, "no port is Up"),
    ("prefix that nothing has", HEALTHY, {"hcas": ["=roce"]}, "no port is Up"),
]


@pytest.mark.parametrize(("tree", "options", "reason"), [n[1:] for n in NONE], ids=[n[0] for n in NONE])
def test_nothing_is_chosen(tmp_path, tree, options, reason):
    found, ids, _ = choose(tmp_path, tree, **options)
    assert (found.strategy, found.hcas, found.gid_index, found.env) == ("none", (), None, {})
    assert reason in found.reason
    assert ("fabric.selection.none" in ids) == bool(set(options) - {"min_rate_gbps"})


FINDINGS = [
    (HEALTHY, {}, set()),
    (SHIFTED, {}, {"fabric.gid.no_common_index"}),
    (ONE_TWIN, {}, {"fabric.hca.unaddressed", "fabric.rail.half_port"}),
    (ONE_TWIN, {"hcas": ["=rocep1s0f1"]}, {"fabric.rail.half_port"}),
    (ONE_TWIN, {"hcas": ["=roceP2p1s0f1"]}, {"fabric.hca.no_address", "fabric.selection.none"}),
    (
        ONE_TWIN,
        {"subnets": ["10.9.0.0/24", "10.9.1.0/24"]},
        {"fabric.hca.unaddressed", "fabric.rail.half_port", "fabric.subnet.no_hca"},
    ),
    (
        POLLUTED,
        {"peers": ["10.9.0.2"]},
        {"fabric.address.link_local_unproven", "fabric.hca.other_subnet", "fabric.rail.half_port"},
    ),
    (LINK_LOCAL, {}, {"fabric.address.link_local", "fabric.mtu.small"}),
    (
        HEALTHY,
        {"hcas": ["=rocep1s0f1,roceX"]},
        {"fabric.port.down", "fabric.hca.not_found", "fabric.selection.none"},
    ),
    (
        HEALTHY,
        {"peers": ["10.9.0.2", "10.9.7.7"]},
        {"fabric.peer.no_rail", "fabric.hca.other_subnet", "fabric.rail.half_port"},
    ),
    (HEALTHY, {"peers": ["10.99.0.2"]}, {"fabric.selection.none", "fabric.hca.other_subnet"}),
    (HEALTHY, {"min_rate_gbps": 400}, {"fabric.port.slow"}),
    ("rocep1s0f0 a rate=x\n  3 10.9.0.1 v2\n", {"min_rate_gbps": 1}, {"fabric.port.rate_unknown"}),
    ("rocep1s0f0 a mtu=2200\n  3 10.9.0.1 v2\n", {}, {"fabric.mtu.small"}),
    (
        "rocep1s0f0 a port=p0\n  3 10.9.0.1 v2\nrocep1s0f1 b port=p1\n  3 10.9.1.1 v2\n",
        {},
        {"fabric.rail.mixed_cages"},
    ),
    # The first cage of another card is no twin.
    (
        "mlx5_0 a port=p0 guid=1\n  3 10.9.0.1 v2\nmlx5_1 b port=p0 guid=2\n  3 10.9.1.1 v2\n",
        {"peers": ["10.9.0.2"]},
        {"fabric.hca.other_subnet"},
    ),
    (
        "rocep1s0f0 a\n  3 10.9.0.1 v2 ndev=/\n",  # no name of an interface
        {},
        {"fabric.gid.other_netdev", "fabric.hca.unaddressed"},
    ),
    (LEGACY, {"hcas": ["mlx5_1"]}, {"fabric.hca.selector_prefix", "fabric.port.down"}),
    (LEGACY, {"hcas": ["=mlx5_0"]}, {"fabric.rail.half_port"}),
    (LEGACY, {"hcas": ["=mlx5_0:2"]}, {"fabric.hca.not_found", "fabric.selection.none"}),
    (
        "mlx5_0 ib0 layer=InfiniBand\n",
        {"hcas": ["mlx5_0"]},
        {"fabric.port.not_ethernet", "fabric.selection.none"},
    ),
    ("rocep1s0f0 enp1s0f0np0\n  2 10.9.0.1 v1\n", {}, {"fabric.gid.v1_only", "fabric.hca.unaddressed"}),
    ("rocep1s0f0 enp1s0f0np0\n  3 10.9.0.1 -\n", {}, {"fabric.gid.type_unknown", "fabric.hca.unaddressed"}),
    (
        "rocep1s0f0 enp1s0f0np0\n  3 10.9.0.1 v2 ndev=bond0\n",
        {},
        {"fabric.gid.other_netdev", "fabric.hca.unaddressed"},
    ),
    ("rocep1s0f0 enp1s0f0np0 operstate=down\n  3 10.9.0.1 v2\n", {}, {"fabric.port.no_carrier"}),
    (
        "rocep1s0f0 a mtu=x port=p0\n  3 10.9.0.1 v2\nroceP2p1s0f0 b port=p0\n  3 10.9.0.2 v2\n",
        {},
        {"fabric.mtu.unknown", "fabric.rail.twins_same_subnet"},
    ),
    # Both functions with an address of 169.254.0.0/16: the kernel sends through one of them.
    (
        "rocep1s0f0 a port=p0\n  3 169.254.7.1 v2\nroceP2p1s0f0 b port=p0\n  3 169.254.9.1 v2\n",
        {},
        {"fabric.address.link_local", "fabric.rail.twins_same_subnet"},
    ),
    ("rocep1s0f0 a\n  0 fe80::1 v1\n  1 fe80::1 v2\n  3 fd00:9::1 v2\n", {}, {"fabric.hca.unaddressed"}),
    # Slot 0 holds a foreign address of the same version, which NCCL would keep.
    (
        "rocep1s0f0 a port=p0\n  0 10.8.0.1 v2\n  1 10.9.0.1 v2\nroceP2p1s0f0 b port=p0\n  0 10.9.1.1 v2\n",
        {"subnets": ["10.9.0.0/24", "10.9.1.0/24"]},
        {"fabric.gid.no_common_index", "fabric.gid.dynamic_misses"},
    ),
    (HEALTHY, {"gid_index": "4,4"}, {"fabric.gid.index_invalid"}),
    (HEALTHY, {"gid_index": "2"}, {"fabric.gid.index_wrong"}),
    (HEALTHY, {"gid_index": "3"}, set()),
    (HEALTHY, {"gid_index": "-1"}, set()),
]


@pytest.mark.parametrize(("tree", "options", "expected"), FINDINGS)
def test_findings(tmp_path, tree, options, expected):
    assert choose(tmp_path, tree, **options)[1] == expected


def test_selectors_with_mixed_modifiers_choose_nothing(tmp_path):
    found, ids, _ = choose(tmp_path, HEALTHY, hcas=["=rocep1s0f0", "=roceP2p1s0f0"])
    assert (found.strategy, found.env, ids) == ("none", {}, {"fabric.hca.selector_invalid"})


def test_a_table_that_moves_is_followed(tmp_path):
    """The same machine half an hour later: one HCA moved, so nothing may be pinned any more."""
    before, _, _ = choose(tmp_path / "before", HEALTHY)
    after, _, _ = choose(tmp_path / "after", HEALTHY.replace("3 10.9.1.1", "4 10.9.1.1"))
    assert before.env["NCCL_IB_GID_INDEX"] == "3"
    assert "NCCL_IB_GID_INDEX" not in after.env and after.per_hca == {"rocep1s0f0": 3, "roceP2p1s0f0": 4}


def test_the_order_of_devices_and_the_cage_do_not_matter(tmp_path):
    """The other end of the cable sits in the other cage: other names, another index, the same conclusion."""
    other = HEALTHY.replace("f0", "f_").replace("f1", "f0").replace("f_", "f1").replace("np0", "np1")
    found, _, _ = choose(tmp_path, other)
    assert found.hcas == ("rocep1s0f1", "roceP2p1s0f1") and found.gid_index == 3


@pytest.mark.parametrize(
    ("answering", "hcas"), [({"enp1s0f1np1"}, ("rocep1s0f1",)), ({"enp1s0f0np0"}, ()), (set(), ())]
)
def test_link_local_where_the_peer_was_tried(tmp_path, answering, hcas):
    peer = IPv4Address("169.254.77.1")
    around = fabric_wish.Surroundings({}, {peer: frozenset(answering)}, ("enp1s0f1np1",))
    found, ids, _ = choose(tmp_path, LINK_LOCAL, around, peers=[str(peer)])
    assert found.hcas == hcas
    assert ("fabric.peer.no_answer" in ids) == (not answering)


def test_a_peer_that_answers_elsewhere_widens_no_wish(tmp_path):
    peers = {IPv4Address("10.9.0.2"): frozenset(), IPv4Address("169.254.77.1"): frozenset({"enp1s0f1np1"})}
    around = fabric_wish.Surroundings({}, peers, ("enp1s0f1np1",))
    found, _, _ = choose(tmp_path, POLLUTED, around, subnets=["10.9.0.0/24"], peers=map(str, peers))
    assert found.hcas == ("rocep1s0f0",)


def test_a_port_of_a_device_with_several_is_named_with_its_number(tmp_path):
    device, *_ = ibv.read_devices(write_tree(tmp_path, HEALTHY)).devices
    both = replace(device, ports=(device.ports[0], replace(device.ports[0], port=2)))
    found, _ = selection.select([both], fabric_wish.wish(hcas=["=rocep1s0f0:2"]))
    assert found.env["NCCL_IB_HCA"] == "=rocep1s0f0:2"


@pytest.mark.parametrize(("rcs", "known"), [((0, 1), True), ((0, None), False), ((None, None), False)])
def test_peers_are_unknown_where_one_could_not_be_asked(monkeypatch, rcs, known):
    monkeypatch.setattr(
        fabric_look, "read_addresses", lambda _text: {"a": (), "b": (IPv4Interface("10.9.0.1/24"),)}
    )
    monkeypatch.setattr(fabric_look.commands, "ask", lambda *_: commands.Answer(0, ""))
    monkeypatch.setattr(
        fabric_look.commands, "ask_all", lambda argvs: [commands.Answer(rc, "") for rc in rcs]
    )
    peers = [IPv4Address("10.9.0.2"), IPv4Address("10.9.0.3")]
    around = fabric_look.look_around(["a", "b"], peers)
    assert around.answers == ({peers[0]: {"b"}, peers[1]: set()} if known else None)


def test_a_routable_rail_is_kept_while_its_peer_is_silent(tmp_path):
    around = fabric_wish.Surroundings({}, {IPv4Address("10.9.0.2"): frozenset()}, ("enp1s0f0np0",))
    found, ids, _ = choose(tmp_path, HEALTHY, around, subnets=["10.9.0.0/24"], peers=["10.9.0.2"])
    assert found.hcas == ("rocep1s0f0",) and "fabric.peer.no_answer" in ids


def test_known_prefixes_decide_what_shares_a_subnet(tmp_path):
    tree = "rocep1s0f0 a port=p0\n  3 10.9.0.1 v2\nroceP2p1s0f0 b port=p0\n  3 10.9.0.9 v2\n"
    around = fabric_wish.Surroundings(
        {"a": (IPv4Interface("10.9.0.1/29"),), "b": (IPv4Interface("10.9.0.9/29"),)}
    )
    found, ids, _ = choose(tmp_path / "1", tree, around, peers=["10.9.0.2"])
    assert found.hcas == ("rocep1s0f0",)
    assert "fabric.rail.twins_same_subnet" not in choose(tmp_path / "2", tree, around)[1]


def test_twins_have_one_cage_and_slots_do_not(tmp_path):
    """mlx5_0 and mlx5_2 share the cage p0; mlx5_0 and mlx5_1 share a PCI slot and no cage."""
    _, _, notes = choose(tmp_path, LEGACY, hcas=["=mlx5_0"])
    half = next(note for note in notes if note.id == "fabric.rail.half_port")
    assert "mlx5_2" in half.summary and "mlx5_1" not in half.summary


def test_options_that_cannot_be_understood_are_all_named():
    with pytest.raises(fabric_wish.WishError) as raised:
        fabric_wish.wish(
            subnets=["10.9.0.0/33", "10.9.0.0/24"], peers=["fe80::1", "spark-b"], min_rate_gbps=float("nan")
        )
    for text in ("10.9.0.0/33", "fe80::1", "spark-b", "nan"):
        assert text in str(raised.value)
    assert "10.9.0.0/24" not in str(raised.value)
