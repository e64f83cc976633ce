# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what was found of a point on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.tune_record import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_points, tune_records
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_page import verdict


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        folder = Path(args["folder"])
        try:
            point = tune_points.point_of(args["point"])
            if args["state"] == "begun":
                record = tune_records.begun(folder, point)
            else:
                record = tune_records.judged(args["raw"], args["verdict"])
                self._display.display(f"\n{point}: {verdict(record)}. {record['reason']}\n")
            path = folder / f"{point.name}.json"
            if not self._task.check_mode:
                tune_records.write(folder, point, record)
        except (tune_points.TuneError, ValueError) as error:
            return {**result, "failed": True, "msg": str(error)}
        told = {name: record.get(name) for name in ("outcome", "reason", "digest", "seconds")}
        return {**result, "changed": False, "path": str(path), **told}
