# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL reads from its variables, checked against cases taken from its source."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import nccl_rules
from ansible_collections.tandem.spark.plugins.module_utils.gid_table import parse_gid

DEVICES = ("rocep1s0f0", "roceP2p1s0f0", "mlx5_1", "mlx5_10")


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", DEVICES),
        ("roce", ("rocep1s0f0", "roceP2p1s0f0")),
        ("=roce", ()),
        ("=rocep1s0f0,roceP2p1s0f0", ("rocep1s0f0", "roceP2p1s0f0")),
        ("mlx5_1", ("mlx5_1", "mlx5_10")),
        ("=mlx5_1", ("mlx5_1",)),
        ("^mlx5_1", ("rocep1s0f0", "roceP2p1s0f0")),
        ("^=mlx5_1", ("rocep1s0f0", "roceP2p1s0f0", "mlx5_10")),
        ("^", ()),
        (",,mlx5_10,", ("mlx5_10",)),
        ("=^mlx5_1", ()),
        ("mlx5_10:1", ("mlx5_10",)),
        ("mlx5_10:01:0:2", ("mlx5_10",)),
        ("mlx5_10:", ("mlx5_10",)),
        ("mlx5_10:2", ()),
        ("mlx5_10:abc", ()),
        (":1,mlx5_10", ("mlx5_10",)),
        (",".join([*(f"x{n}" for n in range(31)), "mlx5_10"]), ("mlx5_10",)),
        (",".join([*(f"x{n}" for n in range(32)), "mlx5_10"]), ()),
    ],
)
def test_selector(text, taken):
    selector = nccl_rules.parse_selector(text)
    assert tuple(name for name in DEVICES if selector.takes(name, 1)) == taken


@pytest.mark.parametrize(
    ("value", "index"), [(None, None), ("-1", None), (-1, None), ("0", 0), ("3", 3), (3, 3), ("1023", 1023)]
)
def test_gid_index(value, index):
    assert nccl_rules.parse_gid_index(value) == index


@pytest.mark.parametrize(
    "value", ["", " ", "4,4", "010", "0x3", "3 ", "3\n", "+3", "-2", "auto", "<GID_INDEX>", "3.0", "٣", True]
)
def test_no_gid_index(value):
    with pytest.raises(ValueError):
        nccl_rules.parse_gid_index(value)


@pytest.mark.parametrize(
    ("slots", "chosen"),
    [
        ("", 0),
        ("0:fe80::1:v1 1:fe80::1:v2", 0),
        ("0:fe80::1:v2 1:10.9.0.1:v2", 1),  # rxe has no version 1
        ("0:fe80::1:v1 1:fe80::1:v2 2:10.9.0.1:v1 3:10.9.0.1:v2", 3),
        ("1:fe80::1:v2 5:10.9.0.1:v1 6:10.9.0.1:v2", 6),
        ("0:10.9.0.1:v2", 0),
        ("0:10.9.0.1:v1 1:10.9.0.1:v2", 1),
        ("1:10.8.0.1:v2 2:10.9.0.1:v2 3:10.9.0.2:v2", 2),
        ("0:10.8.0.1:v2 1:10.9.0.1:v2", 0),
        ("0:10.8.0.1:v1 1:10.9.0.1:v2", 1),
        ("1:10.9.0.1:v1", 1),
    ],
)
def test_what_nccl_chooses_by_itself(slots, chosen):
    gids = []
    for slot in slots.split():
        index, address = slot.rsplit(":", 1)[0].split(":", 1)
        mapped = f"::ffff:{address}" if "." in address else address
        kind = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}[slot.rsplit(":", 1)[1]]
        gids.append(parse_gid(int(index), mapped, kind, "enp1s0f0np0", "Ethernet"))
    assert nccl_rules.choose_gid(gids, IPv4Network("10.9.0.0/16")) == chosen


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("4,4", 4),
        ("010", 8),
        ("0x10", 16),
        ("-1", -1),
        (" 7x", 7),
        ("<GID_INDEX>", 0),
        ("auto", 0),
        ("", 0),
    ],
)
def test_what_nccl_reads_from_a_number(text, number):
    assert nccl_rules.strtoll(text) == number
