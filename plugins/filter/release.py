# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a group of ranks needs (controller only)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.tandem.spark.plugins.module_utils.engine_config import environment_file


def restart_reasons(engines: Mapping[str, Mapping], units: Mapping[str, str], digest: str) -> list[str]:
    """Why the group must be restarted, in words; empty when every rank runs the release that was proven.

    `engines` is node_info's `engine` of each host before this run, `units` the unit of each host. State decides,
    not what this run happened to change: a run that was cut off leaves its work to the next one.
    """
    reasons = []
    for host, engine in engines.items():
        unit = engine["units"].get(units[host]) or {}
        if engine["current"] != digest:
            reasons.append(f"{host} has release {engine['current'] or 'none'}, wanted is {digest}")
        elif engine["applied"] != digest:
            reasons.append(f"{host} has never proved release {digest}")
        elif unit.get("active") != "active":
            reasons.append(f"{units[host]} on {host} is {unit.get('active') or 'missing'}")
    return reasons


def stale_proofs(engines: Mapping[str, Mapping]) -> list[str]:
    """The hosts whose rank runs under another driver, kernel, boot or start of its unit than the one proved."""
    return [
        host
        for host, engine in engines.items()
        if not engine["proof"] or engine["proof"].get("ran_as") != engine["runs_as"]
    ]


class FilterModule:
    def filters(self) -> dict:
        return {
            "environment_file": environment_file,
            "restart_reasons": restart_reasons,
            "stale_proofs": stale_proofs,
        }
