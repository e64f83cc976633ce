# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one process says through NCCL, line by line: versions, devices, channels, communicators."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

TRANSPORTS = ("ib", "socket", "shm", "p2p")

_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+\w*)(?:\+cuda([\d.]+))?|using nccl==(\d+\.\d+\.\d+\w*)")
_LIBRARY = re.compile(r"nccl-library=(\d{5,6})\b")
_IB_DEVICE = re.compile(r"\[(\d+)\]([\w.-]+):(\d+)[:\d]*/(\w+)")
_SOCKET_DEVICE = re.compile(r"\[(\d+)\]([^\s:]+):([^\s<]+)<\d+>")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? ?: \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via (\S+)")
_NET = re.compile(r"NET/([^/]+)/(\d+)")
_RINGS = re.compile(r"Connected all rings.* GDR (\d)")
_GDR_DEVICE = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for HCA")
_PLUGIN = re.compile(
    r"NET/Plugin: Loaded net plugin (.+?) \(v\d+\)|Successfully loaded external network plugin (\S+)|"
    r"(?:Initialized|Assigned) NET plugin (.+?)(?: to comm)?$"
)
_INIT = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) nranks (\d+) .*?- ?Init (START|COMPLETE)")
_SELECTOR = re.compile(r"NCCL_IB_HCA set (?:by environment )?to (\S+)")
_IB_OFF = re.compile(r"NCCL_IB_DISABLE set by environment to (?!0\b)\d")
_OVERRIDE = re.compile(r"overriding dev (\d+) with dev (\d+)")
_OWN_NETWORKS = ("IB", "Socket")


def version_number(text: str) -> tuple[int, ...]:
    """2.30.4rc1 -> (2, 30, 4), to be compared; empty where it is no version."""
    match = re.match(r"\d{1,9}(?:\.\d{1,9})*", text, re.ASCII)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


@dataclass
class Speaker:
    """One process, as far as the log tells it apart from others: host and pid, each None where no line says."""

    host: str | None
    pid: int | None
    versions: set[str] = field(default_factory=set)
    cuda: str | None = None
    rank: int | None = None
    ranks: int | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    channels: Counter = field(default_factory=Counter)
    gdr_says: dict[str, bool] = field(default_factory=dict)
    plugin: str | None = None
    network: str | None = None
    no_device: bool = False
    ib_off: bool = False
    selector: str = "unset"
    open_inits: dict[str, tuple[int, int]] = field(default_factory=dict)
    complete: int = 0
    overridden: tuple[str, str] | None = None

    @property
    def version(self) -> str | None:
        """The oldest that it names: a process may have two libraries loaded."""
        return min(self.versions, key=version_number, default=None)

    @property
    def transports(self) -> set[str]:
        return {kind for kind, _device in self.channels if kind in TRANSPORTS}

    @property
    def says_nothing(self) -> bool:
        return all(
            getattr(self, each.name) == getattr(Speaker(self.host, self.pid), each.name)
            for each in fields(self)
        )

    def hear(self, text: str) -> None:
        """Take in one line that this process said."""
        if match := _CHANNEL.search(text):
            self._channel(match[1])
        elif match := _VERSION.search(text):
            self.versions.add(match[1] or match[3])
            self.cuda = match[2] or self.cuda
        elif match := _LIBRARY.search(text):
            number = int(match[1])
            self.versions.add(f"{number // 10000}.{number // 100 % 100}.{number % 100}")
        elif "NET/IB : Using" in text:
            devices = _IB_DEVICE.findall(text.partition("; OOB")[0])
            _set_devices(self, [("ib", int(n), name, int(port), link) for n, name, port, link in devices])
        elif "NET/Socket : Using" in text:
            devices = _SOCKET_DEVICE.findall(text)
            _set_devices(self, [("socket", int(n), name, None, address) for n, name, address in devices])
            self.network = self.network or "Socket"
        elif "NET/IB : No device found" in text:
            self.no_device = True
        elif match := _PLUGIN.search(text):
            _network(self, match)
        elif match := _RINGS.search(text):
            self.gdr_says["rings"] = match[1] != "0"
        elif match := _GDR_DEVICE.search(text):
            self.gdr_says["devices"] = self.gdr_says.get("devices", False) or match[1] == "Enabled"
        elif match := _INIT.search(text):
            _init(self, match)
        elif match := _SELECTOR.search(text):
            self.selector = match[1]
        elif _IB_OFF.search(text):
            self.ib_off = True
        elif match := _OVERRIDE.search(text):
            self.overridden = (match[1], match[2])

    def _channel(self, via: str) -> None:
        if net := _NET.match(via):
            name = net[1].lower()
            kind = "ib" if name.startswith("ib") else name
            self.channels[kind, int(net[2])] += 1
            self.gdr_says["channels"] = self.gdr_says.get("channels", False) or "/GDRDMA" in via
        else:
            self.channels[via.partition("/")[0].lower(), None] += 1


def _set_devices(speaker: Speaker, found: list[tuple]) -> None:
    """A second communicator says them again."""
    kinds = {kind for kind, *_rest in found}
    speaker.devices = [each for each in speaker.devices if each["kind"] not in kinds]
    for kind, index, name, port, last in found:
        link, address = (last, None) if kind == "ib" else (None, last)
        speaker.devices.append(
            {"kind": kind, "index": index, "name": name, "port": port, "link": link, "address": address}
        )


def _network(speaker: Speaker, match: re.Match) -> None:
    loaded, chosen = match[1] or match[2], match[3]
    if loaded or chosen not in _OWN_NETWORKS:
        speaker.plugin = loaded or chosen
    if chosen:
        speaker.network = chosen


def _init(speaker: Speaker, match: re.Match) -> None:
    comm, rank, ranks = match[1], int(match[2]), int(match[3])
    if match[4] == "START":
        speaker.open_inits[comm] = (rank, ranks)
        return
    speaker.open_inits.pop(comm, None)
    speaker.complete += 1
    # The widest communicator tells the process's place best.
    if speaker.ranks is None or ranks > speaker.ranks:
        speaker.rank, speaker.ranks = rank, ranks
