# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver and kernel are known to go together, and which are not; each row with its source.

A pair that is in no row is unknown. What was only seen to run somewhere (580.178.04, 590.48, 610.43.02, kernel
7.0.0-30 without its driver) has no row: that somebody uses it does not make it good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

MARKS = ("bad", "contested", "good")  # the worst first: it wins where several rows hold


@dataclass(frozen=True)
class Row:
    """driver and kernels are patterns of fnmatch; cured_by is the boot option with which a bad row does not hold."""

    driver: str
    kernels: tuple[str, ...]
    mark: str
    why: str
    source: str
    remedy: str = ""
    cured_by: str | None = None


def _nvidia(*numbers: int) -> tuple[str, ...]:
    return tuple(f"6.17.0-{number}-nvidia" for number in numbers)


ROWS = (
    Row(
        "580.142",
        _nvidia(1014, 1021),
        "good",
        "DGX OS 7.4 and 7.5 ship this pair",
        "NVIDIA, release notes of DGX OS 7.4 and 7.5",
    ),
    Row(
        "580.173.02",
        _nvidia(*range(1026, 1033)),
        "good",
        "the most common pair of August and September 2026",
        "tonyd2wild, DeepSeek V4.1 #1 (eight nodes); minefield PR #55",
    ),
    Row(
        "580.159.03",
        ("*",),
        "contested",
        "one site decoded 3.5 times slower with it, while its NCCL ran on TCP; others run it well",
        "r0b0tlab against Reederey87, docs/01, and dgxarley",
        "Measure before anything is rolled back: it is a suspect only where decode is slow, NCCL runs on RDMA and "
        "the clocks are as they should be",
    ),
    Row(
        "595.84",
        ("*",),
        "contested",
        "it works for several who do not say with which kernel, and failed on one ASUS machine with a display",
        "NVIDIA/NV-Kernels#590",
        "Nothing needs to be done while answers and speed are as proved",
    ),
    Row(
        "*",
        ("7.0.0-1019-*", "7.0.0-31-*"),
        "bad",
        "its kexec handover takes 9.3 GiB away as CMA; RDMA registrations and the GPU run out of memory at each boot",
        "NVIDIA/NV-Kernels#590 and #591; NVIDIA/open-gpu-kernel-modules#1358",
        "Add kho=off to GRUB_CMDLINE_LINUX in /etc/default/grub and run update-grub, or boot a 6.17 kernel",
        cured_by="kho=off",
    ),
    Row(
        "*",
        ("6.17.0-1008-*",),
        "bad",
        "it panics, after which the driver finds no GPU at any boot (power-offs are not its fault alone)",
        "forums.developer.nvidia.com, thread 366026",
        "Boot a newer 6.17 kernel; where the GPU stays away, shut down and pull the power cord for a minute",
    ),
)


def judge(driver: str | None, kernel: str | None, options: Iterable[str]) -> tuple[str, Row | None]:
    """The mark of a pair, and the row that gives it; unknown without a row. None fits only the pattern for all."""
    given = set(options)
    rows = [
        row
        for row in ROWS
        if fnmatchcase(driver or "", row.driver)
        and any(fnmatchcase(kernel or "", pattern) for pattern in row.kernels)
        and not (row.cured_by and row.cured_by in given)
    ]
    worst = min(rows, key=lambda row: MARKS.index(row.mark), default=None)
    return (worst.mark, worst) if worst else ("unknown", None)
