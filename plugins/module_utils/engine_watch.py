# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a starting engine: its unit, the journal of this start, and whether the API answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import commands, engine_state
from .engine_log import EngineLog, read_log
from .findings import Finding, finding
from .http_exchange import get_status

# Options of the module engine_wait, and of the action plugin that calls it.
ARGUMENTS = {
    "unit": {"type": "str", "required": True},
    "url": {"type": "str"},
    "workers": {"type": "dict", "default": {}},
    "timeout": {"type": "float", "default": 3600.0},
    "interval": {"type": "float", "default": 3.0},
    "invocation_id": {"type": "str"},
}
JOURNAL_LINES = 20_000  # a boot writes some hundred; the rest would be requests served long after it
SHOWN_LINES = 20
HEALTH_TIMEOUT_S = 5.0
_COUNTED = {"loading weights": "shards", "capturing graphs": "graphs"}


@dataclass(frozen=True)
class Look:
    """What a look found. outcome: waiting, ready or failed; cause: why it failed."""

    outcome: str
    phase: str
    unit: dict[str, Any]
    health: int | None
    log: EngineLog
    journal: list[str]
    cause: Finding | None = None


def phase_of(log: EngineLog) -> str:
    """The stage in words, with its progress: "loading weights, 31 of 48 shards"."""
    if log.progress is None:
        return log.reached
    done, whole = log.progress
    return f"{log.reached}, {done} of {whole} {_COUNTED[log.reached]}"


def journal_command(invocation_id: str, lines: int | None = None) -> list[str]:
    """Prints the lines of one start of a unit, oldest first; the last `lines` of them, or all."""
    last = [] if lines is None else [f"--lines={lines}"]
    argv = ["journalctl", "--all", "--no-pager", "--output=cat", *last]
    return [*argv, f"_SYSTEMD_INVOCATION_ID={invocation_id}"]


def journal_of(invocation_id: str | None) -> list[str]:
    """The lines of one start of a unit; empty where it never started or there is no journal."""
    if not invocation_id:
        return []
    return commands.ask(journal_command(invocation_id, JOURNAL_LINES), timeout_s=30).out.splitlines()


def _cause(
    name: str, unit: dict[str, Any], log: EngineLog, journal: list[str], started_anew: bool
) -> Finding | None:
    """Why the engine will not become ready any more; None while it may."""
    if unit["load"] == "not-found":
        return finding("engine.unit.missing", unit=name)
    if log.fatal:
        return log.fatal.finding()
    state = f"{unit['active']}, {unit['sub']}, result {unit['result']}"
    ended = unit["active"] in ("inactive", "failed") or unit["sub"] == "auto-restart"
    if started_anew or ended:
        state = "it was started anew" if started_anew and not ended else state
        if unit["result"] == "oom-kill":
            return finding("engine.memory.killed", evidence=state)
        return finding("engine.unit.ended", evidence=journal[-1] if journal else "", unit=name, state=state)
    return None


def conclude(
    name: str,
    unit: dict[str, Any],
    journal: list[str],
    health: int | None,
    *,
    headless: bool,
    started_anew: bool = False,
) -> Look:
    """What unit, journal and API together say.

    A head is ready when its API answers. A worker has none: it is ready when its KV cache is there and it runs.
    """
    log = read_log(journal)
    cause = _cause(name, unit, log, journal, started_anew)
    answers = log.kv_gib is not None if headless else health == 200
    if unit["active"] == "activating":
        phase = "preparing the start"
    elif unit["active"] == "active" and log == EngineLog():  # its imports take a while and say nothing
        phase = "starting"
    else:
        phase = phase_of(log)
    if cause:
        outcome = "failed"
    elif unit["active"] == "active" and answers:
        outcome, phase = "ready", "ready"
    else:
        outcome = "waiting"
    return Look(outcome, phase, unit, health, log, journal[-SHOWN_LINES:], cause)


def look(name: str, url: str | None, invocation_id: str | None = None) -> Look | None:
    """Look at unit `name` and at `url`/health; without a URL the rank is headless. None if systemd does not answer.

    invocation_id: the start that is waited for; if the unit is at another one by now, that start has failed.
    """
    unit = engine_state.units((name,)).get(name)
    if unit is None:
        return None
    journal = journal_of(invocation_id or unit["invocation_id"])
    # An ended unit may show no invocation any more; only another one means a new start.
    anew = bool(invocation_id and unit["invocation_id"] and unit["invocation_id"] != invocation_id)
    health = (
        get_status(f"{url.rstrip('/').removesuffix('/v1')}/health", HEALTH_TIMEOUT_S, verify=False)
        if url
        else None
    )
    return conclude(name, unit, journal, health, headless=url is None, started_anew=anew)
