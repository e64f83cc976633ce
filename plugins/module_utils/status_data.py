# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a rank as data for machines. status_text makes the operator's page of it."""

from __future__ import annotations

from typing import Any

from .findings import Finding
from .status import Seen
from .status_judgement import proof_of, proven, stage_of

_UNIT = ("load", "active", "sub", "result", "since", "invocation_id", "main_pid")


def as_dict(seen: Seen, findings: list[Finding]) -> dict[str, Any]:
    """What `tandem status --json` prints and status_info returns; null is unknown."""
    plan, engine, unit = seen.plan or {}, seen.engine, seen.unit or {}
    manifest, proof = seen.manifest or {}, engine["proof"] or {}
    state, since = proof_of(seen)
    role = None if seen.rank is None else ("head" if seen.rank == 0 else "worker")
    return {
        "group": plan.get("group"),
        "rank": seen.rank,
        "ranks": plan.get("ranks"),
        "role": role,
        "hosts": plan["hosts"] if isinstance(plan.get("hosts"), list) else [],
        "unit": {"name": seen.unit_name, **{key: unit.get(key) for key in _UNIT}},
        "release": {
            "current": engine["current"],
            "applied": engine["applied"],
            "profile": manifest.get("profile"),
            "serving": manifest.get("serving"),
            "evidence": manifest.get("evidence"),
        },
        "proof": {
            "state": state,
            "since": since,
            "outcome": proof.get("outcome"),
            "reason": proof.get("reason"),
            "at": seen.proved_at,
        },
        "stage": stage_of(seen),
        "boot": seen.log.as_dict() if seen.journal else None,
        "api": seen.api
        and {
            "url": seen.api.url,
            "model": seen.api.model,
            "health": seen.api.health,
            "counters": seen.api.counters,
        },
        "fabric": {
            "env": seen.fabric.env,
            "rails": seen.fabric.rails,
            "how": seen.fabric.how,
            "refused": list(seen.fabric.refused),
        },
        "caches": seen.caches,
        "history": seen.history,
        "guard": seen.guard,
        "findings": [found.as_dict() for found in findings],
        "proven": proven(findings),
    }
