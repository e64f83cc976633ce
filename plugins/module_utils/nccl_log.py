# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what NCCL says (NCCL_DEBUG=INFO): its version, its devices, what carries its traffic, and its errors.

Understands NCCL 2.27 to 2.30, several ranks in one log, and the prefixes of vLLM, journald, Ray and containers.
The transport is judged by the lines of the channels. `NET/IB : Using` proves nothing: it is printed on the fallback
to sockets too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .findings import Finding, finding
from .nccl_faults import fault_in
from .nccl_speaker import Speaker, version_number

MAX_LINE = 2048  # NCCL's own longest line; a file without line ends must not cost more than its length
MAX_ERRORS = 50

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MARK = re.compile(r"NCCL (?:INFO|WARN|TRACE|CALL|ABORT) ")
# host:pid:thread [GPU] file:line NCCL WARN, the last two only with a warning; host:pid:thread NCCL CALL.
_ORIGIN = re.compile(r"([\w.-]{1,64}):(\d{1,9}):\d{1,9} (?:\[-?\d+\] )?(?:\S+:\d+ (?:\(\w+\) )?)?$")
_OUTER = re.compile(r"\((?:pid=|[\w-]+ pid=)(\d{1,9})(?:, ip=([^\s)]{1,64}))?\)")
_WORTH = re.compile(
    r"NCCL|nccl|NET/|ibv_|ld\.so|Channel |Connected all rings|mq_connect_ip|Launching vLLM|non-default args|systemd\["
)
_BOOT = re.compile(r"Launching vLLM \(v|non-default args: |systemd\[\d+\]: Started ")

_PRELOAD = re.compile(r"ld\.so: object '([^']*)' from LD_PRELOAD cannot be preloaded \(([^)]*)\): ignored")


@dataclass(frozen=True)
class Fault:
    """An error or warning of the log: its finding, the first line that tells it, and how many do."""

    id: str
    line: str
    count: int = 1
    values: tuple[tuple[str, str], ...] = ()

    def finding(self) -> Finding:
        return finding(self.id, evidence=self.line, **dict(self.values))


@dataclass(frozen=True)
class NcclLog:
    """What all processes of a log say together. None is unknown."""

    version: str | None
    cuda: str | None
    transport: str
    devices: list[dict[str, Any]]
    gdr: bool | None
    plugin: str | None
    errors: list[Fault]
    processes: list[Speaker]

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "cuda": self.cuda,
            "transport": self.transport,
            "devices": self.devices,
            "gdr": self.gdr,
            "plugin": self.plugin,
            "errors": [self._error(fault) for fault in self.errors],
            "processes": [
                {
                    "host": each.host,
                    "pid": each.pid,
                    "rank": each.rank,
                    "ranks": each.ranks,
                    "version": each.version,
                    "transport": transport_of([each]),
                    "channels": sum(each.channels.values()),
                }
                for each in self.processes
            ],
        }

    @staticmethod
    def _error(fault: Fault) -> dict[str, Any]:
        told = fault.finding()
        return {
            "id": fault.id,
            "line": fault.line,
            "count": fault.count,
            "cause": told.summary,
            "remedy": told.remedy,
        }


def transport_of(speakers: Iterable[Speaker]) -> str:
    """One word for what carries the traffic: what the channels say; mixed where they say several things.

    Without any channel only the worse is believed: sockets where NCCL set sockets up, none where it has RDMA devices
    and nothing shows that they are used.
    """
    speakers = list(speakers)
    found = set().union(*(each.transports for each in speakers)) if speakers else set()
    if not found and not any(each.channels for each in speakers):
        networks = {each.network for each in speakers if each.network}
        found = {"socket"} if "Socket" in networks else set()
    if not found:
        return "none"
    return found.pop() if len(found) == 1 else "mixed"


class _Reader:
    """Takes in a log piece by piece; the newest start in it counts."""

    def __init__(self) -> None:
        self.speakers: dict[tuple[str | None, int | None], Speaker] = {}
        self.faults: dict[tuple, Fault] = {}
        self.since_last_word: dict[tuple, Fault] = {}

    def take(self, line: str) -> None:
        if _BOOT.search(line):
            if any(not each.says_nothing for each in self.speakers.values()):
                self.speakers, self.faults = {}, dict(self.since_last_word)
            return
        for speaker, text in self._pieces(line):
            before = len(self.faults)
            self._fault(speaker, text)
            if not _PRELOAD.search(text):
                self.since_last_word = {}
            elif len(self.faults) > before:
                self.since_last_word = dict(list(self.faults.items())[before:])
            speaker.hear(text)

    def _pieces(self, line: str) -> Iterator[tuple[Speaker, str]]:
        """A line, cut where another process of the same log began to speak within it."""
        outer = _OUTER.search(line)
        known = (outer[2], int(outer[1])) if outer else (None, None)
        marks = list(_MARK.finditer(line))
        if not marks:
            yield self._speaker(*known), line
            return
        origins = [_ORIGIN.search(line, max(0, mark.start() - 200), mark.start()) for mark in marks]
        for number, (mark, origin) in enumerate(zip(marks, origins, strict=True)):
            after = origins[number + 1] if number + 1 < len(marks) else None
            end = after.start() if after else marks[number + 1].start() if number + 1 < len(marks) else None
            who = self._met(origin[1], int(origin[2])) if origin else known
            yield self._speaker(*who), line[mark.start() : end].rstrip()

    def _met(self, host: str, pid: int) -> tuple[str, int]:
        """Without a line end between them the last word of one process sticks to the name of the next."""
        if (host, pid) in self.speakers:
            return host, pid
        same = [name for name, number in self.speakers if name and number == pid and host.endswith(name)]
        return (same[0], pid) if same else (host, pid)

    def _speaker(self, host: str | None, pid: int | None) -> Speaker:
        return self.speakers.setdefault((host, pid), Speaker(host, pid))

    def _fault(self, speaker: Speaker, text: str) -> None:
        if match := _PRELOAD.search(text):
            found, values = "nccl.preload.ignored", (("path", match[1]), ("why", match[2]))
        elif text.startswith("NCCL INFO "):
            return  # what NCCL tries again it tells as INFO
        else:
            found, values = fault_in(text), ()
        if found is None:
            return
        # A general warning is told for each of its texts, a known cause once for each process.
        key = (found, values, speaker.host, speaker.pid, text if found == "nccl.warning" else None)
        if key in self.faults:
            old = self.faults[key]
            self.faults[key] = Fault(old.id, old.line, old.count + 1, old.values)
        elif len(self.faults) < MAX_ERRORS:
            self.faults[key] = Fault(found, text.strip()[:400], 1, values)


def read_log(lines: Iterable[str]) -> NcclLog:
    """Read a log, whole or cut anywhere. A log of several starts is read from the newest on."""
    reader = _Reader()
    for line in lines:
        line = line[:MAX_LINE]
        if _WORTH.search(line):
            reader.take(_ANSI.sub("", line).rstrip("\r\n"))
    speakers = _joined(reader.speakers.values())
    return NcclLog(
        version=min((each.version for each in speakers if each.version), key=version_number, default=None),
        cuda=next((each.cuda for each in speakers if each.cuda), None),
        transport=transport_of(speakers),
        devices=[_device(each, speaker) for speaker in speakers for each in speaker.devices],
        gdr=_gdr(speakers),
        plugin=next((each.plugin for each in speakers if each.plugin), None),
        errors=list(reader.faults.values()),
        processes=speakers,
    )


def _joined(speakers: Iterable[Speaker]) -> list[Speaker]:
    """Who said something. What vLLM says of a process, without its host, joins what NCCL says of it."""
    told = [each for each in speakers if not each.says_nothing]
    for each in [each for each in told if each.host is None and each.pid and not each.channels]:
        same = [other for other in told if other.pid == each.pid and other.host]
        if len(same) == 1:
            same[0].versions |= each.versions
            told.remove(each)
    return told


def _device(device: dict[str, Any], speaker: Speaker) -> dict[str, Any]:
    used = speaker.channels[device["kind"], device["index"]]
    return {**device, "host": speaker.host, "pid": speaker.pid, "channels": used}


def _gdr(speakers: Iterable[Speaker]) -> bool | None:
    """Whether the NIC reads the GPU's memory by itself: what the channels say, else the devices, else the rings."""
    for source in ("channels", "devices", "rings"):
        said = [each.gdr_says[source] for each in speakers if source in each.gdr_says]
        if said:
            return any(said)
    return None


def lines_of(path: str) -> Iterator[str]:
    """The lines of a file, whatever bytes are in it; one that never ends comes in pieces."""
    with open(path, "rb") as stream:
        while piece := stream.readline(1 << 16):
            yield piece.decode("utf-8", "replace")
