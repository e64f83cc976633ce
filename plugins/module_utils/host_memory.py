# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a host that runs an engine: tight and healthy, swapping, exhausted; and what its kernel says of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .findings import Finding, finding
from .kernel_files import Tree

EXHAUSTED_GIB = 0.5
ROOMY_GIB = 8.0
SWAPPING_PAGES_PER_S = 100.0  # 0 to 4 were seen on a pair that was healthy with 4.8 GiB in swap
_OOM = re.compile(r"oom-kill:constraint=CONSTRAINT_NONE\b.*\btask=(.{1,64}?),pid=(\d{1,9})\b")
_POLLER = re.compile(r"earlyoom|nohang|dgx-anti-oom|(?:\w+-)?(?:oom|mem(?:ory)?)[-_]?guard\w*")
_NO_MEMORY = re.compile(r"NVRM:.*\bNV_ERR_NO_MEMORY\b")


@dataclass(frozen=True)
class HostMemory:
    """state: roomy, healthy-tight, loading, swapping, exhausted or unknown."""

    state: str
    findings: tuple[Finding, ...] = ()


def meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo -> KiB by name."""
    return {name: int(value) for name, value in re.findall(r"(?m)^(\w+):\s+(\d{1,15}) kB", text)}


def pages_in(vmstat: str) -> int | None:
    """/proc/vmstat -> pages read from swap since the boot; None where it does not say."""
    row = re.search(r"(?m)^pswpin (\d{1,19})$", vmstat)
    return int(row[1]) if row else None


def judge(
    available_gib: float | None,
    pages_before: int | None = None,
    pages_after: int | None = None,
    seconds: float | None = None,
    loading: bool = False,
) -> HostMemory:
    """Judge by what is available and by the pages that came back from swap within `seconds`.

    How much swap is in use says nothing. While weights are loaded, swapping is no failure.
    """
    if available_gib is None:
        return HostMemory("unknown")
    if available_gib < EXHAUSTED_GIB:
        return HostMemory("exhausted", (finding("memory.host.exhausted", available_gib=available_gib),))
    if loading:
        return HostMemory("loading")
    if None not in (pages_before, pages_after) and seconds and pages_after >= pages_before:
        rate = (pages_after - pages_before) / seconds
        if rate >= SWAPPING_PAGES_PER_S:
            return HostMemory("swapping", (finding("memory.host.swapping", pages_per_s=round(rate)),))
    return HostMemory("healthy-tight" if available_gib < ROOMY_GIB else "roomy")


def killed_by_oom(kernel_log: Iterable[str]) -> tuple[Finding, ...]:
    """Kills for want of memory on the whole host; those of one unit's limit are that unit's affair."""
    kills = (match for line in kernel_log if (match := _OOM.search(line)))
    return tuple(finding("memory.host.oom", killed=f"{each[1]}, pid {each[2]}") for each in kills)


def pollers(root: Tree) -> tuple[str, ...]:
    """Programs that run here and end others when memory gets short, by looking at it now and then.

    systemd-oomd is not one of them: the kernel's pressure wakes it, and Ubuntu brings it along.
    """
    found = {}
    for pid in (name for name in root.names("proc") if re.fullmatch(r"[0-9]{1,9}", name)):
        name = root.text("proc", pid, "comm") or ""
        if _POLLER.fullmatch(name):
            found.setdefault(name, f"{name}, pid {pid}")
    return tuple(found.values())


def pollers_told(found: Iterable[str]) -> tuple[Finding, ...]:
    return tuple(finding("memory.killer.polls", who=who, roomy_gib=ROOMY_GIB) for who in found)


def no_memory_lines(kernel_log: Iterable[str]) -> int:
    """How often the driver says NV_ERR_NO_MEMORY: a count, no verdict. Healthy starts say it, failed ones may not."""
    return sum(1 for line in kernel_log if _NO_MEMORY.search(line))
