# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the nodes are and what the inventory asks to one plan for a group of ranks (controller only).

Every check runs, whatever another one found: an operator hears all problems at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec

from ansible_collections.tandem.spark.plugins.module_utils import firewall, nccl_rules, ray_settings
from ansible_collections.tandem.spark.plugins.plugin_utils import plan_checks, rails_planned
from ansible_collections.tandem.spark.plugins.plugin_utils.group import GroupPlan, Rank


class PlanError(Exception):
    """What was found, what was wanted and what to do."""


def plan_group(group: str, ranks: list[Rank], profile: Mapping) -> GroupPlan:
    """The rails, subnets and addresses of a group, and every finding against it.

    `ranks` is in the order of the inventory group: the first is the head. `profile` is the merged profile.
    Raises PlanError where nothing can be planned at all.
    """
    if find_spec("netaddr") is None:
        raise PlanError(
            f"The controller's Python ({sys.executable}) has no netaddr. "
            "Install it with `pip install --require-hashes -r requirements/runtime.txt`."
        )
    plan = GroupPlan()
    rails_planned.plan_rails(ranks, plan)
    plan.findings += plan_checks.check(group, ranks, plan, profile)
    return plan


def firewall_text(told: Mapping, variables: Mapping, profile: Mapping) -> str | None:
    """The table of the packet filter of a node that is told this plan; None where there is to be none."""
    if not variables["tandem_access_firewall"]:
        return None
    names = ("tandem_access_guard_from", "tandem_access_api_from", "tandem_access_rails_from")
    engine = ray_settings.CLOSED if profile.get("rendezvous") == "ray" else ()
    return firewall.text(firewall.wish_of(told, *(variables[name] for name in names), engine))


def node_plan(group: str, ranks: list[Rank], rank: Rank, plan: GroupPlan, profile: Mapping) -> dict:
    """What one node must know to start its rank: the content of /etc/tandem/plan.json."""
    head = ranks[0]

    def peers(index: int) -> list[str]:
        return [
            str(rail.address.ip)
            for host, rails in plan.rails.items()
            for rail in rails
            if host != rank.host and rail.index == index and rail.address
        ]

    return {
        "group": group,
        "rank": rank.number,
        "ranks": len(ranks),
        "hosts": [each.host for each in ranks],
        "fabric": {
            "mtu": head.variables["tandem_fabric_mtu"],
            "rails": [
                {
                    "index": rail.index,
                    "netdev": rail.netdev,
                    "hca": rail.hca,
                    "taken": rail.taken,
                    "address": str(rail.address),
                    "subnet": str(plan.subnets[rail.index]),
                    "peers": peers(rail.index),
                }
                for rail in plan.rails[rank.host]
            ],
        },
        "master_addr": str(plan.rails[head.host][0].address.ip),
        "master_port": head.variables["tandem_master_port"],
        "api": {
            "host": head.variables["tandem_api_host"],
            "port": head.variables["tandem_api_port"],
            "model": profile["served_model_name"],
        },
        "warm_up": profile["warm_up"],
        "guard": {
            "port": head.variables["tandem_guard_port"],
            "http_host": rank.variables["tandem_guard_http_host"],
            "http_port": rank.variables["tandem_guard_http_port"],
            "limits": {
                "boot_s": profile["engine"]["start_timeout_s"],
                **head.variables["tandem_guard_limits"],
            },
        },
        "cache_max_gib": head.variables["tandem_cache_max_gib"],
        "nccl": nccl_rules.environment(profile["transport"], profile["nccl"].get("environment") or {}),
    }
