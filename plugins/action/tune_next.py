# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chooses the next point of the tuning matrix on the controller, and says what is left."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.tune_next import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_points, tune_records, tune_search
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_page import verdict


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        profile = args["profile"]
        wish = tune_points.Wish(args["max_num_seqs"], args["cudagraph_modes"], args["k"], args["drafts"])
        try:
            matrix = tune_points.matrix(profile, wish)
        except tune_points.TuneError as error:
            return {**result, "failed": True, "msg": f"Nothing was touched. {error}"}
        stack = tune_points.stack_id([*args["stack"], tune_points.others(profile)])
        folder = Path(args["folder"]).expanduser() / args["group"] / stack
        kept = tune_records.read(folder)
        since = args["since"] or tune_records.now()
        outcomes = kept.outcomes(since)
        given_up = kept.gives_up(since)
        point = None if given_up else tune_search.next_point(matrix, outcomes, args["every"])
        left = tune_search.left(matrix, outcomes, args["every"])
        cost = tune_search.cost(left, _seconds_of(kept), args["expected_s"])
        result["warnings"] = list(kept.troubles)
        if args["tell_all"]:
            told = "\n".join(_told(matrix, kept))
            self._display.display(f"\n{told}\n\nTo do: {cost}.\nResults: {folder}\n")
        elif given_up:
            self._display.display(f"\nNo further point is tried: {given_up}.\n")
        elif point:
            self._display.display(f"\nTrying {point}. To do, with it: {cost}.\n")
        return {
            **result,
            "changed": False,
            "point": point and point.as_dict(),
            "name": str(point or ""),
            "points": [each.as_dict() for each in matrix.points()],
            "tried": tune_points.overrides(point, profile) if point else {},
            "folder": str(folder),
            "since": since,
            "left": list(left),
            "cost": cost,
        }


def _told(matrix: tune_points.Matrix, kept: tune_records.Kept) -> list[str]:
    """A line for each row of the matrix, with what is known of it."""
    lines = []
    for row in matrix.rows:
        records = ((n, kept.records.get(tune_points.Point(row, n))) for n in matrix.sequences)
        cells = (f"{n}{f' ({verdict(record)})' if record else ''}" for n, record in records)
        lines.append(f"{row.mode}, {row.drafted}, k={row.k}: max_num_seqs {', '.join(cells)}")
    return lines


def _seconds_of(kept: tune_records.Kept) -> float | None:
    """What a point took here that was started and read to its end."""
    told = [
        record["seconds"]["all"]
        for record in kept.records.values()
        if record["outcome"] == "right" and (record.get("seconds") or {}).get("all")
    ]
    return statistics.mean(told) if told else None
