# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs lm-eval on the node and prints what it says on the way: an evaluation takes minutes to hours."""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.spark.plugins.modules.lm_eval import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.live_job import LiveJob

MODULE = "tandem.spark.lm_eval"


class ActionModule(LiveJob):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        return {**result, **self.run_live(MODULE, args, args["timeout_s"], task_vars)}
