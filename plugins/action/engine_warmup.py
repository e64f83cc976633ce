# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the warm-up as a job on the node, prints its progress as it comes, and names the rank that stalls."""

from __future__ import annotations

import shlex
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding
from ansible_collections.tandem.spark.plugins.module_utils.stalled_ranks import name_ranks
from ansible_collections.tandem.spark.plugins.modules.engine_warmup import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import boot_watch
from ansible_collections.tandem.spark.plugins.plugin_utils.other_hosts import OtherHost

MODULE = "tandem.spark.engine_warmup"
LOOK_EVERY_S = 2.0
SPARE_S = 120  # the module ends by itself; the job is given up only where the node does not answer any more
STALLED = (["engine.warmup.stalled"], ["engine.warmup.timeout"])  # an error is the first of the findings


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        if self._task.check_mode:
            return {**result, **self._execute_module(MODULE, module_args=args, task_vars=task_vars)}
        try:
            done = self._run_job(args, host, task_vars)
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        if [found["id"] for found in done.get("findings", [])][:1] in STALLED:
            done = self._name_ranks(done, args, host, task_vars)
        return {**result, **done}

    def _run_job(self, args: dict[str, Any], host: str, task_vars: dict[str, Any]) -> dict[str, Any]:
        """The module's result. As a job of the node it outlives an ssh session that breaks off."""
        progress = self._connection._shell.join_path(self._make_tmp_path(), "progress")
        self._task.async_val = int(args["plan"]["total_timeout_s"]) + SPARE_S
        try:
            job = self._execute_module(
                MODULE, module_args={**args, "progress_file": progress}, task_vars=task_vars, wrap_async=True
            )
        finally:
            self._task.async_val = 0  # or the executor would wait for the job once more
        until = time.monotonic() + int(args["plan"]["total_timeout_s"]) + SPARE_S
        said = 0
        while "ansible_job_id" in job and not job.get("finished"):
            if time.monotonic() > until:
                return {
                    "failed": True,
                    "msg": f"The warm-up on {host} did not end in its time; nothing is known of it.",
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

    def _name_ranks(
        self, done: dict[str, Any], args: dict[str, Any], host: str, task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        """The same result after a look at the journals of all ranks: which of them keeps the others waiting."""
        look = "tandem.spark.engine_wait"
        looks = {host: self._execute_module(look, module_args={"unit": args["unit"]}, task_vars=task_vars)}
        for other, unit in args["workers"].items():
            looks[other] = OtherHost(self, other, task_vars["hostvars"]).run(look, {"unit": unit})
        journals = {name: seen.get("journal") or [seen.get("msg", "")] for name, seen in looks.items()}
        stall, *others = done["findings"]
        named = name_ranks(Finding(**{**stall, "hosts": ()}), journals)
        told = {"msg": boot_watch.told(named)} if done.get("failed") else {}
        return {**done, **told, "findings": [named.as_dict(), *others]}
