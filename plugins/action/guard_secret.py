# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the secret that the guards of a group share, and gives it to every rank, where they do not have one already."""

from __future__ import annotations

import secrets
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.guard_look import SECRET
from ansible_collections.tandem.spark.plugins.modules.guard_secret import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.other_hosts import OtherHost

_BYTES = 32


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        ranks = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]["ranks"]
        marks = set(ranks.values())
        if len(marks) == 1 and None not in marks:
            return {**result, "changed": False, "written": []}
        wanted = {
            "path": f"/{SECRET}",
            "secret": f"{secrets.token_hex(_BYTES)}\n",
            "mode": "0600",
            "owner": "root",
            "group": "root",
        }
        trouble = []
        for host in ranks:
            done = OtherHost(self, host, task_vars["hostvars"]).run(
                "tandem.spark.managed_files", {"files": [wanted]}
            )
            if done.get("failed") or done.get("unreachable"):
                trouble.append(f"{host}: {done.get('msg', 'no reason given')}")
        result.update(changed=True, written=list(ranks))
        if trouble:
            told = "Not every rank could be given the guards' secret; the next run gives all a new one."
            result.update(failed=True, msg="\n".join([told, *trouble]))
        return result
