# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an inventory and the looks at its nodes to the plan of a group and all that is wrong (controller only)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding
from ansible_collections.tandem.spark.plugins.plugin_utils import profile as profiles
from ansible_collections.tandem.spark.plugins.plugin_utils import profile_checks, variables
from ansible_collections.tandem.spark.plugins.plugin_utils.group import GroupPlan, Rank
from ansible_collections.tandem.spark.plugins.plugin_utils.plan import plan_group

ROLES = Path(__file__).parents[2] / "roles"
PROFILE_FILES = ROLES / "profile" / "files"
PROFILES = PROFILE_FILES / "profiles"


@dataclass(frozen=True)
class Planned:
    """effective: every public variable of each host as it counts. profile and plan are None where they are unusable.

    changed: what the overrides changed in the profile, as `profile.changes` tells it. overrides: the same, in the form
    of `tandem_profile_overrides`.
    """

    effective: Mapping[str, Mapping[str, Any]]
    ranks: Sequence[Rank]
    profile: dict | None
    plan: GroupPlan | None
    findings: list[Finding]
    changed: Sequence[tuple[str, Any, Any]] = ()
    overrides: Mapping = field(default_factory=dict)


def public(values: Mapping) -> dict:
    """The tandem_* variables of a host."""
    return {name: values[name] for name in values if name.startswith(variables.PREFIX)}


def make(
    group: str,
    hosts: Sequence[str],
    given: Mapping[str, Mapping],
    nodes: Mapping[str, Any],
    tried: Mapping | None = None,
) -> Planned:
    """`given`: the tandem_* variables of each host; `nodes`: what node_info saw of it, None where nothing did.

    `tried`: laid over the overrides of the inventory, for a plan of something else than it wants.

    PlanError where the controller cannot plan at all.
    """
    known = variables.declared(ROLES)
    findings = list(variables.check(known, given))
    effective = {host: variables.effective(known, given[host]) for host in hosts}
    findings += variables.differing(effective)
    profile = _profile(effective[hosts[0]], findings, tried)
    ranks = [Rank(number, host, effective[host], nodes.get(host)) for number, host in enumerate(hosts)]
    if profile is None:
        return Planned(effective, ranks, None, None, findings)
    findings += profile_checks.check(profile, nodes, PROFILE_FILES / "flags", profiles.runnable(PROFILES))
    plan = plan_group(group, ranks, profile)
    before = profiles.described(
        effective[hosts[0]]["tandem_profile"], PROFILES, effective[hosts[0]]["tandem_profiles"]
    )
    changed = list(profiles.changes(before, profile))
    overrides = profiles.difference(before, profile)
    return Planned(effective, ranks, profile, plan, findings + plan.findings, changed, overrides)


def _profile(values: Mapping, findings: list[Finding], tried: Mapping | None) -> dict | None:
    name, own = values["tandem_profile"], values["tandem_profiles"] or {}
    schema = yaml_load((PROFILE_FILES / "profile_schema.yml").read_text())
    try:
        return profiles.load(name, PROFILES, values["tandem_profile_overrides"] or {}, schema, own, tried)
    except profiles.UnknownProfile:
        findings.append(
            finding("plan.profile.unknown", name=name, known=", ".join([*profiles.names(PROFILES), *own]))
        )
    except profiles.ProfileError as why:
        findings.append(finding("plan.profile.wrong", name=name, why=why))
    return None
