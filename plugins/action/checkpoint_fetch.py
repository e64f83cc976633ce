# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings weights to a node as a job of it, since a download takes hours, and prints how far it is.

For a copy from another rank, that rank is told first to give them, under a secret for this transfer alone.
"""

from __future__ import annotations

import secrets
from typing import Any

from ansible_collections.tandem.spark.plugins.modules.checkpoint_fetch import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.live_job import LiveJob
from ansible_collections.tandem.spark.plugins.plugin_utils.other_hosts import OtherHost

MODULE = "tandem.spark.checkpoint_fetch"
GIVER = "tandem.spark.checkpoint_give"


class ActionModule(LiveJob):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        if args["from_host"] and not self._task.check_mode:
            secret = secrets.token_hex(32)
            wish = {"path": args["path"], "addresses": args["from_addresses"], "secret": secret}
            giver = OtherHost(self, args["from_host"], task_vars["hostvars"])
            given = giver.run(
                GIVER, {**wish, "library": args["library"], "total_timeout": args["total_timeout"]}
            )
            if given.get("failed"):
                return {
                    **result,
                    "failed": True,
                    "msg": f"{args['from_host']}: {given.get('msg', 'no answer')}",
                }
            args["peer"] = {"doors": given["doors"], "secret": secret}
        return {**result, **self.run_live(MODULE, args, args["total_timeout"], task_vars)}
