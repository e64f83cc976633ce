# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a pretend node: its files, and what its commands say. A test changes one thing of a healthy one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils import commands, node, node_deep
from pretend_driver import Spark, package
from sysfs_tree import put, write_tree

SMI = """\
| NVIDIA-SMI 580.142                Driver Version: 580.142        CUDA Version: 13.0     |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   42C    P0             12W /  N/A  | Not Supported          |      0%      Default |
| Processes:                                                                              |
"""
QUERY = (
    "index, pstate, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], utilization.memory [%], "
    "temperature.gpu, clocks_event_reasons.active\n0, P0, {}, {}, {}, 0 %, 58, 0x0000000000000000\n"
)
IDLE = QUERY.format("208 MHz", "4.00 W", "0 %")
ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "enP7s7", "addr_info": [{"family": "inet", "local": "192.168.1.11", "prefixlen": 24}]},
]
ROUTES = [{"dst": "default", "gateway": "192.168.1.1", "dev": "enP7s7", "flags": []}]
HEALTHY_ANSWERS = {
    "nvidia-smi": SMI,
    "nvidia-smi --query-gpu": IDLE,
    "ip -j address": json.dumps(ADDRESSES),
    "ip -j -4 route": json.dumps(ROUTES),
    "ip -j -6 route": "[]",
}


class Live(node.Question):
    """A node that answers commands, and whose files lie below a folder."""

    live = True


def healthy(root: Path, spark: Spark | None = None) -> None:
    (spark or Spark()).write(root)
    write_tree(root / "sys", "rocep1s0f0 enp1s0f0np0\n  3 192.168.177.1 v2\n")
    put(root / "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"')
    put(root / "proc/meminfo", (root / "proc/meminfo").read_text().replace("MemFree", "MemAvailable"))
    put(root / "proc/vmstat", "pswpin 120\npswpout 3")
    status = (root / "var/lib/dpkg/status").read_text().rstrip("\n")
    more = [package("iproute2", "6.1.0"), package("iputils-ping", "3:20240117"), package("nftables", "1.0.9")]
    put(root / "var/lib/dpkg/status", "\n".join([status, "", *more]))


def look(monkeypatch, root: Path, answers: Mapping[str, str] = {}, log: str = "", **options):
    """Every part of one look; `answers` replaces what the commands of a healthy node say."""
    known = {**HEALTHY_ANSWERS, **answers}

    def ask(argv, *_timeout, **_how):
        line = " ".join(argv)
        fitting = [name for name in known if line == name or (name != "nvidia-smi" and line.startswith(name))]
        return commands.Answer(0, known[fitting[0]]) if fitting else commands.Answer(None, "")

    monkeypatch.setattr(commands, "ask", ask)
    monkeypatch.setattr(commands, "there", lambda program: program in known)
    monkeypatch.setattr(node_deep.engine_state, "units", lambda *_: {})
    found, notes = node.look(Live(root=str(root), kernel_log=log, seconds=0.001, **options))
    return found, {note.id: note for note in notes}


TIGHT = (
    "MemTotal: 127600000 kB\nMemAvailable: 4089446 kB\nSwapTotal: 16777212 kB\nSwapFree: 11744051 kB\n"
    "Hugepagesize: 1 kB"
)
GONE = TIGHT.replace("4089446", "104857")
