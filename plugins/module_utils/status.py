# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one rank is at this moment, in one quick look that changes nothing. status_judgement says what of it is not so.

Each part is read by itself and may be unknown (None); none takes longer than LIMIT_S.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import (
    commands,
    engine_metrics,
    engine_state,
    engine_watch,
    fabric_env,
    guard_look,
    jit_caches,
    own_endpoint,
    records,
)
from .engine_config import read_environment
from .engine_log import EngineLog, read_log
from .http_exchange import get_status

LIMIT_S = 1.2
PLAN = "etc/tandem/plan.json"
FABRIC_ENV = "run/tandem/fabric.env"
HISTORY = "var/lib/tandem/history.jsonl"
HISTORY_LINES = 5
# A boot writes some hundred lines; what comes after it are requests, of which the newest may tell of the end.
BOOT_LINES, LAST_LINES = 1500, 300


@dataclass(frozen=True)
class Api:
    """The head's API. health: a status code or None; counters: None where they could not be read, and why."""

    url: str
    model: str | None
    health: int | None
    counters: dict[str, float | None] | None
    why: str | None = None


@dataclass(frozen=True)
class Fabric:
    """env: what this start was given; now: what a start would be given; refused: why it would not come up."""

    env: dict[str, str] | None
    rails: list[dict[str, Any]]
    how: str | None = None
    now: dict[str, str] | None = None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One look. engine: as engine_state.look returns it; unit: that of this rank, None where systemd is silent.

    guard: what the guard of this rank says, as guard_page shows it.
    """

    plan: dict[str, Any] | None
    engine: dict[str, Any]
    unit_name: str
    unit: dict[str, Any] | None
    manifest: dict[str, Any] | None
    proved_at: str | None
    log: EngineLog
    journal: list[str]
    api: Api | None
    fabric: Fabric
    caches: Mapping[str, Any] | None
    caches_trouble: str | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    history_trouble: str | None = None
    guard: dict[str, Any] | None = None

    @property
    def rank(self) -> int | None:
        rank = (self.plan or {}).get("rank")
        return rank if isinstance(rank, int) else None


def look(root: Path = Path("/")) -> Seen:
    """Look at this node; with another root than / at a copy of its files, where nothing is asked that runs."""
    live = os.path.realpath(root) == "/"
    plan = records.read_json(root / PLAN)
    engine = engine_state.look(root, None if live else {})
    name = _unit_name(plan, engine)
    unit = engine["units"].get(name)
    manifest = records.read_json(root / engine_state.CURRENT[1:] / "manifest.json")
    with ThreadPoolExecutor(max_workers=4) as pool:
        journal = pool.submit(journal_of_start, unit) if live else None
        api = pool.submit(look_at_api, plan or {}, root) if live and name == engine_state.UNITS[0] else None
        caches = pool.submit(_caches, root)
        fabric = _fabric(root, plan, live)
        lines = journal.result() if journal else []
        history, history_trouble = records.history(root, HISTORY_LINES)
        found, caches_trouble = caches.result()
        return Seen(
            plan=plan,
            engine=engine,
            unit_name=name,
            unit=unit,
            manifest=manifest,
            proved_at=_proved_at(root, engine),
            log=read_log(lines),
            journal=lines,
            api=api.result() if api else None,
            fabric=fabric,
            caches=found,
            caches_trouble=caches_trouble,
            history=history,
            history_trouble=history_trouble,
            guard=guard_look.snapshot(root, live=live),
        )


def _unit_name(plan: Mapping[str, Any] | None, engine: Mapping[str, Any]) -> str:
    """The unit that the plan gives this rank; without a plan the one that is there."""
    if plan is not None and isinstance(plan.get("rank"), int):
        return engine_state.UNITS[min(plan["rank"], 1)]
    loaded = [name for name, unit in engine["units"].items() if unit["load"] == "loaded"]
    return (loaded or list(engine_state.UNITS))[0]


def _proved_at(root: Path, engine: Mapping[str, Any]) -> str | None:
    """When the record of the current release was written; a record that does not say has its file's time."""
    if not engine["proof"]:
        return None
    if isinstance(engine["proof"].get("at"), str):
        return engine["proof"]["at"]
    try:
        written = records.proof_path(root, engine["current"], engine["runs_as"]).stat().st_mtime
    except OSError:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(written))


def journal_of_start(unit: Mapping[str, Any] | None) -> list[str]:
    """The boot and the newest lines of this start; requests in between are left out, a long time has many."""
    start = (unit or {}).get("invocation_id")
    if not start:
        return []
    lines = commands.ask_first(engine_watch.journal_command(start), BOOT_LINES, LIMIT_S)
    if len(lines) == BOOT_LINES:
        lines.append(commands.ask(engine_watch.journal_command(start, LAST_LINES), LIMIT_S).out)
    return [part for line in lines for part in line.splitlines()]


def look_at_api(plan: Mapping[str, Any], root: Path) -> Api | None:
    """What the head's API counts; None where neither release nor plan says where it is."""
    url, model = own_endpoint.api(plan, own_endpoint.serving(root / engine_state.CURRENT[1:]))
    if not url:
        return None
    health = get_status(f"{url}/health", LIMIT_S / 2)
    try:
        page = engine_metrics.fetch(url, timeout=LIMIT_S / 2)
    except engine_metrics.EngineMetricsError as error:
        return Api(url, model, health, None, str(error))
    progress, (running, waiting) = engine_metrics.progress_of(page), engine_metrics.requests_of(page)
    counters = {
        "prompt_tokens": progress.prompt_tokens,
        "generation_tokens": progress.generation_tokens,
        "running": running,
        "waiting": waiting,
    }
    return Api(url, model, health, counters)


def _fabric(root: Path, plan: Mapping[str, Any] | None, live: bool) -> Fabric:
    env = read_environment(root / FABRIC_ENV)
    planned = (plan or {}).get("fabric")
    rails = planned.get("rails") if isinstance(planned, dict) else None
    shown = [rail for rail in rails if isinstance(rail, dict)] if isinstance(rails, list) else []
    if plan is None or not live:
        return Fabric(env, shown)
    try:
        now, how, _warnings = fabric_env.environment(plan, fabric_env.look_at_machine("/sys"))
    except fabric_env.FabricEnvError as error:
        return Fabric(env, shown, refused=tuple(str(error).splitlines()))
    return Fabric(env, shown, how, now)


def _caches(root: Path) -> tuple[Mapping[str, Any] | None, str | None]:
    try:
        found = jit_caches.look(root, LIMIT_S)
    except jit_caches.CachesError as error:
        return None, str(error)
    return jit_caches.summary(found, jit_caches.max_gib(root)), None
