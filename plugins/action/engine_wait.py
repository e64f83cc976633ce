# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits on the controller for an engine to come up; each look is one run of the module of the same name."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.engine_watch import ARGUMENTS


def mark_of(look: dict[str, Any]) -> tuple[str, int]:
    """Changes when the phase does, and at each quarter of a phase that counts: then a line is worth printing."""
    progress = look["boot"]["progress"]
    stage = look["phase"].partition(",")[0]
    return stage, 4 * progress["done"] // max(progress["of"], 1) if progress else 0


def failure_of(look: dict[str, Any], args: dict[str, Any], host: str) -> str:
    """What was found, what was wanted and what to do, for an engine that did not come up."""
    unit, waited = args["unit"], f"{look['seconds']:.0f} s"
    if look["findings"]:
        (cause,) = look["findings"]
        what = f"failed after {waited} (last phase: {look['phase']}): {cause['summary']}. {cause['remedy']}."
        what += f"\n{cause['evidence']}" if cause["evidence"] else ""
    else:
        wanted = f"{args['url']}/health to answer 200" if args["url"] else "its KV cache to be made"
        what = (
            f"is not ready after {waited}: it is {look['phase']}, wanted {wanted}. "
            f"Watch it with `journalctl -fu {unit}` there; raise timeout if it goes on."
        )
    lines = "\n".join(look["journal"]) or "(none)"
    return f"{unit} on {host} {what}\nThe last lines of its journal:\n{lines}"


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        if self._task.check_mode:
            untouched = {"ready": False, "seconds": 0.0, "phase": "not looked", "findings": []}
            return {**result, **untouched, "changed": False}
        host = self._task.delegate_to or (task_vars or {})["inventory_hostname"]
        look = self._wait(args, host, task_vars)
        if look.get("outcome") in ("waiting", "failed"):
            look.update(failed=True, msg=failure_of(look, args, host))
        return {**result, **look}

    def _wait(self, args: dict[str, Any], host: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """The look at which the waiting ended: ready, failed, broken, or still waiting when the time was over."""
        began = time.monotonic()
        printed = None
        asked = {name: value for name, value in args.items() if value is not None}
        while True:
            look = self._execute_module(
                "tandem.spark.engine_wait", module_args=dict(asked), task_vars=task_vars
            )
            if "outcome" not in look:
                return look
            look["seconds"] = round(time.monotonic() - began, 1)
            look["findings"] = [{**found, "hosts": [host]} for found in look["findings"]]
            if mark_of(look) != printed:
                printed = mark_of(look)
                self._display.display(f"{host}: {look['phase']} ({look['seconds']:.0f} s)")
            left = args["timeout"] - look["seconds"]
            if look["outcome"] != "waiting" or left <= 0:
                return look
            asked["invocation_id"] = asked.get("invocation_id") or look["unit_state"]["invocation_id"]
            time.sleep(min(args["interval"], left))
