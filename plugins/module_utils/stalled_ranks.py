# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank keeps the others waiting, as far as the last lines of their journals tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .engine_log import EngineLog, read_log
from .findings import Finding

_LONGEST_LINE = 200  # characters


def _described(host: str, log: EngineLog, lines: Sequence[str]) -> str:
    if log.fatal:
        return f"{host} failed: {log.fatal.line[:_LONGEST_LINE]}"
    if log.stalled_s:
        return f"{host} has waited for another process for {log.stalled_s} s"
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{host} does not say that it waits; its last line: {last[:_LONGEST_LINE] or 'none'}"


def suspects(logs: Mapping[str, EngineLog]) -> list[str]:
    """The ranks that failed, or else those that do not wait while others do; empty where the logs tell nothing.

    A rank that waits is not cleared for good: rank 0 also complains of a process of its own.
    """
    failed = [host for host, log in logs.items() if log.fatal]
    waiting = [host for host, log in logs.items() if log.stalled_s]
    return failed or ([host for host in logs if host not in waiting] if waiting else [])


def name_ranks(stall: Finding, journals: Mapping[str, Sequence[str]]) -> Finding:
    """The finding of a stall with the ranks at fault as its hosts, and what each rank said last as its evidence.

    journals: {host: the last lines of its unit's journal}, taken while the stall lasts.
    """
    logs = {host: read_log(lines) for host, lines in journals.items()}
    said = [_described(host, logs[host], lines) for host, lines in journals.items()]
    return replace(
        stall, hosts=tuple(suspects(logs)), evidence="; ".join(filter(None, [stall.evidence, *said]))
    )
