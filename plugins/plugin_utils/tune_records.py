# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of each point: a JSON file on the controller, in a folder for each stack (controller only).

A file is written when a point begins and again when it ended, so that one that takes the controller or a node down is
not tried for ever.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import Point, TuneError, point_of

# right: judged by the whole proof, and what was measured too. wrong: read wrong, or an engine that cannot run so.
# refused: the plan says why it does not fit. unproven: nothing was shown; another run tries again.
OUTCOMES = ("right", "wrong", "refused", "unproven")
BEGUN = "begun"
ATTEMPTS = 2  # a point that was begun so often and never ended is left alone
GIVE_UP_AFTER = 3  # points in a row that showed nothing: it is not the points


@dataclass(frozen=True)
class Kept:
    """records: of every point that can be read, by point. troubles: files that cannot."""

    records: Mapping[Point, Mapping[str, Any]]
    troubles: tuple[str, ...] = field(default=())

    def outcomes(self, since: str) -> dict[Point, bool]:
        """Whether each point that needs no other try is right. since: when this run began, as `now` tells it."""
        found = {}
        for point, record in self.records.items():
            outcome, again = record["outcome"], record.get("at", "") < since
            if outcome == BEGUN and record.get("attempts", 1) < ATTEMPTS:
                continue
            if outcome == "unproven" and again:
                continue
            found[point] = outcome == "right"
        return found

    def gives_up(self, since: str) -> str | None:
        """Why this run should try no further point; None where it should."""
        here = [record for record in self.records.values() if record.get("at", "") >= since]
        last = sorted(here, key=lambda record: record["at"])[-GIVE_UP_AFTER:]
        if len(last) < GIVE_UP_AFTER or any(record["outcome"] != "unproven" for record in last):
            return None
        return (
            f"{GIVE_UP_AFTER} points in a row showed nothing of themselves, the last one because: {last[-1]['reason']} "
            "Mend that and run again; what is done stays done"
        )


def now() -> str:
    """Sorts as time does, to the microsecond."""
    seconds = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1e6):06d}Z"


def read(folder: Path) -> Kept:
    """What was kept in a stack's folder; nothing where there is none."""
    records: dict[Point, Mapping[str, Any]] = {}
    troubles = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            point = point_of(record["point"])
            if record["outcome"] not in (*OUTCOMES, BEGUN) or not isinstance(record.get("at"), str):
                raise ValueError(f"its outcome is {record['outcome']!r}")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            troubles.append(f"{path} is no result and is passed over ({error}). Its point is tried again.")
        else:
            records[point] = record
    return Kept(records, tuple(troubles))


def write(folder: Path, point: Point, record: Mapping[str, Any]) -> Path:
    """Keeps a record, whole or not at all. Raises TuneError where the controller's disk refuses."""
    path = folder / f"{point.name}.json"
    whole = {"version": 1, "point": point.as_dict(), "at": now(), **record}
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(
            json.dumps(whole, indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8"
        )
        unfinished.replace(path)
    except OSError as error:
        raise TuneError(
            f"{path} could not be written: {error.strerror or error}. Make room, or set tandem_tune_folder."
        ) from error
    return path


def begun(folder: Path, point: Point) -> dict[str, Any]:
    """The record of a point that is begun now."""
    before = read(folder).records.get(point) or {}
    cut_off = before.get("attempts", 0) if before.get("outcome") == BEGUN else 0
    return {
        "outcome": BEGUN,
        "attempts": cut_off + 1,
        "stage": "begun",
        "reason": "It was begun and never ended: the run was cut off, or the node went down with it.",
    }


def judged(raw: Mapping[str, Any], verdict: Mapping[str, str]) -> dict[str, Any]:
    """The record of a point that ended.

    raw: what the steps returned, by step: plan, release, switch, boot, warm_up, rounds, speed; empty or missing where a
    step was not reached. verdict: what rollout_verdict says of the step that failed, empty where all are through.
    """
    rounds = raw.get("rounds") or {}
    stage = _stage(raw)
    outcome, reason = "right", (rounds.get("conclusion") or {}).get("reason") or "every step is through"
    if verdict:
        outcome = "wrong" if verdict["outcome"] == "rejected" else "unproven"
        reason = verdict["reason"]
    if stage == "plan" and (raw.get("plan") or {}).get("findings"):
        outcome = "refused"
    return {
        "outcome": outcome,
        "stage": stage if verdict else "done",
        "reason": " ".join(str(reason).split()),
        "degenerate": "degenerate" in _verdicts(raw),
        "digest": (raw.get("release") or {}).get("digest"),
        "overrides": (raw.get("plan") or {}).get("overrides") or {},
        "seconds": _seconds(raw),
        "speed": _speed(raw.get("speed") or {}),
        "raw": {name: value for name, value in raw.items() if name not in ("plan", "release")},
    }


def _stage(raw: Mapping[str, Any]) -> str:
    """The step that was reached: the first that is not through."""
    steps = {name: raw.get(name) or {} for name in ("plan", "release", "switch", "boot", "warm_up", "rounds")}
    if not steps["plan"].get("engine_yaml"):
        return "plan"
    if not steps["release"].get("digest"):
        return "release"
    if not steps["boot"].get("ready"):
        return "start"
    if not steps["warm_up"].get("ok"):
        return "warm-up"
    if not steps["rounds"]:
        return "nccl"
    proven = (steps["rounds"].get("conclusion") or {}).get("outcome") == "proven"
    return "measuring" if proven else "proof"


def _verdicts(raw: Mapping[str, Any]) -> set[str]:
    """What the judge said of any text of the proof and of the bench."""
    cases = (raw.get("rounds") or {}).get("cases") or []
    streams = (stream for draw in (raw.get("speed") or {}).get("draws") or [] for stream in draw["streams"])
    return {each["verdict"] for each in (*cases, *streams)}


def _speed(bench: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """{streams: {figure: median over the draws that count}} of what serving_bench returned."""
    return {
        str(row["concurrency"]): {
            name: spread["median"] if spread else None for name, spread in row["figures"].items()
        }
        for row in bench.get("summaries") or []
        if row["void"] is None
    }


def _seconds(raw: Mapping[str, Any]) -> dict[str, float]:
    """How long each step took; `all` is their sum, without what the playbook does between them."""
    switch = (raw.get("switch") or {}).get("seconds") or {}
    phases = (raw.get("warm_up") or {}).get("phases") or []
    parts = {
        "stop": switch.get("stopped", 0),
        "start": switch.get("started", 0) + (raw.get("boot") or {}).get("seconds", 0),
        "warm_up": sum(phase.get("seconds", 0) for phase in phases),
        "proof": (raw.get("rounds") or {}).get("seconds", 0),
        "measuring": sum(draw["seconds"] for draw in (raw.get("speed") or {}).get("draws") or []),
    }
    return {**{name: round(value, 1) for name, value in parts.items()}, "all": round(sum(parts.values()), 1)}
