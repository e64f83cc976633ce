# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits on the controller for the guard of a head; each look is one run of the module of the same name."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.guard_look import RECOVERING
from ansible_collections.tandem.spark.plugins.module_utils.guard_rules import HEALTHY
from ansible_collections.tandem.spark.plugins.modules.guard_wait import ARGUMENTS

SILENT_S = 20.0  # a guard that is restarted is silent for some seconds


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        began = heard = time.monotonic()
        told = None
        while True:
            look = self._execute_module("tandem.spark.guard_wait", module_args=args, task_vars=task_vars)
            now = time.monotonic()
            if "state" not in look:
                return {**result, **look}
            result.update(changed=False, state=look["state"], why=look["why"], seconds=round(now - began, 1))
            heard = now if look["state"] else heard
            if look["state"] != told and look["state"]:
                told = look["state"]
                self._display.display(f"{host}: the guard: {told}, {look['why']} ({now - began:.0f} s)")
            if self._task.check_mode or look["state"] in HEALTHY:
                return result
            trouble = _trouble(look, now - heard, args["timeout"] - (now - began))
            if trouble:
                return {**result, "failed": True, "msg": trouble}
            time.sleep(args["interval"])


def _trouble(look: dict[str, Any], silent_s: float, left_s: float) -> str | None:
    """Why there is nothing to wait for any more."""
    if look["state"] is None:
        gone = f"The guard says nothing for {silent_s:.0f} s. Look at `systemctl status tandem-guard`."
        return gone if silent_s > SILENT_S else None
    said = f"The guard says {look['state']}: {look['why']}"
    if look["state"] not in RECOVERING:
        return f"{said}. It does not bring the group up by itself."
    return None if left_s > 0 else f"{said}. That took too long; look at `journalctl -u tandem-guard`."
