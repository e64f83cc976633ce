# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes the steps of a roll-out over the ranks of a group, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.group_unit import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.other_hosts import OtherHost


def steps(ranks: Mapping[str, str], state: str, release: str | None) -> Iterator[tuple[str, str]]:
    """(state, host) of every step: stopped from the head on, started up to it, since its rendezvous can time out."""
    head, *workers = ranks
    if state in ("stopped", "restarted"):
        yield from (("stopped", host) for host in (head, *workers))
    if release and state == "restarted":
        yield from (("switched", host) for host in ranks)
    if state in ("started", "restarted"):
        yield from (("started", host) for host in (*workers, head))


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        ranks, release = args["ranks"], args["release"]
        others = {host: OtherHost(self, host, task_vars["hostvars"]) for host in ranks}
        result.update(changed=False, began=time.time(), seconds={}, diff=[], warnings=[])
        trouble: list[str] = []
        for state, host in steps(ranks, args["state"], release):
            wanted = {"unit": ranks[host], "state": state, "release": release}
            if state == "stopped":
                wanted |= {"hold": args["hold"], "hold_s": args["hold_s"]}
            done = others[host].run("tandem.spark.rank_unit", wanted)
            if done.get("failed"):
                lost = f"{host} was lost while its rank was to be {state}: {done.get('msg')}"
                trouble.append(
                    lost if done.get("unreachable") else f"{host}: {done.get('msg', 'no reason given')}"
                )
                if args["state"] == "stopped":
                    continue  # the other ranks shall not run on without this one
                break
            result["changed"] |= done["changed"]
            result["warnings"] += [f"{host}: {warning}" for warning in done.get("warnings", [])]
            result["seconds"][state] = round(result["seconds"].get(state, 0) + done["seconds"], 2)
            if done.get("diff"):
                result["diff"].append(
                    {**done["diff"], "before_header": f"{host} current", "after_header": f"{host} current"}
                )
            self._say(host, state, done, release)
        return {**result, "failed": True, "msg": "\n".join(trouble)} if trouble else result

    def _say(self, host: str, state: str, done: dict[str, Any], release: str | None) -> None:
        if done["changed"]:
            would = "would be " if self._task.check_mode else ""
            what = f"switched to release {release}" if state == "switched" else state
            self._display.display(f"{host}: {would}{what} ({done['seconds']:.1f} s)")
