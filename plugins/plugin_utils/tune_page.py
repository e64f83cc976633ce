# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tune.yml found, for a person: a table, the way out of what is wrong, and what to put into the inventory.

Controller only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_search
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import EAGER, Matrix, Point
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_records import BEGUN

SPEED = "tokens_per_s"
Records = Mapping[Point, Mapping[str, Any]]
HEADINGS = (
    "cudagraph_mode",
    "draft",
    "k",
    "max_num_seqs",
    "verdict",
    "tok/s, one stream",
    "tok/s, all streams",
    "acceptance",
    "verify steps/s",
    "seconds",
)
_WAYS_OUT = (
    "Degenerate text with many sequences is what CUDA graphs above two sequences gave on two Sparks (seed 000). Two "
    "ways out are known: eager mode (cudagraph_mode NONE, or enforce-eager), or max_num_seqs 2."
)


@dataclass(frozen=True)
class Found:
    """All that is told of a stack."""

    matrix: Matrix
    records: Records
    outcomes: Mapping[Point, bool]
    prefer: str


def figure(record: Mapping[str, Any], streams: int, name: str) -> float | None:
    return ((record.get("speed") or {}).get(str(streams)) or {}).get(name)


def score(point: Point, record: Mapping[str, Any], prefer: str) -> float | None:
    """What a right point is chosen by; None where it is not right or was not measured."""
    if record.get("outcome") != "right":
        return None
    streams = point.max_num_seqs if prefer == "aggregate" else 1
    return figure(record, streams, SPEED)


def best(found: Found) -> Point | None:
    """The fastest point that is right; of two alike the one with fewer sequences."""
    scores = {
        point: score(point, record, found.prefer)
        for point, record in found.records.items()
        if point in set(found.matrix.points())
    }
    known = {point: value for point, value in scores.items() if value is not None}
    return max(known, key=lambda point: (known[point], -point.max_num_seqs), default=None)


def verdict(record: Mapping[str, Any]) -> str:
    outcome = record["outcome"]
    if outcome == BEGUN:
        return "never ended"
    if outcome == "wrong":
        if record.get("degenerate"):
            return "degenerate"
        return "wrong" if record.get("stage") in ("proof", "measuring") else "does not run"
    return {"right": "correct", "refused": "does not fit"}.get(outcome, outcome)


def _shown(value: float | None, form: str = ".1f") -> str:
    return "" if value is None else format(value, form)


def _cells(point: Point, found: Found, chosen: Point | None) -> tuple[str, ...]:
    row = point.row
    record = found.records.get(point)
    head = (row.mode, row.drafted, str(row.k), f"{point.max_num_seqs}{' *' if point == chosen else ''}")
    if record is None:
        return (
            *head,
            f"not tried: {tune_search.why_not_tried(found.matrix, point, found.outcomes)}",
            *[""] * 5,
        )
    many = point.max_num_seqs
    right = record["outcome"] == "right"
    figures = (
        _shown(figure(record, 1, SPEED)),
        _shown(figure(record, many, SPEED)),
        _shown(figure(record, many, "acceptance"), ".1%"),
        _shown(figure(record, 1, "verify_steps_per_s")),
    )
    seconds = _shown((record.get("seconds") or {}).get("all") or None, ".0f")
    # The throughput of nonsense is none, so it is not shown.
    return (*head, verdict(record), *(figures if right else [""] * 4), seconds)


def table(found: Found) -> str:
    """A Markdown table that can be read as it stands; * marks the chosen point."""
    chosen = best(found)
    rows = [_cells(point, found, chosen) for point in found.matrix.points()]
    widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(len(HEADINGS))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if number >= 5 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = [("-" * (width - 1) + ":" if number >= 5 else "-" * width) for number, width in enumerate(widths)]
    return "\n".join([line(HEADINGS), line(rule), *map(line, rows)])


def reasons(found: Found) -> list[str]:
    """Why a point is not right, in the order of the table."""
    return [
        f"{point}: {verdict(found.records[point])}: {found.records[point].get('reason') or 'no reason was kept'}"
        for point in found.matrix.points()
        if point in found.records and found.records[point]["outcome"] != "right"
    ]


def remarks(found: Found) -> list[str]:
    """What must be said besides the table."""
    told = []
    records = {
        point: record for point, record in found.records.items() if point in set(found.matrix.points())
    }
    broken = [point for point, record in records.items() if record.get("degenerate")]
    if broken:
        told.append(_WAYS_OUT)
    if any(point.row.mode in ("NONE", EAGER) or point.max_num_seqs <= 2 for point in broken):
        told.append(
            "Here a point that is one of these ways out is degenerate too, so the cause is another one."
        )
    for row in found.matrix.rows:
        if odd := tune_search.not_monotone(found.matrix, row, found.outcomes):
            told.append(
                f"{row}: {', '.join(map(str, odd))} is not right although more is. The search assumes that this cannot "
                "be; try every point with -e tandem_tune_every=true."
            )
    if best(found) is None:
        told.append("No point is right and measured, so nothing is offered.")
    return told


def snippet(found: Found) -> str | None:
    """What makes the chosen point the wanted one, for an inventory."""
    chosen = best(found)
    if chosen is None:
        return None
    overrides = found.records[chosen].get("overrides") or {}
    return yaml.safe_dump({"tandem_profile_overrides": overrides}, sort_keys=True, default_flow_style=False)


def page(found: Found, title: str, picture: str | None) -> str:
    """The whole as Markdown."""
    chosen, offered = best(found), snippet(found)
    parts = [f"# {title}", table(found)]
    if picture:
        parts.append(f"![{title}]({picture})")
    if why := reasons(found):
        parts.append("\n".join(["Why they are not right:", "", *(f"- {line}" for line in why)]))
    parts += remarks(found)
    if chosen and offered:
        by = "all streams together" if found.prefer == "aggregate" else "one stream"
        value = score(chosen, found.records[chosen], found.prefer)
        parts.append(
            f"The fastest point that is right, by {by} ({value:.1f} tok/s): {chosen}. To serve it, put this in the "
            "place of `tandem_profile_overrides` in the inventory and run serve.yml, which proves it before it counts:"
        )
        parts.append(f"```yaml\n{offered}```")
    return "\n\n".join(parts) + "\n"
