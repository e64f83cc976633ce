# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which TCP ports are listened on, and by whom."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from .kernel_files import Tree, is_number
from .processes import owner, user_name

LISTEN = "0A"


@dataclass(frozen=True)
class Socket:
    protocol: str
    address: str
    port: int
    uid: int
    inode: int


@dataclass(frozen=True)
class Listener:
    """One listening socket; pid, process and unit are None where the owner could not be seen."""

    protocol: str
    address: str
    port: int
    pid: int | None
    process: str | None
    unit: str | None
    user: str


def _address(text: str) -> str:
    """Hexadecimal 32-bit words in the machine's own byte order, as the kernel prints them."""
    words = [int(text[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(text), 8)]
    packed = b"".join(words)
    return str(IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed))


def read_sockets(text: str, protocol: str) -> list[Socket]:
    """/proc/net/tcp or tcp6 -> the listening sockets; lines that are none are left out."""
    sockets = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 10 or words[3] != LISTEN:
            continue
        address, colon, port = words[1].partition(":")
        try:
            sockets.append(Socket(protocol, _address(address), int(port, 16), int(words[7]), int(words[9])))
        except (ValueError, OverflowError):
            continue
    return sockets


def owners(tree: Tree, inodes: Iterable[int]) -> dict[int, int]:
    """inode -> pid of a process that holds the socket. Stops when all are found; others' need root to see."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, int] = {}
    for pid in (name for name in tree.names() if is_number(name)):
        if not wanted:
            break
        folder = tree.path(pid, "fd")
        try:
            handles = os.listdir(folder)
        except OSError:
            continue
        for handle in handles:
            try:
                inode = wanted.pop(os.readlink(os.path.join(folder, handle)), None)
            except OSError:
                continue
            if inode is not None:
                found[inode] = int(pid)
    return found


def read_listeners(proc_root: str = "/proc") -> list[Listener]:
    """Every listening TCP socket of this network namespace, by port."""
    tree = Tree(proc_root)
    sockets = [
        socket
        for protocol in ("tcp", "tcp6")
        for socket in read_sockets(tree.text("net", protocol) or "", protocol)
    ]
    pids = owners(tree, (socket.inode for socket in sockets))
    listeners = []
    for socket in sorted(sockets, key=lambda s: (s.port, s.protocol, s.address)):
        process = owner(tree, pids[socket.inode]) if socket.inode in pids else None
        listeners.append(
            Listener(
                protocol=socket.protocol,
                address=socket.address,
                port=socket.port,
                pid=process.pid if process else None,
                process=process.name if process else None,
                unit=process.unit if process else None,
                user=user_name(socket.uid),
            )
        )
    return listeners
