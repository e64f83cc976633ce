# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the weights, and prints the rate and the time left where every byte of them is read: that takes minutes."""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.spark.plugins.modules.checkpoint_info import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.live_job import LiveJob

MODULE = "tandem.spark.checkpoint_info"


class ActionModule(LiveJob):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        if args["verify"] != "sha256":
            return {**result, **self._execute_module(MODULE, module_args=args, task_vars=task_vars)}
        return {**result, **self.run_live(MODULE, args, args["total_timeout"], task_vars)}
