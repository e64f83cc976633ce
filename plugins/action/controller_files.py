# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes some files on the controller where their content differs (controller only)."""

from __future__ import annotations

from pathlib import PurePath

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.controller_files import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import bench_files


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        given = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        root = bench_files.expanded(given["folder"])
        strange = [name for name in given["files"] if PurePath(name).name != name]
        if strange:
            return {
                **result,
                "failed": True,
                "msg": f"{', '.join(strange)}: wanted the name of a file, no path",
            }
        diff, changed = [], []
        for name, content in given["files"].items():
            path, text = root / name, str(content)
            before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            if before != text:
                changed.append(path)
                diff.append(
                    {"before": before, "after": text, "before_header": name, "after_header": str(path)}
                )
        try:
            for path in [] if self._task.check_mode else changed:
                bench_files.write(path, str(given["files"][path.name]).encode())
        except bench_files.BenchFilesError as error:
            return {**result, "failed": True, "msg": str(error)}
        files = [str(root / name) for name in given["files"]]
        self._display.display(
            f"\n{'would be written' if self._task.check_mode else 'written'}: {', '.join(files)}\n"
        )
        return {
            **result,
            "changed": bool(changed),
            "files": files,
            **({"diff": diff} if self._task.diff else {}),
        }
