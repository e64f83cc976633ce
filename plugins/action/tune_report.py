# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells what the tuning matrix found, and writes it beside the results on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.tune_report import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_page, tune_picture, tune_records
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import Matrix, TuneError, point_of

PAGE, PICTURE = "tune.md", "tune.svg"


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        told = args["found"]
        folder = Path(told["folder"])
        points = [point_of(each) for each in told["points"]]
        matrix = Matrix(
            tuple(dict.fromkeys(point.row for point in points)),
            tuple(sorted({point.max_num_seqs for point in points})),
        )
        kept = tune_records.read(folder)
        found = tune_page.Found(matrix, kept.records, kept.outcomes(told["since"]), args["prefer"])
        result["warnings"] = list(kept.troubles)
        files = self._write(found, args["title"], folder, result)
        written = "".join(f"written: {file}\n" for file in files)
        self._display.display(f"\n{tune_page.page(found, args['title'], None)}\n{written}")
        best = tune_page.best(found)
        return {
            **result,
            "changed": False,
            "files": files,
            "best": best and best.as_dict(),
            "overrides": found.records[best].get("overrides") if best else None,
        }

    def _write(self, found: tune_page.Found, title: str, folder: Path, result: dict[str, Any]) -> list[str]:
        """The files; where one cannot be made, that is a warning: what was measured lies there all the same."""
        if self._task.check_mode or not found.records:
            return []
        files, picture = [], None
        try:
            drawn = tune_picture.svg(found, title)
            (folder / PICTURE).write_bytes(drawn)
            files, picture = [str(folder / PICTURE)], PICTURE
        except (TuneError, OSError) as error:
            result["warnings"].append(f"No picture: {error}")
        try:
            (folder / PAGE).write_text(tune_page.page(found, title, picture), encoding="utf-8")
            files.append(str(folder / PAGE))
        except OSError as error:
            result["warnings"].append(f"{folder / PAGE} could not be written: {error}")
        return files
