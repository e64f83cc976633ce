# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The card and the GPU that a node shows."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys

import pytest
import settings

FE80, A, B = "fe80::1", "::ffff:10.0.0.1", "::ffff:10.0.0.2"
DEVICE = "/sys/class/infiniband/rocep1s0f0/device"
PORT = "/sys/class/infiniband/rocep1s0f0/ports/1"


@pytest.fixture(scope="module")
def infiniband():
    path = settings.HERE / "fixtures/root/usr/local/lib/lab/infiniband"
    loader = importlib.machinery.SourceFileLoader("lab_infiniband", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("events", "pairs"),
    [
        ("", [FE80]),
        ("+A", [FE80, A]),
        ("+A +A", [FE80, A]),
        ("+A +B -A", [FE80, None, B]),
        ("+A +B -A -B +B +A", [FE80, B, A]),
        ("+A +B -A +A", [FE80, A, B]),
        ("+F -F +A", [FE80, A]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_table_fills_the_first_free_slots(infiniband, events, pairs):
    table = infiniband.GidTable(FE80)
    for sign, letter in events.split():
        {"+": table.add, "-": table.remove}[sign]({"A": A, "B": B, "F": FE80}[letter])
    expected = [(gid, kind) if gid else None for gid in pairs for kind in ("IB/RoCE v1", "RoCE v2")]
    assert table.slots == expected + [None] * (16 - len(expected))


@pytest.mark.parametrize(
    ("line", "netdev", "address", "deleted"),
    [
        ("2: enp1s0f0np0    inet 10.0.0.1/24 scope global enp1s0f0np0", "enp1s0f0np0", "10.0.0.1", False),
        ("Deleted 2: enp1s0f0np0    inet 10.0.0.1/24 scope global x", "enp1s0f0np0", "10.0.0.1", True),
        ("5: eth0    inet6 fe80::4c:abff:fe00:0/64 scope link", "eth0", "fe80::4c:abff:fe00:0", False),
    ],
)
def test_address_events_are_understood(infiniband, line, netdev, address, deleted):
    event = infiniband.ADDRESS_EVENT.match(line)
    assert (event["netdev"], event["address"], bool(event["deleted"])) == (netdev, address, deleted)


def test_link_events_are_no_address_events(infiniband):
    line = "2: enp1s0f0np0@if4: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP"
    assert infiniband.ADDRESS_EVENT.match(line) is None


def test_card_follows_the_link(fabric):
    fabric.eventually("spark-a", f"{PORT}/gids/3", "0000:0000:0000:0000:0000:ffff:0a4d:0001")
    attributes = fabric.sh("spark-a", f"cat {PORT}/gid_attrs/types/3 {PORT}/gid_attrs/ndevs/3")
    assert attributes == "RoCE v2\nenp1s0f0np0"
    assert fabric.read("spark-a", f"{DEVICE}/net/enp1s0f0np0/mtu") == "9000"
    assert "PCI_SLOT_NAME=0000:01:00.0" in fabric.read("spark-a", f"{DEVICE}/uevent")


def test_addresses_in_another_order_move_the_index(fabric):
    for change in ("del 10.77.0.1/24", "add 10.9.9.9/32", "add 10.77.0.1/24"):
        fabric.sh("spark-a", f"ip address {change} dev enp1s0f0np0")
    fabric.eventually("spark-a", f"{PORT}/gids/5", "0000:0000:0000:0000:0000:ffff:0a4d:0001")


def test_empty_slots_answer_as_the_kernel_does(pair):
    assert pair.read("spark-a", f"{PORT}/gids/15") == "0000:0000:0000:0000:0000:0000:0000:0000"
    result = pair.run("exec", "spark-a", "--", "cat", f"{PORT}/gid_attrs/types/15")
    assert "Invalid argument" in result.stderr


def test_the_second_cage_is_idle(pair):
    idle = "/sys/class/infiniband/roceP2p1s0f1"
    assert pair.sh("spark-a", f"cat {idle}/ports/1/state; ls {idle}/device/net") == "1: DOWN\nenP2p1s0f1np1"


def test_gpu_shows_the_driver_that_a_test_sets(pair):
    pair.sh("spark-a", "echo 590.48.01 > /etc/lab/nvidia-driver")
    query = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader"
    assert pair.sh("spark-a", query) == "NVIDIA GB10, 590.48.01, [N/A]"
    table = pair.sh("spark-a", "nvidia-smi").splitlines()
    assert {len(line) for line in table if line} == {91}
    assert "Driver Version: 590.48.01" in table[1] and "No running processes found" in table[-2]


def test_gpu_shows_the_processes_that_a_test_sets(pair):
    pair.sh("spark-b", "echo '4711, VLLM::EngineCore, 97312' >> /etc/lab/gpu-processes")
    query = "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits"
    assert pair.sh("spark-b", query) == "4711, VLLM::EngineCore, 97312"
    line = pair.sh("spark-b", "nvidia-smi").splitlines()[-2]
    assert line.split()[4:] == ["4711", "C", "VLLM::EngineCore", "97312MiB", "|"]
    assert len(line) == 91


@pytest.mark.parametrize("words", ["--query-gpu=colour --format=csv", "--query-gpu=name", "--help-me"])
def test_gpu_refuses_what_it_does_not_know(pair, words):
    assert pair.fails("spark-a", f"nvidia-smi {words}")
