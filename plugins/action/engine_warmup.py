# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the warm-up, prints its progress as it comes, and names the rank that stalls."""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding
from ansible_collections.tandem.spark.plugins.module_utils.stalled_ranks import name_ranks
from ansible_collections.tandem.spark.plugins.modules.engine_warmup import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import boot_watch
from ansible_collections.tandem.spark.plugins.plugin_utils.live_job import LiveJob
from ansible_collections.tandem.spark.plugins.plugin_utils.other_hosts import OtherHost

MODULE = "tandem.spark.engine_warmup"
STALLED = (["engine.warmup.stalled"], ["engine.warmup.timeout"])  # an error is the first of the findings


class ActionModule(LiveJob):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        done = self.run_live(MODULE, args, args["plan"]["total_timeout_s"], task_vars)
        if [found["id"] for found in done.get("findings", [])][:1] in STALLED:
            done = self._name_ranks(done, args, self.host(task_vars), task_vars)
        return {**result, **done}

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
