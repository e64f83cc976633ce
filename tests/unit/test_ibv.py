# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading RDMA devices from sysfs: shapes of real trees, and trees that are broken in every way."""

from __future__ import annotations

import errno
import os
import random

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import gid_table, ibv, kernel_files
from sysfs_tree import put, write_tree

HEAD = """
rocep1s0f0 enp1s0f0np0 pci=0000:01:00.0 guid=0200:0003:0000:6a13 port=p0
  0 fe80::ff:fe00:1  v1
  1 fe80::ff:fe00:1  v2
  2 192.168.100.1    v1x
  5 192.168.100.1    v2
roceP2p1s0f0 enP2p1s0f0np0 state=DOWN rate=40 mtu=1500
  0 fe80::ff:fe00:3  v1
"""


def port_of(root, name="rocep1s0f0"):
    table = ibv.read_devices(str(root))
    return next(device.ports[0] for device in table.devices if device.name == name), table


def test_a_port_in_full(tmp_path):
    write_tree(tmp_path, HEAD)
    port, table = port_of(tmp_path)
    assert table.unreadable == ()
    assert (port.link_layer, port.state, port.phys_state, port.rate_gbps) == (
        "Ethernet",
        "ACTIVE",
        "LinkUp",
        200,
    )
    assert (port.netdev, port.netdev_mtu, port.carrier, port.active_mtu) == ("enp1s0f0np0", 9000, True, 4096)
    assert [(gid.index, gid.type, gid.ipv4, gid.link_local) for gid in port.gids] == [
        (0, "roce_v1", None, True),
        (1, "roce_v2", None, True),
        (2, "roce_v1", "192.168.100.1", False),
        (5, "roce_v2", "192.168.100.1", False),
    ]


def test_devices_come_in_a_stable_order(tmp_path):
    write_tree(tmp_path, "mlx5_10 eth3\nmlx5_2 eth2\nroceP2p1s0f0 eth1\nrocep1s0f1 eth0\n")
    names = [device.name for device in ibv.read_devices(str(tmp_path)).devices]
    assert names == ["mlx5_2", "mlx5_10", "rocep1s0f1", "roceP2p1s0f0"]


def test_vendor_and_pci_address(tmp_path):
    write_tree(tmp_path, HEAD)
    device = ibv.read_devices(str(tmp_path)).devices[0]
    assert (device.vendor, device.pci) == ("mellanox", "0000:01:00.0")


def test_a_software_device_has_a_parent_and_no_function(tmp_path):
    write_tree(tmp_path, "rxe0 enp1s0f0np0 parent=enp1s0f0np0 rate=2.5\n  0 fe80::1 v2\n  1 10.0.0.1 v2\n")
    port, table = port_of(tmp_path, "rxe0")
    assert (port.netdev, port.rate_gbps, table.devices[0].vendor) == ("enp1s0f0np0", 2.5, "software")


def test_several_interfaces_of_one_function_are_told_apart_by_their_port(tmp_path):
    write_tree(tmp_path, "mlx5_0 eth0\n")
    for name, dev_port, phys_port_name in (("eth0", "1", "p1"), ("eth1", "0", "p0"), ("rep0", "0", "pf0vf0")):
        put(tmp_path / "class/infiniband/mlx5_0/device/net" / name / "x", "")
        put(tmp_path / "class/net" / name / "dev_port", dev_port)
        put(tmp_path / "class/net" / name / "phys_port_name", phys_port_name)
    assert port_of(tmp_path, "mlx5_0")[0].netdev == "eth1"


def test_without_a_device_link_the_table_names_the_interface(tmp_path):
    write_tree(tmp_path, "rocep1s0f0 enp1s0f0np0 parent=gone\n  3 10.0.0.1 v2\n")
    (tmp_path / "class/infiniband/rocep1s0f0/parent").unlink()
    assert port_of(tmp_path)[0].netdev == "enp1s0f0np0"


@pytest.mark.parametrize(
    ("operstate", "carrier", "expected"),
    [
        ("up", None, True),
        ("down", "1", False),
        ("unknown", "1", True),
        ("unknown", "0", False),
        (None, None, None),
    ],
)
def test_carrier(tmp_path, operstate, carrier, expected):
    write_tree(tmp_path, "rocep1s0f0 enp1s0f0np0\n")
    interface = tmp_path / "class/net/enp1s0f0np0"
    (interface / "operstate").unlink()
    for name, value in (("operstate", operstate), ("carrier", carrier)):
        if value is not None:
            put(interface / name, value)
    assert port_of(tmp_path)[0].carrier is expected


@pytest.mark.parametrize(
    ("netdev_mtu", "expected"),
    [
        (1500, 1024),
        (2143, 1024),
        (2144, 2048),
        (4191, 2048),
        (4192, 4096),
        (9000, 4096),
        (351, None),
        (None, None),
    ],
)
def test_the_rdma_mtu_follows_the_interface(netdev_mtu, expected):
    assert ibv.roce_mtu(netdev_mtu) == expected


def test_the_verbs_mtu_is_preferred_and_said_so(tmp_path):
    text = "hca_id:\trocep1s0f0\n\t\tport:\t1\n\t\t\tmax_mtu:\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n"
    write_tree(tmp_path, HEAD)
    verbs = ibv.parse_devinfo(text)
    assert verbs == {("rocep1s0f0", 1): 1024}
    port = ibv.read_devices(str(tmp_path), verbs).devices[0].ports[0]
    assert (port.active_mtu, port.active_mtu_source) == (1024, "verbs")


@pytest.mark.parametrize("text", ["", "active_mtu: 1024 (3)\nport:\n", "hca_id:\n\0\xff active_mtu: x\n"])
def test_no_verbs_mtu_from_other_text(text):
    assert all(name == "" for name, _ in ibv.parse_devinfo(text))


@pytest.mark.parametrize(
    ("netdev", "words", "expected"),
    [
        ("enp1s0f1np1", "port=p0", "p0"),
        ("enp1s0f1np1", "", "p1"),
        ("fabric0", "pci=0002:01:00.1", "p1"),
        ("fabric0", "", None),
    ],
)
def test_the_cage_behind_a_port(tmp_path, netdev, words, expected):
    write_tree(tmp_path, f"mlx5_3 {netdev} {words}\n")
    device = ibv.read_devices(str(tmp_path)).devices[0]
    cage = ibv.cage_of(device, device.ports[0])
    assert (cage and cage[1]) == expected


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOENT, errno.EACCES, errno.EIO])
def test_files_that_refuse_are_unknown(tmp_path, monkeypatch, code):
    """A full slot whose type answers EINVAL, as while the kernel changes the table, is unknown, not v2."""
    write_tree(tmp_path, HEAD)
    real = open

    def refusing(path, *args, **kwargs):
        if "/gid_attrs/" in os.fspath(path):
            raise OSError(code, os.strerror(code), path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(kernel_files, "open", refusing, raising=False)
    port, table = port_of(tmp_path)
    assert {gid.type for gid in port.gids} == {None} and {gid.ndev for gid in port.gids} == {None}
    assert bool(table.unreadable) == (code != errno.ENOENT)


def test_an_infiniband_port_has_no_roce_entries(tmp_path):
    write_tree(tmp_path, "mlx5_0 ib0 layer=InfiniBand\n  0 fe80::1 v1\n")
    ((port,),) = [device.ports for device in ibv.read_devices(str(tmp_path)).devices]
    assert [gid.type for gid in port.gids] == ["ib"]


def test_types_of_empty_slots_are_never_read(tmp_path, monkeypatch):
    """On a real kernel they answer EINVAL, 1,024 of them in every table."""
    write_tree(tmp_path, HEAD)
    read = []
    real = kernel_files.Tree.text
    monkeypatch.setattr(
        kernel_files.Tree, "text", lambda tree, *parts: read.append("/".join(parts)) or real(tree, *parts)
    )
    port_of(tmp_path)
    assert {path.rpartition("/")[2] for path in read if "rocep1s0f0/ports/1/gid_attrs/types" in path} == set(
        "0125"
    )


def test_a_slot_that_cannot_be_read_is_said_so(tmp_path, monkeypatch):
    write_tree(tmp_path, HEAD)
    real = os.read
    refused = []

    def read(handle, size):
        if not refused:
            refused.append(handle)
            raise OSError(errno.EIO, "")
        return real(handle, size)

    monkeypatch.setattr(gid_table.os, "read", read)
    assert len(port_of(tmp_path)[1].unreadable) == 1


def test_a_device_that_vanishes_while_it_is_read_is_said_so(tmp_path, monkeypatch):
    write_tree(tmp_path, HEAD)

    def gone(handle):
        raise FileNotFoundError(errno.ENOENT, "")

    monkeypatch.setattr(gid_table.os, "listdir", gone)
    unreadable = []
    assert gid_table._occupied(str(tmp_path / "class/infiniband/rocep1s0f0/ports/1/gids"), unreadable) == []
    assert len(unreadable) == 1


@pytest.mark.parametrize("seed", range(40))
def test_junk_in_any_file_is_no_traceback(tmp_path, seed):
    """Every file may hold anything; what is understood must still be sound."""
    write_tree(tmp_path, HEAD)
    dice = random.Random(seed)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    junk = (
        b"",
        b"\0\0",
        b"\xff\xfe" * 40,
        b"-1\n",
        b"9" * 5000,
        b"../../etc/passwd\n",
        "²\n".encode(),
        b"a b:c\n",
    )
    for path in dice.sample(files, 12):
        path.write_bytes(dice.choice(junk))
    for device in ibv.read_devices(str(tmp_path)).devices:
        device.as_dict()
        for port in device.ports:
            assert all("/" not in (gid.ndev or "") for gid in port.gids)
            ibv.cage_of(device, port)


@pytest.mark.parametrize("what", ["absent", "file", "stray", "no_ports"])
def test_other_trees_have_no_devices(tmp_path, what):
    if what == "file":
        put(tmp_path / "class/infiniband", "x")
    elif what == "stray":
        put(tmp_path / "class/infiniband/notes.txt", "x")
    elif what == "no_ports":
        put(tmp_path / "class/infiniband/mlx5_0/node_guid", "0")
    devices = ibv.read_devices(str(tmp_path)).devices
    assert [port for device in devices for port in device.ports] == []
