# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the plan of a group on the controller and stops on everything that is wrong, all at once."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils import engine_config, firewall
from ansible_collections.tandem.spark.plugins.module_utils.engine_state import UNITS
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.modules.plan import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import mending, planning, profile_checks
from ansible_collections.tandem.spark.plugins.plugin_utils.plan import PlanError, firewall_text, node_plan
from ansible_collections.tandem.spark.plugins.plugin_utils.report import overridden_text, report


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        group, tried, self._mends = args["group"], args["tried"], args["mends"]
        hostvars, me = task_vars["hostvars"], task_vars["inventory_hostname"]
        hosts = list(task_vars["groups"].get(group, []))
        problem = self._no_rank(me, group, hosts, hostvars)
        if problem:
            return {**result, "failed": True, "msg": problem}
        nodes = {host: self._node(hostvars[host]) for host in hosts}
        given = {host: planning.public(hostvars[host]) for host in hosts}
        try:
            made = planning.make(group, hosts, given, nodes, tried)
        except PlanError as error:
            return {**result, "failed": True, "msg": str(error)}
        effective, findings, profile = made.effective, made.findings, made.profile
        result["findings"] = [each.as_dict() for each in worst_first(findings)]
        looked = self._looked(task_vars, hosts, nodes, made)
        result["findings"] += [each.as_dict() for each in looked.stops]
        if looked.stops or any(each.severity == "error" for each in findings):
            result.update(
                failed=True,
                msg=f"Nothing was touched. The plan for group {group} cannot be carried out:\n"
                + report([*findings, *looked.stops]),
            )
            return result
        ranks, plan = made.ranks, made.plan
        rank = ranks[hosts.index(me)]
        path = effective[hosts[0]]["tandem_checkpoint_path"] or profile["checkpoint"]["path"]
        if rank.number == 0 and made.changed and not tried:
            self._display.display(overridden_text(profile["name"], made.changed))
        told = mending.text(looked, task_vars.get("ansible_check_mode", False))
        if rank.number == 0 and told:
            self._display.display(told)
        told_node = node_plan(group, ranks, rank, plan, profile)
        table = firewall_text(told_node, rank.variables, profile)
        result.update(
            changed=False,
            plan=told_node,
            firewall={"text": table, "mark": firewall.mark(table)},
            profile=profile,
            overridden=[dict(zip(("key", "was", "now"), each, strict=True)) for each in made.changed],
            overrides=made.overrides,
            checkpoint_path=path,
            decode=profile_checks.decode_shape(profile),
            engine_yaml=engine_config.engine_yaml(
                {**profile["engine"]["flags"], "tensor-parallel-size": profile["tensor_parallel_size"]},
                path,
                profile["served_model_name"],
            ),
            arguments={
                role: engine_config.rank_arguments(
                    number,
                    len(ranks),
                    rank.variables["tandem_api_host"],
                    rank.variables["tandem_api_port"],
                    profile.get("rendezvous"),
                )
                for number, role in enumerate(("head", "worker"))
            },
            role="head" if rank.number == 0 else "worker",
            unit=UNITS[min(rank.number, 1)],
            user=rank.variables["tandem_user"],
            again=looked.again,
        )
        return result

    def _looked(self, task_vars, hosts: list[str], nodes, made: planning.Planned) -> mending.Sorted:
        """What the looks at the nodes found, by what this run does about it; nothing for a run that mends nothing."""
        if not self._mends:
            return mending.Sorted()
        hostvars = task_vars["hostvars"]
        looks = {host: hostvars[host].get("__tandem_node") or {} for host in hosts}
        acts = mending.mends(
            task_vars.get("ansible_run_tags") or ["all"],
            task_vars.get("ansible_skip_tags") or [],
            all(node is not None for node in nodes.values()),
            made.effective,
        )
        found = mending.of_group(hosts, looks)
        needed = [each for each in found if mending.relevant(each, made.profile, nodes)]
        return mending.sort(needed, acts, made.findings)

    def _no_rank(self, me: str, group: str, hosts: list[str], hostvars) -> str | None:
        """Why there is nothing to plan for this host."""
        if me not in hosts:
            return (
                f"{me} is not in the group {group!r}, whose hosts are the ranks: "
                f"{', '.join(hosts) or 'it has none'}. Put it there, or set tandem_group to the group it is in."
            )
        if self._node(hostvars[me]) is None:
            return f"Nothing is known of {me}. Run tandem.spark.node_info first, registered as __tandem_node."
        return None

    @staticmethod
    def _node(values):
        return (values.get("__tandem_node") or {}).get("node")
