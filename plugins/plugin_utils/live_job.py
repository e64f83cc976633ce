# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that takes long, run as a job of the node: what it says on the way is printed as it comes."""

from __future__ import annotations

import shlex
import time
from typing import Any

from ansible.plugins.action import ActionBase

LOOK_EVERY_S = 1.0
SPARE_S = 120  # the module ends by itself; the job is given up only where the node does not answer any more


class LiveJob(ActionBase):
    """An action whose module takes `progress_file` and returns `progress`, the same lines.

    As a job of the node the module outlives an ssh session that breaks off.
    """

    TRANSFERS_FILES = False

    def run_live(
        self, module: str, args: dict[str, Any], limit_s: float, task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        """The module's result; limit_s: by when it ends itself."""
        if self._task.check_mode:
            return self._execute_module(module, module_args=args, task_vars=task_vars)
        try:
            return self._run_job(module, args, int(limit_s) + SPARE_S, task_vars)
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def host(self, task_vars: dict[str, Any]) -> str:
        return self._task.delegate_to or task_vars["inventory_hostname"]

    def _run_job(
        self, module: str, args: dict[str, Any], limit_s: int, task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        host = self.host(task_vars)
        progress = self._connection._shell.join_path(self._make_tmp_path(), "progress")
        self._task.async_val = limit_s
        try:
            job = self._execute_module(
                module, module_args={**args, "progress_file": progress}, task_vars=task_vars, wrap_async=True
            )
        finally:
            self._task.async_val = 0  # or the executor would wait for the job once more
        until = time.monotonic() + limit_s
        said = 0
        while "ansible_job_id" in job and not job.get("finished"):
            if time.monotonic() > until:
                name = module.rpartition(".")[2]
                return {
                    "failed": True,
                    "msg": f"{name} on {host} did not end in its time; nothing is known of it.",
                }
            time.sleep(LOOK_EVERY_S)
            said = self._say(host, progress, said)
            status = self._status(job["ansible_job_id"], task_vars)
            job = {"ansible_job_id": job["ansible_job_id"], **status}
        # Ansible removes the job's folder at some moment after its end, so the last lines are those of the result.
        self._display_lines(host, job.get("progress", [])[said:])
        self._status(job.get("ansible_job_id"), task_vars, mode="cleanup")
        return {name: value for name, value in job.items() if name not in ("ansible_job_id", "results_file")}

    def _say(self, host: str, path: str, said: int) -> int:
        """Prints what came since; returns how many lines were printed so far."""
        command = f"tail -n +{said + 1} {shlex.quote(path)} 2>/dev/null"
        lines = self._low_level_execute_command(command)["stdout"].splitlines()
        self._display_lines(host, lines)
        return said + len(lines)

    def _display_lines(self, host: str, lines: list[str]) -> None:
        for line in lines:
            self._display.display(f"{host}: {line}")

    def _status(self, job: str | None, task_vars: dict[str, Any], mode: str = "status") -> dict[str, Any]:
        if job is None:
            return {}
        folder = self._remote_expand_user(self.get_shell_option("async_dir", default="~/.ansible_async"))
        return self._execute_module(
            "ansible.legacy.async_status",
            module_args={"jid": job, "mode": mode, "_async_dir": folder},
            task_vars=task_vars,
        )
