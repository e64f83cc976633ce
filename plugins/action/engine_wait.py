# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits on the controller for all ranks of an engine; each look is one run of the module of the same name on a rank."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.engine_watch import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import boot_watch
from ansible_collections.tandem.spark.plugins.plugin_utils.other_hosts import OtherHost

PARTED_S = 15.0  # what a journal may lag behind
HEADLESS = {"url": None, "invocation_id": None}  # what is asked of the head alone


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        if self._task.check_mode:
            untouched = {"ready": False, "seconds": 0.0, "phase": "not looked", "findings": []}
            return {**result, **untouched, "changed": False}
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        ranks = {host: _Rank(self, host, args, task_vars)}
        for other, unit in args["workers"].items():
            ranks[other] = _Rank(self, other, {**args, **HEADLESS, "unit": unit}, task_vars, there=True)
        return {**result, **self._wait(ranks, host, args)}

    def _wait(self, ranks: Mapping[str, _Rank], host: str, args: dict[str, Any]) -> dict[str, Any]:
        """Looks until the waiting ended; the head's look with what was seen of the others."""
        began = time.monotonic()
        together = 0.0
        while True:
            looks = {name: rank.look() for name, rank in ranks.items()}
            seconds = round(time.monotonic() - began, 1)
            outcome = boot_watch.outcome_of(looks)
            if outcome == "broken":
                return next(look for look in looks.values() if "outcome" not in look)
            for name, look in looks.items():
                self._say(ranks[name], look, seconds)
            parted = boot_watch.parted(looks, host)
            together = together if parted else seconds
            if parted and seconds - together >= PARTED_S:
                return {
                    **self._result(looks, host, "failed", seconds),
                    "failed": True,
                    "msg": boot_watch.told(parted),
                    "findings": [parted.as_dict()],
                }
            left = args["timeout"] - seconds
            if outcome != "waiting" or left <= 0:
                return self._ended(ranks, looks, host, outcome, seconds)
            time.sleep(min(args["interval"], left))

    def _say(self, rank: _Rank, look: dict[str, Any], seconds: float) -> None:
        if look.get("unreachable"):
            return
        if (mark := boot_watch.mark_of(look)) != rank.printed:
            rank.printed = mark
            self._display.display(f"{rank.host}: {look['phase']} ({seconds:.0f} s)")

    def _result(self, looks: Mapping[str, dict], host: str, outcome: str, seconds: float) -> dict[str, Any]:
        """The head's look, and what was seen of every rank."""
        result = {name: value for name, value in looks[host].items() if name not in ("unreachable", "failed")}
        result["findings"] = [
            {**found, "hosts": [name]} for name, look in looks.items() for found in look.get("findings", [])
        ]
        result["ranks"] = {
            name: {key: look[key] for key in boot_watch.KEPT if key in look} for name, look in looks.items()
        }
        return {
            **result,
            "changed": False,
            "ready": outcome == "ready",
            "seconds": seconds,
            "outcome": outcome,
        }

    def _ended(
        self, ranks: Mapping[str, _Rank], looks: dict[str, dict], host: str, outcome: str, seconds: float
    ) -> dict[str, Any]:
        units = {name: rank.arguments["unit"] for name, rank in ranks.items()}
        result = self._result(looks, host, outcome, seconds)
        if outcome == "failed":
            result.update(failed=True, msg=boot_watch.failure_of(looks, units, seconds))
        elif outcome == "waiting":
            late = boot_watch.timeout_of(looks, units, seconds)
            result.update(failed=True, msg=boot_watch.told(late), findings=[late.as_dict()])
        return result


class _Rank:
    """One rank that is waited for, on the task's own host or there, on another one."""

    def __init__(
        self, action: ActionModule, host: str, args: dict[str, Any], task_vars: dict, there: bool = False
    ):
        self.host, self.printed = host, None
        self.arguments = {
            name: value for name, value in args.items() if value is not None and name != "workers"
        }
        self._action, self._task_vars = action, task_vars
        self._other = OtherHost(action, host, task_vars["hostvars"]) if there else None

    def look(self) -> dict[str, Any]:
        module = "tandem.spark.engine_wait"
        if self._other:
            found = self._other.run(module, self.arguments)
        else:
            found = self._action._execute_module(
                module, module_args=dict(self.arguments), task_vars=self._task_vars
            )
        started = (found.get("unit_state") or {}).get("invocation_id")
        if started:
            self.arguments.setdefault("invocation_id", started)
        return found
