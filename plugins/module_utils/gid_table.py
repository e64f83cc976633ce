# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GID table of an RDMA port, read from sysfs.

`gids/N` of an empty slot reads as zeros while `gid_attrs/types/N` and `gid_attrs/ndevs/N` of that slot answer
EINVAL, and a table has up to 1,024 slots. So only `gids/N` is read for every slot, and the other two for the
few that hold something.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass

from .kernel_files import Tree, is_number

EMPTY_GID = b"0000:0000:0000:0000:0000:0000:0000:0000\n"
GID_TYPES = {"IB/RoCE v1": "roce_v1", "RoCE v1": "roce_v1", "RoCE v2": "roce_v2"}


@dataclass(frozen=True)
class Gid:
    """One occupied slot. type: roce_v1, roce_v2, ib, or None where it could not be read."""

    index: int
    gid: str
    type: str | None
    ndev: str | None
    ipv4: str | None
    link_local: bool


def parse_gid(
    index: int, text: str, kind: str | None, ndev: str | None, link_layer: str | None
) -> Gid | None:
    """One slot from its three files' texts; None where the slot is empty. Raises ValueError for no GID."""
    address = ipaddress.IPv6Address(text)
    if int(address) == 0:
        return None
    mapped = address.ipv4_mapped
    return Gid(
        index=index,
        gid=text,
        type="ib" if link_layer == "InfiniBand" else GID_TYPES.get(kind or ""),
        ndev=ndev,
        ipv4=str(mapped) if mapped else None,
        link_local=mapped.is_link_local if mapped else address.is_link_local,
    )


def _occupied(folder: str, unreadable: list[str]) -> list[tuple[int, str]]:
    """(index, text) of the slots that are not all zeros.

    Bare system calls: 8 tables of 1,024 files must be read in 100 ms (tests/bench/ibv.py).
    """
    occupied = []
    opened, read, close = os.open, os.read, os.close
    try:
        handle = opened(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        unreadable.append(folder)
        return []
    try:
        for name in os.listdir(handle):
            if not is_number(name):
                continue
            try:
                slot = opened(name, os.O_RDONLY, dir_fd=handle)
                try:
                    content = read(slot, 64)
                finally:
                    close(slot)
            except OSError:
                unreadable.append(os.path.join(folder, name))
                continue
            if content != EMPTY_GID:
                occupied.append((int(name), content.decode("ascii", "replace").strip()))
    except OSError:  # the device vanished after its folder was opened
        unreadable.append(folder)
    finally:
        close(handle)
    return sorted(occupied)


def read_gids(tree: Tree, port_path: str, link_layer: str | None) -> tuple[Gid, ...]:
    """The occupied slots in their order, of the port at port_path (relative to the tree's root)."""
    gids = []
    for index, text in _occupied(tree.path(port_path, "gids"), tree.unreadable):
        kind = tree.text(port_path, "gid_attrs/types", str(index))
        ndev = tree.interface(port_path, "gid_attrs/ndevs", str(index))
        try:
            gid = parse_gid(index, text, kind, ndev, link_layer)
        except ValueError:
            tree.unreadable.append(tree.path(port_path, "gids", str(index)))
            continue
        if gid:
            gids.append(gid)
    return tuple(gids)
