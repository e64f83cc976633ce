# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what lies on the controller (`src`) and sends the whole list to the node as one module run."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


def with_content(entry: dict, find) -> list[dict]:
    """One entry of the list with its text in place of `src`; a folder becomes an entry for each file."""
    if not entry.get("src") or not entry.get("path"):
        return [entry]  # the module says what is missing
    source = Path(find(str(entry["src"])))
    plain = {key: value for key, value in entry.items() if key not in ("src", "pattern")}
    try:
        if not source.is_dir():
            return [{**plain, "content": source.read_text(encoding="utf-8")}]
        found = sorted(path for path in source.glob(entry.get("pattern", "*")) if path.is_file())
        return [
            {**plain, "path": f"{entry['path']}/{path.name}", "content": path.read_text(encoding="utf-8")}
            for path in found
        ]
    except (OSError, ValueError, NotImplementedError) as error:
        raise AnsibleActionFail(f"{source} on the controller cannot be read as text: {error}") from error


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        entries = self._task.args.get("files")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise AnsibleActionFail("files is not a list of maps. Give one map a path.")
        files = [ready for entry in entries for ready in with_content(entry, self._find_source)]
        result.update(
            self._execute_module(
                module_name="tandem.spark.managed_files",
                module_args={"files": files},
                task_vars=task_vars,
            )
        )
        return result

    def _find_source(self, source: str) -> str:
        return source if source.startswith("/") else self._find_needle("files", source)
