# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running engine was really given of its node, in a container or not, whoever started it.

Only the process itself tells: its own environment, limits, capabilities and file system. A shell beside it
(`docker exec`), a compose file or a unit say what somebody wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import nccl_rules
from .containers import container_of
from .findings import Finding, finding
from .kernel_files import Tree

# What decides by which way ranks reach each other. Nothing else of an environment is read: it may hold secrets.
READ = re.compile(
    r"(NCCL_[A-Z0-9_]{1,48}|(?:GLOO|TP)_SOCKET_IFNAME|UCX_NET_DEVICES|VLLM_HOST_IP|LD_PRELOAD)=([^\0]{0,300})"
)
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_IPC_LOCK = 1 << 14  # CAP_IPC_LOCK: the limit of locked memory does not hold
_MEMLOCK = re.compile(r"(?m)^Max locked memory\s+(\d{1,20}|unlimited)\s")
_EFFECTIVE = re.compile(r"(?m)^CapEff:\s+([0-9a-f]{1,16})$")
_PARENT = re.compile(r"(?m)^PPid:\s+(\d{1,9})$")
MIB = 1 << 20
_GENERATIONS = 64


@dataclass(frozen=True)
class Beside:
    """A process in the same container that has other values of these variables than the engine has."""

    pid: int
    name: str | None
    values: Mapping[str, str]


@dataclass(frozen=True)
class Rank:
    """One process with NCCL in memory. container: runtime and short id, None outside of one.

    rdma_devices: how many /dev/infiniband/uverbs* it sees; None where that could not be read.
    memlock_bytes: what it may lock; None is no limit, or an unknown one (then locks is None too).
    locks: whether any amount may be locked.
    """

    pid: int
    name: str | None
    unit: str | None
    container: str | None
    rdma_devices: int | None
    memlock_bytes: int | None
    locks: bool | None
    environment: Mapping[str, str]
    beside: tuple[Beside, ...] = ()


def environment_of(text: str) -> dict[str, str]:
    """/proc/PID/environ -> the variables that are READ."""
    return {match[1]: match[2] for item in text.split("\0") if (match := READ.fullmatch(item))}


def look(proc: Tree, processes: Iterable[tuple[int, str | None, str | None]]) -> tuple[Rank, ...]:
    """proc: a procfs. processes: (pid, name, unit) of those that have NCCL in memory."""
    named = list(processes)
    parents = _parents(proc) if named else {}
    ranks = {pid for pid, _name, _unit in named}
    found = []
    for pid, name, unit in named:
        cgroup = proc.text(str(pid), "cgroup") or ""
        limit = _MEMLOCK.search(proc.text(str(pid), "limits") or "")
        effective = _EFFECTIVE.search(proc.text(str(pid), "status") or "")
        memlock = int(limit[1]) if limit and limit[1] != "unlimited" else None
        capable = bool(effective and int(effective[1], 16) & _IPC_LOCK)
        environment = environment_of(proc.text(str(pid), "environ") or "")
        container = container_of(cgroup)
        others = [each for each in parents if each not in ranks] if container else []
        found.append(
            Rank(
                pid,
                name,
                unit,
                container,
                _devices(proc, pid),
                memlock,
                None if not limit and not capable else memlock is None or capable,
                environment,
                tuple(_beside(proc, pid, cgroup, environment, others, parents)),
            )
        )
    return tuple(found)


def _devices(proc: Tree, pid: int) -> int | None:
    """None where its file system cannot be looked into, as with a process that just ended."""
    if not proc.names(str(pid), "root"):
        return None
    return sum(name.startswith("uverbs") for name in proc.names(str(pid), "root/dev/infiniband"))


def _parents(proc: Tree) -> dict[int, int]:
    pids = (int(name) for name in proc.names() if re.fullmatch(r"[0-9]{1,9}", name))
    found = {pid: _PARENT.search(proc.text(str(pid), "status") or "") for pid in pids}
    return {pid: int(match[1]) for pid, match in found.items() if match}


def _line(pid: int, parents: Mapping[int, int]) -> set[int]:
    """A process and its ancestors."""
    found = {pid}
    for _generation in range(_GENERATIONS):
        pid = parents.get(pid, 0)
        if pid in found or not pid:
            break
        found.add(pid)
    return found


def _beside(
    proc: Tree,
    pid: int,
    cgroup: str,
    environment: Mapping[str, str],
    others: Sequence[int],
    parents: Mapping[int, int],
) -> Iterator[Beside]:
    """Who was brought into the same container later. Its own family inherited what it has, or was given another."""
    line = _line(pid, parents)
    for other in others:
        if other in line or proc.text(str(other), "cgroup") != cgroup or pid in _line(other, parents):
            continue
        theirs = environment_of(proc.text(str(other), "environ") or "")
        values = {name: value for name, value in theirs.items() if environment.get(name) != value}
        if values:
            yield Beside(other, proc.text(str(other), "comm"), values)


def judge(ranks: Iterable[Rank], ports: Sequence[tuple[str, int]], netdevs: Collection[str]) -> list[Finding]:
    """ports: (HCA, port) of this node; netdevs: its interfaces. Without an HCA nothing is said of RDMA."""
    notes: list[Finding] = []
    for rank in ranks:
        who = {"pid": rank.pid, "name": rank.name or "a process", "where": _where(rank)}
        if ports:
            notes += _reach(rank, who)
        notes += of_environment(rank.environment, f"pid {rank.pid} ({rank.name})", ports, netdevs)
        for other in rank.beside:
            told = " ".join(f"{name}={value}" for name, value in sorted(other.values.items()))
            notes.append(
                finding("nccl.process.beside", other=other.pid, shell=other.name or "?", told=told, **who)
            )
    return list(dict.fromkeys(notes))


def _where(rank: Rank) -> str:
    if rank.container:
        return f"in container {rank.container}"
    return f"of {rank.unit}" if rank.unit else "outside of containers and units"


def _reach(rank: Rank, who: Mapping[str, object]) -> Iterator[Finding]:
    contained = rank.container is not None
    if rank.rdma_devices == 0:
        remedy = (
            "Make the container anew with --device=/dev/infiniband: --network=host does not pass devices"
            if contained
            else "Let its unit see /dev/infiniband (no PrivateDevices, a DeviceAllow for it) and start it anew"
        )
        yield finding("nccl.process.no_rdma", remedy=remedy, **who)
    if rank.locks is False:
        remedy = (
            "Make the container anew with --ulimit memlock=-1 --cap-add IPC_LOCK"
            if contained
            else "Set LimitMEMLOCK=infinity in its unit (`ulimit -l unlimited` before it) and start it anew"
        )
        limit = f"{(rank.memlock_bytes or 0) / MIB:g} MiB"
        yield finding("nccl.process.memlock", remedy=remedy, limit=limit, **who)


def of_environment(
    environment: Mapping[str, str], who: str, ports: Sequence[tuple[str, int]], netdevs: Collection[str]
) -> Iterator[Finding]:
    """What the values of a process or a container cannot mean on this node."""
    for name in INTERFACES:
        value = environment.get(name, "")
        if absent := [each for each in _interfaces(name, value) if not _there(name, value, each, netdevs)]:
            values = {"variable": name, "value": value, "absent": " and ".join(absent)}
            yield finding("nccl.process.interface", who=who, **values)
    if environment.get("NCCL_IB_DISABLE", "0") not in ("", "0") and ports:
        yield finding("nccl.ib.disabled", evidence=f"{who}: NCCL_IB_DISABLE={environment['NCCL_IB_DISABLE']}")
    index = environment.get("NCCL_IB_GID_INDEX", "")
    try:
        nccl_rules.parse_gid_index(index or None)
    except ValueError:
        yield finding("nccl.process.gid_index", value=index, who=who, read=nccl_rules.strtoll(index))
    selector = environment.get("NCCL_IB_HCA", "")
    if selector and ports and not any(nccl_rules.parse_selector(selector).takes(*port) for port in ports):
        found = ", ".join(dict.fromkeys(hca for hca, _port in ports))
        yield finding("nccl.process.hca", value=selector, who=who, found=found)


def _interfaces(name: str, value: str) -> list[str]:
    """The interfaces that a value names; an exclusion names none that must be there."""
    if name == "NCCL_SOCKET_IFNAME":
        value = "" if value.startswith("^") else value.removeprefix("=")
    # NCCL takes NAME:PORT too.
    return [each.partition(":")[0].strip() for each in value.split(",") if each.partition(":")[0].strip()]


def _there(name: str, value: str, interface: str, netdevs: Collection[str]) -> bool:
    """Gloo and tensorpipe want the name, NCCL takes a prefix unless the list begins with =."""
    if name == "NCCL_SOCKET_IFNAME" and not value.startswith("="):
        return any(netdev.startswith(interface) for netdev in netdevs)
    return interface in netdevs
