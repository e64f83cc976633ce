# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices and their ports, read from sysfs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from . import network
from .gid_table import Gid, read_gids
from .kernel_files import Tree, is_number

VENDORS = {"0x15b3": "mellanox", "0x14e4": "broadcom", "0x8086": "intel", "0x1d0f": "amazon"}

# include/rdma/ib_addr.h, iboe_get_mtu(): GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4.
ROCE_HEADERS_BYTES = 96
RDMA_MTUS = (4096, 2048, 1024, 512, 256)


@dataclass(frozen=True)
class Port:
    """One port. None is unknown. active_mtu_source: verbs (ibv_devinfo) or netdev (derived from its MTU)."""

    port: int
    link_layer: str | None
    state: str | None
    phys_state: str | None
    rate_gbps: float | None
    active_mtu: int | None
    active_mtu_source: str | None
    netdev: str | None
    netdev_mtu: int | None
    carrier: bool | None
    phys_port_name: str | None
    gids: tuple[Gid, ...]


@dataclass(frozen=True)
class Device:
    """One HCA. On a Spark the two PCIe functions of a cage are two HCAs with one port each."""

    name: str
    vendor: str | None
    pci: str | None
    sys_image_guid: str | None
    ports: tuple[Port, ...]

    def as_dict(self) -> dict[str, Any]:
        data = asdict(self)
        data["ports"] = [{**port, "gids": list(port["gids"])} for port in data["ports"]]
        return data


@dataclass(frozen=True)
class Table:
    """All devices of a node, and the files that could not be read."""

    devices: tuple[Device, ...]
    unreadable: tuple[str, ...]


def roce_mtu(netdev_mtu: int | None) -> int | None:
    """RDMA MTU in bytes that the kernel derives from an Ethernet MTU; None where unknown or too small."""
    if netdev_mtu is None:
        return None
    return next((mtu for mtu in RDMA_MTUS if netdev_mtu - ROCE_HEADERS_BYTES >= mtu), None)


def parse_devinfo(text: str) -> dict[tuple[str, int], int]:
    """`ibv_devinfo` text -> {(device, port): active MTU in bytes}."""
    mtus: dict[tuple[str, int], int] = {}
    device, port = "", 0
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        words = value.split()
        if key == "hca_id" and words:
            device = words[0]
        elif key == "port" and words and is_number(words[0]):
            port = int(words[0])
        elif key == "active_mtu" and words and is_number(words[0]):
            mtus[device, port] = int(words[0])
    return mtus


def _phys_port_name(tree: Tree, netdev: str) -> str | None:
    """`p0` or `p1`, the cage; the file answers EOPNOTSUPP on drivers without the notion."""
    try:
        with open(tree.path("class/net", netdev, "phys_port_name"), "rb") as stream:
            return stream.read(64).decode("ascii", "replace").strip() or None
    except OSError:
        return None


def _netdev(tree: Tree, device: str, port: int, gids: tuple[Gid, ...]) -> str | None:
    """The port's own interface: never by its name, which differs per distribution and per cage."""
    interfaces = tree.names("class/infiniband", device, "device/net")
    if len(interfaces) > 1:
        # Several ports of one function, or representors of an eswitch beside the uplink.
        numbered = [n for n in interfaces if tree.number("class/net", n, "dev_port") == port - 1]
        uplinks = [n for n in numbered if not (_phys_port_name(tree, n) or "").startswith("pf")]
        interfaces = uplinks or numbered
    if len(interfaces) == 1:
        return interfaces[0]
    # rxe and siw have no `device` link; their `parent` names the interface they sit on.
    parent = tree.interface("class/infiniband", device, "parent")
    if parent:
        return parent
    owners = Counter(gid.ndev for gid in gids if gid.ndev)
    return owners.most_common(1)[0][0] if owners else None


def _after_colon(text: str | None) -> str | None:
    """`4: ACTIVE` -> ACTIVE."""
    return text.partition(":")[2].strip() or None if text else None


def _rate_gbps(text: str | None) -> float | None:
    """`200 Gb/sec (4X HDR)` -> 200.0."""
    match = re.match(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec", text or "")
    return float(match[1]) if match else None


def _port(tree: Tree, device: str, port: int, verbs_mtu: int | None) -> Port:
    path = f"class/infiniband/{device}/ports/{port}"
    link_layer = tree.text(path, "link_layer")
    gids = read_gids(tree, path, link_layer)
    netdev = _netdev(tree, device, port, gids)
    netdev_mtu = network.mtu(tree, netdev) if netdev else None
    active_mtu = verbs_mtu or (roce_mtu(netdev_mtu) if link_layer == "Ethernet" else None)
    return Port(
        port=port,
        link_layer=link_layer,
        state=_after_colon(tree.text(path, "state")),
        phys_state=_after_colon(tree.text(path, "phys_state")),
        rate_gbps=_rate_gbps(tree.text(path, "rate")),
        active_mtu=active_mtu,
        active_mtu_source=("verbs" if verbs_mtu else "netdev") if active_mtu else None,
        netdev=netdev,
        netdev_mtu=netdev_mtu,
        carrier=network.carrier(tree, netdev) if netdev else None,
        phys_port_name=_phys_port_name(tree, netdev) if netdev else None,
        gids=gids,
    )


def _pci(tree: Tree, device: str, ports: tuple[Port, ...]) -> str | None:
    folders = [f"class/infiniband/{device}/device"]
    folders += [f"class/net/{port.netdev}/device" for port in ports if port.netdev]
    addresses = (network.pci_address(tree.path(folder)) for folder in folders)
    return next((address for address in addresses if address), None)


def _device(tree: Tree, name: str, verbs_mtus: Mapping[tuple[str, int], int]) -> Device:
    numbers = sorted(int(n) for n in tree.names("class/infiniband", name, "ports") if is_number(n))
    ports = tuple(_port(tree, name, number, verbs_mtus.get((name, number))) for number in numbers)
    vendor = tree.text("class/infiniband", name, "device/vendor")
    software = tree.text("class/infiniband", name, "parent") is not None
    return Device(
        name=name,
        vendor=VENDORS.get(vendor, vendor) if vendor else ("software" if software else None),
        pci=_pci(tree, name, ports),
        sys_image_guid=tree.text("class/infiniband", name, "sys_image_guid"),
        ports=ports,
    )


def read_devices(sysfs_root: str = "/sys", verbs_mtus: Mapping[tuple[str, int], int] | None = None) -> Table:
    """Every RDMA device under sysfs_root/class/infiniband, shortest names first (mlx5_2 before mlx5_10).

    verbs_mtus: what parse_devinfo() gave, preferred to the value derived from the interface's MTU.
    Never raises for what it finds there.
    """
    tree = Tree(sysfs_root)
    folders = (n for n in tree.names("class/infiniband") if os.path.isdir(tree.path("class/infiniband", n)))
    names = sorted(folders, key=lambda name: (len(name), name))
    devices = tuple(_device(tree, name, verbs_mtus or {}) for name in names)
    return Table(devices, tuple(tree.unreadable))


def cage_of(device: Device, port: Port) -> tuple[str | None, str] | None:
    """The QSFP cage behind a port: (card, port name), None where nothing tells.

    Both PCIe functions of a cage carry the same physical port name, in PCI domains of their own; the card's
    sys_image_guid is one for all four. A PCI slot is no cage: it holds one function of either.
    """
    name = port.phys_port_name
    if name is None and port.netdev and (suffix := re.search(r"n(p\d+)$", port.netdev)):
        name = suffix[1]  # udev appends phys_port_name to the interface's name
    if name is None and device.pci:
        name = f"p{device.pci[-1]}"
    return (device.sys_image_guid, name) if name else None
