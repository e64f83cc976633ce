# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a rank runs the release that was proven for this very start, and every reason why not.

A green unit, an answering /health and moving counters are told, and never count for it: only a proof does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import engine_watch
from .engine_state import CURRENT, UNITS
from .findings import Finding, finding, worst_first
from .guard_look import FRESH_S
from .records import CIRCUMSTANCES
from .status import FABRIC_ENV, HISTORY, PLAN, Seen

SINCE = {"boot_id": "the machine was booted", "invocation_id": "the unit was started"}
# Of fabric.env these follow the machine; the rest follows the plan.
MOVING = ("NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "VLLM_HOST_IP")


def changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Which of driver, kernel and boot options are not as they were, in words."""
    return [
        "boot options"
        if name == "boot_options"
        else f"{name}: {then.get(name) or 'unknown'} then, {now.get(name) or 'unknown'} now"
        for name in CIRCUMSTANCES
        if then.get(name) != now.get(name)
    ]


def proof_of(seen: Seen) -> tuple[str, str | None]:
    """What the records say of the release that is linked in, and what changed since.

    this start, earlier start, other circumstances, rejected or none.
    """
    engine = seen.engine
    proof, now = engine["proof"], engine["runs_as"]
    if not proof or proof.get("outcome") not in ("proven", "rejected"):
        then = engine["proven_as"][-1] if engine["proven_as"] else None
        return ("none", None) if then is None else ("other circumstances", ", ".join(changed(then, now)))
    if proof["outcome"] == "rejected":
        return "rejected", None
    then = proof.get("ran_as") if isinstance(proof.get("ran_as"), dict) else {}
    if now["invocation_id"] is None:
        return "earlier start", "the unit was stopped"
    since = [words for name, words in SINCE.items() if then.get(name) != now.get(name)]
    return ("earlier start", " and ".join(since)) if since else ("this start", None)


def watch_of(seen: Seen) -> engine_watch.Look | None:
    """What the boot watch would say of this start; None where systemd is silent."""
    if seen.unit is None:
        return None
    headless = seen.unit_name != UNITS[0]
    health = seen.api.health if seen.api else None
    return engine_watch.conclude(seen.unit_name, seen.unit, seen.journal, health, headless=headless)


def stage_of(seen: Seen) -> str | None:
    """How far this start came, in words; that it came up says nothing of what it answers."""
    watch = watch_of(seen)
    if watch is None or not seen.journal:
        return None
    return "came up" if watch.outcome == "ready" else f"{watch.phase}{', failed' if watch.cause else ''}"


def judge(seen: Seen) -> list[Finding]:
    """Everything that is not so, and what could not be read; errors first."""
    parts = (_plan, _release, _unit, _api, _proof, _fabric, _guard, _memory)
    return worst_first(found for part in parts for found in part(seen))


def proven(findings: list[Finding]) -> bool:
    return all(found.severity != "error" for found in findings)


def _plan(seen: Seen) -> Iterator[Finding]:
    if seen.rank is None:
        yield finding("status.plan.none", path=f"/{PLAN}")


def _release(seen: Seen) -> Iterator[Finding]:
    current, applied = seen.engine["current"], seen.engine["applied"]
    if not current:
        yield finding("status.release.none", path=CURRENT)
        return
    if seen.manifest is None:
        yield finding("status.release.broken", release=current)
    # Before a proof there is nothing to apply: then the missing proof is the reason.
    if current != applied and proof_of(seen)[0] in ("this start", "earlier start"):
        yield finding("status.release.not_applied", current=current, applied=applied or "none")


def _unit(seen: Seen) -> Iterator[Finding]:
    name, unit, found = seen.unit_name, seen.unit, watch_of(seen)
    if unit is None or found is None:
        yield finding("status.systemd.unknown", unit=name)
        return
    if unit["active"] in ("inactive", "failed") and unit["load"] != "not-found" and not seen.log.fatal:
        state = f"{unit['active']} (result {unit['result']})"
        yield finding("status.unit.stopped", evidence=_last(seen.journal), unit=name, state=state)
    elif found.cause:
        yield found.cause
    elif unit["active"] != "active":
        yield finding("status.unit.starting", evidence=_last(seen.journal), unit=name, phase=found.phase)
    elif not seen.journal:
        yield finding("status.journal.unknown", unit=name)
    elif found.outcome == "waiting" and not seen.log.ready:
        yield finding("status.unit.starting", evidence=_last(seen.journal), unit=name, phase=found.phase)
    if seen.log.stalled_s:
        yield finding("status.engine.stalled", seconds=seen.log.stalled_s)


def _last(journal: list[str]) -> str:
    return next((line.strip()[:300] for line in reversed(journal) if line.strip()), "")


def _api(seen: Seen) -> Iterator[Finding]:
    running = seen.unit is not None and seen.unit["active"] == "active"
    if seen.api is None or not running or not (seen.log.ready or not seen.journal):
        return  # the unit's own finding says more
    if seen.api.health != 200:
        said = "no answer" if seen.api.health is None else f"HTTP {seen.api.health}"
        yield finding("status.api.silent", url=seen.api.url, found=said)
    if seen.api.counters is None:
        yield finding("status.metrics.unknown", url=seen.api.url, why=seen.api.why)


def _proof(seen: Seen) -> Iterator[Finding]:
    release = seen.engine["current"]
    if not release:
        return
    state, since = proof_of(seen)
    if state == "rejected":
        reason = str(seen.engine["proof"].get("reason")).rstrip(".")
        yield finding("status.proof.rejected", release=release, reason=reason)
    elif state == "other circumstances":
        yield finding("status.proof.elsewhere", release=release, changed=since or "start")
    elif state == "earlier start" and seen.unit is not None and seen.unit["active"] == "active":
        yield finding("status.proof.other_start", release=release, changed=since)
    elif state == "none":
        yield finding("status.proof.none", release=release)


def _fabric(seen: Seen) -> Iterator[Finding]:
    fabric = seen.fabric
    for problem in fabric.refused:
        yield finding("status.fabric.not_as_planned", problem=problem.rstrip("."))
    if seen.plan is None or seen.unit is None or seen.unit["active"] != "active":
        return
    if fabric.env is None:
        yield finding("status.fabric.environment", path=f"/{FABRIC_ENV}")
    elif fabric.now is not None:
        moved = [
            f"{name} was {fabric.env.get(name) or 'absent'}, now {fabric.now.get(name) or 'absent'}"
            for name in MOVING
            if fabric.env.get(name) != fabric.now.get(name)
        ]
        if moved:
            yield finding("status.fabric.moved", changed="; ".join(moved))


def _guard(seen: Seen) -> Iterator[Finding]:
    if "guard" not in (seen.plan or {}):
        return  # written before there was one
    told = seen.guard or {}
    age = told.get("age_s")
    if not isinstance(age, (int, float)) or age > FRESH_S:
        since = "since the boot" if seen.guard is None else "for longer than it ever is silent"
        yield finding("status.guard.silent", since=since)
    elif told.get("state") == "given-up":
        yield finding("status.guard.given_up", why=str(told.get("why")).rstrip("."))
    elif told.get("state") == "held":
        yield finding("status.guard.held", why=str(told.get("why")).rstrip("."))


def _memory(seen: Seen) -> Iterator[Finding]:
    if seen.history_trouble:
        yield finding("status.history.broken", path=f"/{HISTORY}", why=seen.history_trouble)
    if seen.caches_trouble:
        yield finding("status.caches.unknown", why=seen.caches_trouble.rstrip("."))
