# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who caps the clocks or the power of a GPU: units, timed jobs and processes that say so to nvidia-smi again and again.

nvidia-smi itself does not tell who set a cap, so a clock is judged only after this was looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .findings import Finding, finding
from .kernel_files import Tree
from .processes import unit_of

UNIT_FOLDERS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system")
JOB_FOLDERS = ("etc/cron.d", "etc/crontab", "etc/rc.local", "var/spool/cron/crontabs")
OURS = "tandem-"
ABOVE = 1.05  # clocks come in steps
_COMMAND = re.compile(
    r"nvidia-smi\b[^\n;&|]*?\s(?:-lgc|--lock-gpu-clocks|-ac|--applications-clocks|-pl|--power-limit)(?:[ =]+([\d.,]+))?"
)
_CLOCKS = re.compile(r"-lgc|--lock-gpu-clocks|-ac|--applications-clocks")
_NAMED = re.compile(r"(?i)clock[-_]?cap|gpu[-_]?cap")


@dataclass(frozen=True)
class Cap:
    """who: a file or a process. says: its command, None where only its name tells. mhz: the highest clock it allows.

    ours: set by a unit of the collection, as its user asked.
    """

    who: str
    says: str | None = None
    mhz: float | None = None
    ours: bool = False


def caps(root: Tree) -> list[Cap]:
    """All of a node, files first; one that both a file and a process tell is told by both."""
    return list(dict.fromkeys([*_in_files(root), *_in_processes(root)]))


def cap_mhz(found: list[Cap]) -> float | None:
    """The lowest of the known caps: that one holds the clocks."""
    return min((each.mhz for each in found if each.mhz is not None), default=None)


def findings(found: list[Cap]) -> list[Finding]:
    others = [each for each in found if not each.ours]
    return [finding("power.cap.set", who=each.who, evidence=each.says or "its name") for each in others]


def lost(found: list[Cap], gpus: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """GPUs that run above a cap which is set now: by this collection's unit, or by a process that says so."""
    sure = [each for each in found if each.mhz is not None and (each.ours or ", pid " in each.who)]
    if not sure:
        return []
    cap = min(sure, key=lambda each: each.mhz)
    return [
        finding(
            "power.cap.lost",
            gpu=gpu["gpu"],
            clock_mhz=f"{gpu['clock_mhz']:g}",
            cap_mhz=f"{cap.mhz:g}",
            who=cap.who,
        )
        for gpu in gpus
        if gpu.get("clock_mhz") and gpu["clock_mhz"] > ABOVE * cap.mhz
    ]


def _cap(who: str, text: str, ours: bool = False) -> Cap | None:
    if command := _COMMAND.search(text):
        numbers = re.findall(r"\d{1,6}(?:\.\d{1,3})?", command[1] or "")
        clocks = bool(_CLOCKS.search(command[0]))
        says = " ".join(command[0].split())
        return Cap(who, says, max(map(float, numbers)) if numbers and clocks else None, ours)
    return Cap(who, ours=ours) if _NAMED.search(who) else None


def _in_files(root: Tree) -> Iterator[Cap]:
    for folder in UNIT_FOLDERS:
        for name in root.names(folder):
            if name.endswith(".service"):
                text = _without_comments(root.text(folder, name))
                if found := _cap(f"/{folder}/{name}", text, name.startswith(OURS)):
                    yield found
    for folder in JOB_FOLDERS:
        for path in [f"{folder}/{name}" for name in root.names(folder)] or [folder]:
            if found := _cap(f"/{path}", _without_comments(root.text(path))):
                yield found


def _without_comments(text: str | None) -> str:
    return re.sub(r"(?m)^\s*[#;].*$", "", text or "")


def _in_processes(root: Tree) -> Iterator[Cap]:
    for pid in (name for name in root.names("proc") if re.fullmatch(r"[0-9]{1,9}", name)):
        title = (root.text("proc", pid, "cmdline") or "").replace("\0", " ").strip()
        first = title.split(" ", 2)[:2]
        unit = unit_of(root.text("proc", pid, "cgroup") or "")
        if (unit or "").startswith(OURS):
            continue
        # Only what is run counts by its name: an editor that has such a file open caps nothing.
        named = any(_NAMED.search(word.rpartition("/")[2]) for word in first[:1])
        who = f"{first[0].rpartition('/')[2] if first else ''}, pid {pid}" + (
            f", unit {unit}" if unit else ""
        )
        found = _cap(who, title) if named or _runs(title) else None
        if found:
            yield found


def _runs(title: str) -> bool:
    """A shell or nvidia-smi itself; grep and an editor only name the command."""
    program = title.split(" ", 1)[0].rpartition("/")[2]
    return program in ("sh", "bash", "dash", "ash", "watch", "timeout", "sudo", "nvidia-smi")
