# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the page of a run of the bench, and says where it is slower and why (controller only)."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.bench_report import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import bench_files, bench_record, bench_report
from ansible_collections.tandem.spark.plugins.plugin_utils.bench_charts import ChartsError


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        given = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        try:
            written, told, left_out = bench_report.files(
                given["folder"], given["group"], given["pictures"], given["run"] or None
            )
            changed = any(not path.exists() or path.read_bytes() != text for path, text in written.items())
            if changed and not self._task.check_mode:
                for path, text in written.items():
                    bench_files.write(path, text)
        except (bench_report.ReportError, ChartsError, bench_files.BenchFilesError) as error:
            return {**result, "failed": True, "msg": str(error)}
        for line in left_out:
            self._display.warning(line)
        pages = [str(path) for path in written if path.suffix in (".html", ".md")]
        self._display.display(f"\n{self._text(told)}\n\nwritten: {', '.join(pages)}\n")
        return {**result, "changed": changed, "files": sorted(map(str, written))}

    @staticmethod
    def _text(told) -> str:
        lines = [bench_record.page(told["record"]["summaries"])]
        slower = [
            f"slower than {each['source']}: {each['row']}, {each['unit']} {each['ours_shown']} "
            f"against {each['theirs_shown']}"
            for each in told["against_reference"]
            if each["slower"]
        ]
        why = [f"{number}. {each.subject}: {each.what}" for number, each in enumerate(told["why"].found, 1)]
        return "\n".join([*lines, *(["", *slower] if slower else []), *(["", *why] if why else [])])
