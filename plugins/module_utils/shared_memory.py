# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared memory of containers: how large it may grow. On a Spark it comes out of the memory that the model takes.

The host's own /dev/shm is left out: every Linux lets it grow to half of the memory, and nobody chose that.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from .findings import Finding, finding
from .kernel_files import Tree
from .memory_plan import GIB, SHM_GIB
from .processes import owner

_MOUNT = re.compile(r"(?m)^\d+ \d+ (\d+:\d+) \S+ /dev/shm .* - tmpfs \S+ (\S+)$")
_SIZE = re.compile(r"(?:^|,)size=(\d{1,18})([kmg]?)(?:,|$)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": GIB}
DOCKER = "var/lib/docker/containers"


@dataclass(frozen=True)
class Shared:
    """who: a process or a container. gib: how far it may grow."""

    who: str
    gib: float


def look(root: Tree) -> tuple[Shared, ...]:
    """What is mounted in a process's own view of the system, then what containers that may be off ask for."""
    return tuple({each.who: each for each in (*_mounted(root), *_asked_for(root))}.values())


def findings(found: tuple[Shared, ...]) -> list[Finding]:
    return [
        finding("memory.plan.shm", evidence=each.who, shm_gib=f"{each.gib:g}", largest_gib=f"{SHM_GIB:g}")
        for each in found
        if each.gib > SHM_GIB
    ]


def _mounts(root: Tree, pid: str) -> list[tuple[str, str]]:
    """[(device, options)] of /dev/shm as a process sees it."""
    return _MOUNT.findall(root.text("proc", pid, "mountinfo") or "")


def _mounted(root: Tree) -> list[Shared]:
    seen = {device for device, _options in _mounts(root, "1")}
    found = []
    for pid in sorted((name for name in root.names("proc") if re.fullmatch(r"[0-9]{1,9}", name)), key=int):
        for device, options in _mounts(root, pid):
            size = _SIZE.search(options)
            if device in seen or not size:
                continue
            seen.add(device)
            who = owner(Tree(root.path("proc")), int(pid))
            words = [who.name if who else None, f"pid {pid}", who.unit if who else None]
            found.append(
                Shared(", ".join(filter(None, words)), _gib(int(size[1]) * _FACTORS[size[2].lower()]))
            )
    return found


def _asked_for(root: Tree) -> list[Shared]:
    found = []
    for name in root.names(DOCKER):
        try:
            asked = json.loads(root.text(DOCKER, name, "hostconfig.json") or "null")
        except (ValueError, RecursionError):
            continue
        size = asked.get("ShmSize") if isinstance(asked, dict) else None
        if isinstance(size, int) and 0 < size < 1 << 60:
            found.append(Shared(f"container {name[:12]}", _gib(size)))
    return found


def _gib(size: int) -> float:
    return round(size / GIB, 2)
