# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a run of the bench on the controller, and says what it gave (controller only)."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.bench_record import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import bench_files, bench_record, doctor_files


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        given = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        if self._task.check_mode:
            return {**result, "changed": False, "file": None}
        hostvars = task_vars["hostvars"]
        record = bench_record.record(
            group=given["group"],
            url=given["url"],
            bench=given["bench"],
            looks=given["looks"],
            addresses={host: hostvars[host].get("ansible_host") or host for host in given["looks"]},
            telemetry=given["telemetry"],
            answers=given["answers"],
            own_profiles=self._templar.template(task_vars.get("tandem_profiles")) or {},
            collection=doctor_files.collection(),
        )
        self._display.display(f"\n{bench_record.page(record['summaries'])}\n")
        try:
            path = bench_files.keep(given["folder"], record)
        except bench_files.BenchFilesError as error:
            return {**result, "failed": True, "msg": str(error)}
        self._display.display(f"written: {path}\n")
        return {**result, "changed": True, "file": str(path)}
