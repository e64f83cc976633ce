# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `nvidia-smi` says: driver, GPUs, and the processes that compute on them."""

from __future__ import annotations

import re
from dataclasses import dataclass

GPU_ROW = re.compile(r"\|\s+(\d{1,9})\s+(\S.*?)\s+(?:On|Off|N/A)\s+\|\s+([0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+)\s")
STATE_ROW = re.compile(
    r"\|\s+\S+\s+(?:(\d{1,9})C|N/A)\s+(P\d{1,9}|N/A)\s+(?:(\d{1,9})W|N/A)\s*/[^|]*\|([^|]*)\|\s+(?:(\d{1,9})%|N/A)"
)
MEMORY = re.compile(r"(\d{1,9})MiB\s*/\s*(\d{1,9})MiB")
PROCESS_ROW = re.compile(
    r"\|\s+(\d{1,9})\s+\S+\s+\S+\s+(\d{1,9})\s+([CGM+]+)\s+(\S.*?)\s+(?:(\d{1,9})MiB|N/A|Not Supported|-)\s*\|"
)


@dataclass(frozen=True)
class Device:
    """One GPU; None is not reported (a GB10 has no memory of its own)."""

    index: int
    name: str
    bus_id: str
    temperature_c: int | None = None
    state: str | None = None
    power_w: int | None = None
    utilization_percent: int | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None


@dataclass(frozen=True)
class Process:
    """One process that computes; the name is cut by nvidia-smi where it is long."""

    pid: int
    name: str
    memory_mib: int | None


@dataclass(frozen=True)
class Gpus:
    """driver and cuda are the versions in the header; devices is empty where the driver shows none."""

    driver: str | None
    cuda: str | None
    devices: tuple[Device, ...]
    processes: tuple[Process, ...]


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def read_nvidia_smi(text: str) -> Gpus:
    """The table that `nvidia-smi` prints without options; anything else gives no driver and no devices."""
    driver = re.search(r"Driver Version:\s*(\d[\d.]*)", text)
    cuda = re.search(r"CUDA (?:UMD )?Version:\s*(\d[\d.]*)", text)
    table, heading, running = text.partition("Processes:")
    devices: list[Device] = []
    for line in table.splitlines():
        row = GPU_ROW.match(line)
        if row:
            devices.append(Device(int(row[1]), row[2], row[3]))
        elif devices and devices[-1].state is None and (row := STATE_ROW.match(line)):
            devices[-1] = _with_state(devices[-1], row)
    processes = {
        int(row[2]): Process(int(row[2]), row[4], _number(row[5]))
        for row in map(PROCESS_ROW.match, running.splitlines())
        if row and "C" in row[3]
    }
    return Gpus(driver and driver[1], cuda and cuda[1], tuple(devices), tuple(processes.values()))


def _with_state(device: Device, row: re.Match[str]) -> Device:
    memory = MEMORY.search(row[4])
    return Device(
        device.index,
        device.name,
        device.bus_id,
        temperature_c=_number(row[1]),
        state=row[2],
        power_w=_number(row[3]),
        utilization_percent=_number(row[5]),
        memory_used_mib=int(memory[1]) if memory else None,
        memory_total_mib=int(memory[2]) if memory else None,
    )
