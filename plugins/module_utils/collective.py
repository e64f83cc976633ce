# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measured all-reduce says of the link between ranks: its arithmetic, its limits and its findings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .findings import Finding, finding

MIB, GIB = 1 << 20, 1 << 30
# The small ones tell the latency of a decode step, the large ones the rate of the link.
DEFAULT_SIZES = ("8", "4K", "64K", "1M", "16M", "256M")
# An all-gather of 16 G froze a node whose CPU and GPU share the memory.
LARGEST = 4 * GIB
COPIES = 3  # the data, what the library buffers, and room for the node itself
HEADROOM = 4 * GIB
RESULT = "TANDEM-COLLECTIVE "
_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_UNIT = {"": 1, "K": 1 << 10, "M": MIB, "G": GIB}
_FLOAT = 4


class CollectiveError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Point:
    """One size. latency_us: of one all-reduce on the slowest rank. busbw_gbps: gigabits a second."""

    bytes: int
    latency_us: float
    busbw_gbps: float


def sizes_of(texts: Sequence[str | int]) -> list[int]:
    """8, 4K, 256M -> bytes, in rising order. CollectiveError names every one that cannot be measured."""
    wrong, sizes = [], set()
    for text in texts:
        match = _SIZE.fullmatch(str(text).strip())
        size = int(match[1]) * _UNIT[match[2].upper()] if match else 0
        if not match or size < _FLOAT or size % _FLOAT:
            wrong.append(
                f"{text!r} is no size: wanted is a multiple of {_FLOAT} bytes such as 8, 4K, 1M or 1G"
            )
        elif size > LARGEST:
            wrong.append(
                f"{text} is too large: {LARGEST // GIB}G is the limit, since larger tests froze a node"
            )
        else:
            sizes.add(size)
    if not texts:
        wrong.append("sizes is empty: wanted is at least one, such as 1M")
    if wrong:
        raise CollectiveError("; ".join(wrong) + ".")
    return sorted(sizes)


def memory_problem(sizes: Sequence[int], available: int | None) -> str | None:
    """Why this node has no room for the largest size; available in bytes, None is unknown."""
    wanted = COPIES * sizes[-1] + HEADROOM
    if available is None:
        return "It is unknown how much memory is free (/proc/meminfo), so nothing is measured."
    if available < wanted:
        return (
            f"{available / GIB:.1f} GiB of memory are free, {wanted / GIB:.1f} GiB are wanted to all-reduce "
            f"{sizes[-1] / GIB:.2f} GiB. Stop what holds it, or measure smaller sizes."
        )
    return None


def bus_bandwidth_gbps(size: int, seconds: float, ranks: int) -> float:
    """The rate of each link, whatever the number of ranks: 2(n-1)/n x bytes / time. In Gbit/s, as links are rated.

    Source: NVIDIA/nccl-tests doc/PERFORMANCE.md, which gives it in gigabytes.
    """
    return 8e-9 * size * 2 * (ranks - 1) / ranks / seconds


def points_of(result: Mapping[str, Any]) -> list[Point]:
    """The points of what the measuring program printed."""
    return [
        Point(
            each["bytes"],
            round(each["us"], 1),
            round(bus_bandwidth_gbps(each["bytes"], each["us"] / 1e6, result["ranks"]), 3),
        )
        for each in result["points"]
    ]


def result_in(text: str) -> dict[str, Any] | None:
    """What the measuring program printed last, beside all that its libraries say; None where it did not end well."""
    for line in reversed(text.splitlines()):
        _before, mark, rest = line.partition(RESULT)
        if mark:
            try:
                result = json.loads(rest)
            except ValueError:
                return None
            return result if isinstance(result, dict) else None
    return None


def judge(
    points: Sequence[Point],
    wrong: Sequence[int],
    transport: str,
    min_busbw_gbps: float | None = None,
    max_latency_us: float | None = None,
) -> list[Finding]:
    """What is not as wanted. The rate is that of the best point, the latency that of the smallest size."""
    notes = [finding("collective.wrong", sizes=", ".join(map(str, wrong)))] if wrong else []
    best = max(points, key=lambda point: point.busbw_gbps)
    if min_busbw_gbps is not None and best.busbw_gbps < min_busbw_gbps:
        notes.append(
            finding(
                "collective.slow",
                found=f"{best.busbw_gbps:.1f}",
                wanted=f"{min_busbw_gbps:g}",
                cause=likely_cause(best.busbw_gbps, transport),
                evidence=f"{best.bytes} bytes in {best.latency_us} us over {transport}",
            )
        )
    first = points[0]
    if max_latency_us is not None and first.latency_us > max_latency_us:
        notes.append(
            finding(
                "collective.latency",
                found=f"{first.latency_us:g}",
                wanted=f"{max_latency_us:g}",
                bytes=first.bytes,
            )
        )
    return notes


def likely_cause(busbw_gbps: float, transport: str) -> str:
    """What pairs of Sparks had at such a rate, in words. Two functions gave 160 to 190 Gbit/s, one 100 to 111."""
    if transport == "socket":
        return "sockets carry it (16 Gbit/s in the field): find out why RDMA does not"
    if transport != "ib":
        return f"it went over {transport}, which is no link between nodes"
    if busbw_gbps < 40:
        return (
            "RDMA at 24 Gbit/s came of different NIC firmware on the nodes (compare fw_ver of `ibv_devinfo`), of an "
            "NCCL built from a development branch, or of a degraded NIC (measure each rail with `ib_write_bw`)"
        )
    if 80 <= busbw_gbps <= 120:
        return "this is what one of the two functions of a cage carries: see that NCCL uses both HCAs"
    return "measure each rail with `ib_write_bw`, and compare link, MTU and firmware of both ends"
