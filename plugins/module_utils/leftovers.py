# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank leaves behind when it is killed, taken away before another one starts: its container, its shared memory.

A rank that ends by SIGKILL removes nothing of /dev/shm, and on a Spark that is memory which the next one wants. The
container of a rank outlives its client, whose end is all that systemd sees.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import commands
from .kernel_files import Tree, is_number

SHARED = "dev/shm"
CACHES = "var/cache/tandem"  # its owner is the engine's account
REMOVE_S = 120.0  # a rank of 80 GiB takes a while to die
_MAPPED = re.compile(r"(?m) (/dev/shm/\S+)(?: \(deleted\))?$")


class LeftoversError(Exception):
    """What is still there, and what to do."""


@dataclass
class Cleared:
    """containers: names. files: of shared memory. bytes: what they held."""

    containers: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    bytes: int = 0

    def __str__(self) -> str:
        said = [f"container {name}" for name in self.containers]
        if self.files:
            said.append(f"{len(self.files)} files of shared memory ({self.bytes / 2**20:.0f} MiB)")
        return " and ".join(said)


def container(program: str, name: str, cleared: Cleared) -> None:
    """Removes a container whatever it does. Raises LeftoversError where it is still there."""
    there = commands.ask([program, "container", "inspect", "--format", "{{.Id}}", name], timeout_s=30)
    if there.ok:
        done = commands.ask([program, "rm", "--force", name], timeout_s=REMOVE_S, with_errors=True)
        left = commands.ask([program, "container", "inspect", "--format", "{{.Id}}", name], timeout_s=30)
        if left.ok or left.rc is None:
            said = " ".join(done.out.split())[-300:] or "no answer in time"
            raise LeftoversError(
                f"The container {name} of an earlier start is still there: {said}. Look at `{program} ps -a` and at "
                f"its processes; `{program} rm -f {name}` must take it away before a rank can start."
            )
        cleared.containers.append(name)
    elif there.rc is None:
        raise LeftoversError(
            f"`{program}` gives no answer, so what an earlier start left is unknown. "
            f"Look at `systemctl status {program}`."
        )


def containers(programs: Iterable[str], names: Iterable[str], cleared: Cleared) -> None:
    for program in programs:
        if commands.there(program):
            for name in names:
                container(program, name, cleared)


def owner_of(root: Path) -> int | None:
    """The engine's account, whose the caches are. Never root, who has files of his own in the same place."""
    try:
        return os.stat(root / CACHES).st_uid or None
    except OSError:
        return None


def shared_memory(root: Path, cleared: Cleared) -> None:
    """Removes the engine's files of shared memory that no process has open or mapped any more."""
    owner = owner_of(root)
    try:
        found = list(os.scandir(root / SHARED))
    except OSError:
        return
    ours = {}
    for entry in found:
        with contextlib.suppress(OSError):
            info = entry.stat(follow_symlinks=False)
            if info.st_uid == owner and stat.S_ISREG(info.st_mode):
                ours[entry.path] = info.st_blocks * 512
    used = _used(root) if ours else set()
    for path, size in sorted(ours.items()):
        if f"/{SHARED}/{os.path.basename(path)}" in used:
            continue
        with contextlib.suppress(OSError):
            os.unlink(path)
            cleared.files.append(path)
            cleared.bytes += size


def _used(root: Path) -> set[str]:
    """Files of shared memory that some process has open or mapped, by their path."""
    proc = Tree(str(root / "proc"))
    found: set[str] = set()
    for pid in (name for name in proc.names() if is_number(name)):
        found |= set(_MAPPED.findall(proc.text(pid, "maps") or ""))
        for handle in proc.names(pid, "fd"):
            with contextlib.suppress(OSError):
                place = os.readlink(proc.path(pid, "fd", handle))
                if place.startswith(f"/{SHARED}/"):
                    found.add(place)
    return found
