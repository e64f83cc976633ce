# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a sysfs tree from a compact description, one HCA per paragraph:

    rocep1s0f0 enp1s0f0np0 mtu=9000 state=ACTIVE rate=200
      0 fe80::1        v1
      3 192.168.100.1  v2
      5 192.168.100.9  v2 ndev=enp1s0f0np0.7

An indented line is an occupied GID slot; `v1x` is the other spelling of v1, `-` leaves the type's file out.
"""

from __future__ import annotations

import ipaddress
import pathlib

TYPES = {"v1": "IB/RoCE v1", "v1x": "RoCE v1", "v2": "RoCE v2"}
STATES = {"ACTIVE": "4: ACTIVE", "DOWN": "1: DOWN", "INIT": "2: INIT", "ACTIVE_DEFER": "5: ACTIVE_DEFER"}


def put(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def expanded(address: str) -> str:
    """The spelling of sysfs: all eight groups, an IPv4 address mapped."""
    mapped = f"::ffff:{address}" if "." in address else address
    return ipaddress.IPv6Address(mapped).exploded


def _options(words: list[str], defaults: dict[str, str]) -> dict[str, str]:
    return {**defaults, **dict(word.split("=", 1) for word in words)}


def write_tree(root: pathlib.Path, description: str, slots: int = 8) -> str:
    """Write it below root and return the sysfs root; every table has this many slots."""
    port_path = netdev = None
    for line in filter(str.strip, description.splitlines()):
        words = line.split()
        if line[0] != " ":
            device, netdev, *rest = words
            port_path = _write_device(root, device, netdev, rest, slots)
            continue
        index, address, kind, *rest = words
        put(port_path / "gids" / index, expanded(address))
        if kind != "-":
            put(port_path / "gid_attrs/types" / index, TYPES[kind])
        put(port_path / "gid_attrs/ndevs" / index, _options(rest, {"ndev": netdev})["ndev"])
    return str(root)


def _write_device(root: pathlib.Path, device: str, netdev: str, words: list[str], slots: int) -> pathlib.Path:
    options = _options(
        words, {"mtu": "9000", "state": "ACTIVE", "rate": "200", "layer": "Ethernet", "guid": "", "port": ""}
    )
    folder = root / "class/infiniband" / device
    port = folder / "ports/1"
    up = options["state"] == "ACTIVE"
    put(port / "state", STATES[options["state"]])
    put(port / "phys_state", "5: LinkUp" if up else "3: Disabled")
    put(port / "rate", f"{options['rate']} Gb/sec (4X HDR)")
    put(port / "link_layer", options["layer"])
    for index in range(slots):
        put(port / "gids" / str(index), expanded("::"))
    if options["guid"]:
        put(folder / "sys_image_guid", options["guid"])
    if options.get("parent"):
        put(folder / "parent", options["parent"])
    else:
        _write_function(root, folder, netdev, options.get("pci"))
    interface = root / "class/net" / netdev
    put(interface / "mtu", options["mtu"])
    put(interface / "operstate", options.get("operstate", "up" if up else "down"))
    if options["port"]:
        put(interface / "phys_port_name", options["port"])
    return port


def _write_function(root: pathlib.Path, folder: pathlib.Path, netdev: str, pci: str | None) -> None:
    """The PCIe function behind an HCA, as a link where it has an address, else as a plain folder."""
    function = root / "devices" / pci if pci else folder / "device"
    (function / "net" / netdev).mkdir(parents=True)
    put(function / "vendor", "0x15b3")
    if pci:
        (folder / "device").symlink_to(function)
