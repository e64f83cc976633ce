# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL a process really has in memory, whatever its environment and torch say.

A path in LD_PRELOAD that is missing or of another processor costs one line of ld.so and nothing else: the process
goes on with the library that its torch brings. /proc/PID/maps alone tells.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .findings import Finding, finding
from .kernel_files import Tree, is_number
from .nccl_speaker import version_number
from .processes import owner

_LIBRARY = re.compile(r"libnccl\.so(?:\.[\d.]+)?")
_PLUGIN = re.compile(r"libnccl-net[\w.-]*\.so(?:\.[\d.]+)?")
_DELETED = " (deleted)"
_MARK = b"NCCL version "
_NUMBER = re.compile(rb"NCCL version (\d+\.\d+\.\d+\w{0,16})")
_IN_NAME = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")
_IN_WHEEL = re.compile(r"nvidia_nccl_\w+-([\d.]+)\.dist-info")


@dataclass(frozen=True)
class Library:
    """One mapped file. path: as the process sees it. version, size: None where they could not be read."""

    path: str
    deleted: bool
    version: str | None
    size: int | None


@dataclass(frozen=True)
class Preload:
    """One entry of LD_PRELOAD. exists is None for a bare name, which ld.so looks for in its own folders."""

    path: str
    exists: bool | None
    mapped: bool


@dataclass(frozen=True)
class Process:
    """One process; unit is the innermost systemd unit of it."""

    pid: int
    name: str | None
    unit: str | None
    libraries: tuple[Library, ...]
    plugins: tuple[str, ...]
    preloads: tuple[Preload, ...]


@dataclass(frozen=True)
class Look:
    """Everything that was seen; unreadable holds the pids whose memory map could not be read."""

    processes: tuple[Process, ...]
    unreadable: tuple[int, ...]

    @property
    def versions(self) -> list[str]:
        found = {each.version for process in self.processes for each in process.libraries if each.version}
        return sorted(found, key=version_number)


def mapped_files(maps: str) -> dict[str, str]:
    """/proc/PID/maps -> {file: its first range of addresses}, in the order of their addresses."""
    found = {}
    for line in maps.splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/"):
            found.setdefault(words[5].replace("\\012", "\n"), words[0])
    return found


def version_of(path: str, content_at: str | None = None) -> tuple[str | None, int | None]:
    """The version of a library file and its size: from the text in it, else its name, else the wheel around it.

    content_at: where its content is read, if that is another place.
    """
    version, size = None, None
    try:
        with open(content_at or path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size:
                with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    version = _version_in(content)
    except (OSError, ValueError):
        pass
    if version is None and (match := _IN_NAME.search(os.path.basename(path))):
        version = match[1]
    if version is None and content_at is None:
        version = _version_of_wheel(path)
    return version, size


def _version_in(content: mmap.mmap) -> str | None:
    """find() first, since the file has some hundred MB; the words stand in other texts too, without a number."""
    place = content.find(_MARK)
    while place >= 0:
        if match := _NUMBER.match(content, place):
            return match[1].decode("ascii")
        place = content.find(_MARK, place + 1)
    return None


def _version_of_wheel(path: str) -> str | None:
    """site-packages/nvidia/nccl/lib/libnccl.so.2 lies beside nvidia_nccl_cu13-VERSION.dist-info."""
    site, _slash, _rest = path.rpartition("/nvidia/nccl/")
    found = (
        {match[1] for name in Tree(site).names() if (match := _IN_WHEEL.fullmatch(name))} if site else set()
    )
    return found.pop() if len(found) == 1 else None


def look(root: str = "/", unit: str | None = None, pids: Iterable[int] | None = None) -> Look:
    """Look at the processes named, at those of a unit, or at every one that has NCCL in memory."""
    proc = Tree(os.path.join(root, "proc"))
    asked = list(pids) if pids is not None else None
    numbers = asked if asked is not None else [int(name) for name in proc.names() if is_number(name)]
    seen, unreadable = [], []
    for pid in sorted(numbers):
        who = owner(proc, pid)
        if who is None or (unit and who.unit != unit):
            continue
        before = len(proc.unreadable)
        maps = proc.text(str(pid), "maps")
        if maps is None:
            # A kernel thread has an empty map; so has a process that just ended.
            if len(proc.unreadable) > before:
                unreadable.append(pid)
            continue
        process = _process(proc, pid, mapped_files(maps), who.name, who.unit)
        if asked is not None or unit or process.libraries or process.plugins:
            seen.append(process)
    return Look(tuple(seen), tuple(unreadable) if asked is not None or unit else ())


def _process(proc: Tree, pid: int, mapped: Mapping[str, str], name: str | None, unit: str | None) -> Process:
    inside = proc.path(str(pid), "root")
    libraries, plugins = [], []
    for path, addresses in mapped.items():
        plain = path.removesuffix(_DELETED)
        if _LIBRARY.fullmatch(os.path.basename(plain)):
            deleted = path.endswith(_DELETED)
            # Another file may lie at the path of a deleted one; the kernel still has the mapped one, for root.
            content_at = proc.path(str(pid), "map_files", addresses) if deleted else None
            version, size = version_of(inside + plain, content_at)
            libraries.append(Library(plain, deleted, version, size))
        elif _PLUGIN.fullmatch(os.path.basename(plain)):
            plugins.append(plain)
    preloads = [_preload(inside, entry, mapped) for entry in _preloaded(proc, pid)]
    return Process(pid, name, unit, tuple(libraries), tuple(plugins), tuple(preloads))


def _preloaded(proc: Tree, pid: int) -> list[str]:
    environment = proc.text(str(pid), "environ") or ""
    values = [item.partition("=")[2] for item in environment.split("\0") if item.startswith("LD_PRELOAD=")]
    return [entry for value in values[:1] for entry in re.split(r"[: ]+", value) if entry]


def _preload(inside: str, entry: str, mapped: Iterable[str]) -> Preload:
    if "/" not in entry:
        return Preload(entry, None, any(os.path.basename(path) == entry for path in mapped))
    real = os.path.realpath(inside + entry)
    same = any(os.path.realpath(inside + path) == real for path in mapped)
    return Preload(entry, os.path.exists(real), same or entry in mapped)


def preload_problems(root: str = "/", pid: int | None = None) -> list[str]:
    """What keeps the libraries of LD_PRELOAD from being loaded into a process that is started as this one was.

    ld.so goes on without them, so a rank asks before it starts: what the asking process has not mapped, the engine
    would not have either.
    """
    process = look(root, pids=[pid or os.getpid()]).processes
    return [f"{note.summary}. {note.remedy}." for each in process for note in _preload_notes(each)]


def judge(seen: Look, minimum: str | None = None) -> list[Finding]:
    """The findings of one node."""
    notes = [
        finding("host.look.failed", subject=f"The memory map of pid {pid}", command=f"cat /proc/{pid}/maps")
        for pid in seen.unreadable
    ]
    for process in seen.processes:
        notes += _preload_notes(process)
        notes += _library_notes(process, minimum)
        notes += [finding("nccl.plugin.mapped", pid=process.pid, path=path) for path in process.plugins]
    return notes


def _preload_notes(process: Process) -> Iterator[Finding]:
    mapped = ", ".join(library.path for library in process.libraries) or "no NCCL at all"
    for entry in process.preloads:
        if entry.exists is False:
            yield finding("nccl.preload.missing", pid=process.pid, path=entry.path)
        elif not entry.mapped and _LIBRARY.fullmatch(os.path.basename(entry.path)):
            yield finding("nccl.preload.unused", pid=process.pid, path=entry.path, mapped=mapped)


def _library_notes(process: Process, minimum: str | None) -> Iterator[Finding]:
    if len(process.libraries) > 1:
        found = ", ".join(f"{each.path} ({each.version or 'unknown'})" for each in process.libraries)
        yield finding("nccl.library.two", pid=process.pid, found=found)
    for library in process.libraries:
        if library.deleted:
            yield finding("nccl.library.deleted", pid=process.pid, path=library.path)
        elif library.version is None:
            yield finding("nccl.library.unknown", pid=process.pid, path=library.path)
        elif minimum and version_number(library.version) < version_number(minimum):
            evidence = f"pid {process.pid}: {library.path}"
            yield finding("nccl.version.old", found=library.version, minimum=minimum, evidence=evidence)


def differences(looks: Mapping[str, Sequence[Mapping]]) -> list[Finding]:
    """What differs between ranks. looks: for each host the `processes` that nccl_info returned.

    A rank without NCCL, or with one of unknown version, is not equal to one that has it.
    """
    held = {
        host: sorted(
            {
                (library["version"] or "unknown", library["size"] or 0)
                for process in processes
                for library in process["libraries"]
            }
        )
        for host, processes in looks.items()
    }
    if len({tuple(each) for each in held.values()}) <= 1:
        return []
    words = {
        host: " and ".join(f"{version} ({size} bytes)" for version, size in each) or "none"
        for host, each in held.items()
    }
    found = ", ".join(f"{host}: {each}" for host, each in words.items())
    return [finding("nccl.version.mixed", list(looks), found=found)]
