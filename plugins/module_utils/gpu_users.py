# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the GPU's memory besides the engine: processes that outlived their engine, and other programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .containers import stays
from .engine_state import UNITS
from .findings import Finding, finding
from .kernel_files import Tree
from .processes import owner

ENGINE = re.compile(r"(?:VLLM|sglang|ray)::[\w.]+")
# Who takes over a process whose parent is gone: init, a user's systemd, and the first process of a container.
REAPERS = ("systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "conmon", "containerd-shim")
KIB_PER_GIB = 1 << 20
_GENERATIONS = 64


@dataclass(frozen=True)
class Orphan:
    """A process of an engine without the server that started it. resident_gib is None where it is unknown."""

    pid: int
    name: str
    unit: str | None
    resident_gib: float | None


@dataclass(frozen=True)
class _Status:
    parent: int | None
    zombie: bool
    resident_gib: float | None


def _status(tree: Tree, pid: int) -> _Status | None:
    """None where there is no such process."""
    text = tree.text(str(pid), "status")
    if text is None:
        return None
    parent = re.search(r"(?m)^PPid:\s+(\d{1,9})$", text)
    resident = re.search(r"(?m)^VmRSS:\s+(\d{1,15}) kB$", text)
    return _Status(
        int(parent[1]) if parent else None,
        re.search(r"(?m)^State:\s+[ZX]", text) is not None,
        round(int(resident[1]) / KIB_PER_GIB, 2) if resident else None,
    )


def _name(tree: Tree, pid: int) -> str | None:
    """The title that vLLM, SGLang and Ray give their processes; comm has only 15 bytes of it."""
    title = (tree.text(str(pid), "cmdline") or "").replace("\0", " ").strip()
    found = ENGINE.match(title) or ENGINE.match(tree.text(str(pid), "comm") or "")
    return found[0] if found else None


def _served(tree: Tree, pid: int) -> bool:
    """Whether the first ancestor that is no part of the engine lives, and may be its server."""
    for _generation in range(_GENERATIONS):
        status = _status(tree, pid)
        if status is None or status.parent in (0, 1):
            return False
        if status.parent is None:
            return True  # unknown: nobody is told to kill it
        pid = status.parent
        if _name(tree, pid) is None:
            above = _status(tree, pid)
            comm = (tree.text(str(pid), "comm") or "").strip("()")
            return above is not None and not above.zombie and not comm.startswith(REAPERS)
    return True


def orphans(tree: Tree) -> tuple[Orphan, ...]:
    """Processes of an engine's workers whose server is gone. tree: a procfs."""
    found = []
    for pid in sorted(int(name) for name in tree.names() if re.fullmatch(r"[0-9]{1,9}", name)):
        name, status = _name(tree, pid), _status(tree, pid)
        if name is None or status is None or status.zombie or _served(tree, pid):
            continue
        process = owner(tree, pid)
        found.append(Orphan(pid, name, process.unit if process else None, status.resident_gib))
    return tuple(found)


def gpu_findings(
    processes: Iterable[Mapping[str, Any]], left_over: Iterable[Orphan] = (), hosts: Iterable[str] = ()
) -> tuple[Finding, ...]:
    """Orphans first, then what computes on the GPU and is no unit of ours.

    processes: gpu.processes of node_info; one whose pid is an orphan's gives no second finding.
    """
    on_gpu = {each.get("pid"): each for each in processes}
    notes, named, where = [], set(), tuple(hosts)
    for orphan in left_over:
        if orphan.unit in UNITS:
            continue  # it goes with its unit
        mib = on_gpu.get(orphan.pid, {}).get("memory_mib")
        holds = _holds(mib) or (
            f" and holds {orphan.resident_gib} GiB of memory" if orphan.resident_gib else ""
        )
        notes.append(finding("memory.gpu.orphan", where, name=orphan.name, pid=orphan.pid, holds=holds))
        named.add(orphan.pid)
    for pid, each in on_gpu.items():
        if pid in named or each.get("unit") in UNITS:
            continue
        if container := each.get("container"):
            values = {name: container[name] for name in ("image", "program")}
            told = f"{each.get('name')}, pid {pid}{_holds(each.get('memory_mib'))}"
            values |= {"container": container["name"], "owner": told, "again": stays(container)}
            notes.append(finding("container.foreign.gpu", where, **values))
        else:
            who = each.get("unit") or each.get("user") or "an unknown owner"
            told = f"{each.get('name')}, pid {pid}, of {who}{_holds(each.get('memory_mib'))}"
            notes.append(
                finding("plan.gpu.taken", where, owner=told, pid=pid, unit=each.get("unit") or "UNIT")
            )
    return tuple(notes)


def _holds(mib: int | None) -> str:
    return f" and holds {mib} MiB of memory" if mib else ""
