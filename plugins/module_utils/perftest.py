# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest's ib_write_bw and ib_send_lat: their command lines, their tables, and what their errors mean.

Source: linux-rdma/perftest 4.5 to 24.07, src/perftest_resources.c and perftest_parameters.c.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from . import commands

BANDWIDTH, LATENCY = "ib_write_bw", "ib_send_lat"
PROGRAMS = (BANDWIDTH, LATENCY)
LATENCY_BYTES, LATENCY_ROUNDS = 8, 500
_COLUMNS = re.compile(r"#?(?:BW |CPU_|[\d.]+% )?[A-Za-z_]+(?:\[[^\]]*\])?")
_NO_ANSWER = re.compile(r"Couldn't connect to|Unable to init the socket connection")
# What perftest prints -> what it means. Taken in this order.
_MEANINGS = (
    (
        r"IB device .* not found|Unable to find the Infiniband/RoCE device",
        "there is no such RDMA device; see `ibv_devices`",
    ),
    (
        r"Couldn't allocate MR|[Ff]ailed to (?:create|register) (?:mr|MR)|Cannot allocate memory",
        "memory could not be registered; see `ulimit -l` and CmaFree of /proc/meminfo",
    ),
    (
        r"Failed to modify QP|Incompatibility issue with GID types|Unable to Connect the HCA's|"
        r"Failed to (?:query|read) GID|gid index|Invalid GID",
        "there is no way from this GID to the peer's: one of the two ends has another address at this index",
    ),
    (
        r"Failed status 1[23]|Completion with error",
        "sent packets were not acknowledged: compare MTU and addresses of both ends, and the cable",
    ),
    (r"Couldn't listen|Address already in use", "its port is taken; see `ss -ltnp`"),
    (
        r"Couldn't read remote address|Failed to exchange data|Couldn't accept",
        "the peer gave up; its own finding says why",
    ),
)


class PerftestError(Exception):
    """What was found in perftest's output where a result was wanted."""


@dataclass(frozen=True)
class Result:
    """One row. gbps: average bandwidth in Gbit/s; latency_us: typical one-way time; None where the test has none."""

    bytes: int
    gbps: float | None
    latency_us: float | None
    mtu: int | None
    gid_index: int | None


@dataclass(frozen=True)
class End:
    """One end of a test. hca: as NCCL names it, NAME or NAME:PORT. server: the address to ask, None for who waits."""

    hca: str
    gid_index: int
    port: int
    server: str | None


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=commands.PATH) is None]


def command(test: str, end: End, size: int, seconds: int, limit_s: float) -> list[str]:
    """Ends within limit_s by itself, whatever becomes of the one who started it."""
    device, colon, ib_port = end.hca.partition(":")
    how = ["-D", str(seconds), "-s", str(size), "--report_gbits"]
    if test == LATENCY:
        how = ["-n", str(LATENCY_ROUNDS), "-s", str(LATENCY_BYTES)]
    return [
        *("timeout", "--kill-after=5", f"{limit_s:g}", test, "-F", "-d", device, "-i", ib_port or "1"),
        *("-x", str(end.gid_index), "-p", str(end.port), *how),
        *([end.server] if end.server else []),
    ]


def nobody_there(output: str) -> bool:
    """The peer does not wait for this test, or not yet."""
    return bool(_NO_ANSWER.search(output))


def parse(output: str) -> Result:
    """perftest's table -> its first row. PerftestError where there is none, or it holds no number."""
    lines = output.splitlines()
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith("#bytes")]
    if not heads:
        raise PerftestError(explain(output))
    names = _COLUMNS.findall(lines[heads[0]])
    row = next((line.split() for line in lines[heads[0] + 1 :] if re.match(r"\s*\d", line)), None)
    if row is None:
        raise PerftestError(explain(output))
    values = dict(zip(names, row, strict=False))
    if "BW average[Gb/sec]" in names:
        gbps, latency = _number(values, "BW average[Gb/sec]"), None
    elif "t_typical[usec]" in names:
        gbps, latency = None, _number(values, "t_typical[usec]")
    else:
        raise PerftestError(
            f"its columns are {', '.join(names)}: neither bandwidth in Gb/sec nor t_typical[usec]"
        )
    return Result(
        bytes=int(_number(values, "#bytes")),
        gbps=gbps,
        latency_us=latency,
        mtu=_header(output, r"Mtu\s*:\s*(\d{1,5})\[B\]"),
        gid_index=_header(output, r"GID index\s*:\s*(\d{1,5})"),
    )


def _number(values: dict[str, str], name: str) -> float:
    try:
        value = float(values[name])
    except (KeyError, ValueError):
        value = math.nan
    if not 0 < value < math.inf:
        raise PerftestError(f"its {name} is {values.get(name, 'missing')}, which is no measured number")
    return value


def _header(output: str, pattern: str) -> int | None:
    match = re.search(pattern, output)
    return int(match[1]) if match else None


def explain(output: str) -> str:
    """Why a test has no result, in words."""
    said = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern, meaning in _MEANINGS:
        line = next((line for line in said if re.search(pattern, line)), None)
        if line:
            return f"{line.rstrip('.')}: {meaning}"
    return f"it printed no result; its last line: {said[-1]}" if said else "it printed nothing"


def words(argv: Sequence[str]) -> str:
    """The command as a person would type it: without the limit in time."""
    return " ".join(argv[3:])
