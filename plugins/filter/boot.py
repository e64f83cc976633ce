# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a start: its figures beside others, and how long it took (controller only)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.tandem.spark.plugins.module_utils.boot_facts import compare
from ansible_collections.tandem.spark.plugins.plugin_utils.report import report


def boot_report(ranks: Mapping[str, Mapping], expected: Mapping, engines: Mapping[str, Mapping]) -> str:
    """What this start has less of than the profile expects or the last proven start had, a line each; or nothing.

    `ranks` is what engine_wait returns of every rank, `engines` node_info's `engine` of each host before this run.
    """
    found = []
    for host, rank in ranks.items():
        last = ((engines.get(host) or {}).get("proof") or {}).get("boot")
        found += compare(host, rank.get("boot") or {}, expected, last)
    return report(found)


def down_time(seconds: Mapping[str, float]) -> str:
    """How long a group was down, in its parts; `seconds` has the parts and, as `down`, the whole."""
    parts = {name: value for name, value in seconds.items() if name != "down"}
    told = [f"{name.replace('_', '-')} {value:.1f} s" for name, value in parts.items()]
    rest = seconds["down"] - sum(parts.values())
    return f"Down for {seconds['down']:.1f} s: {', '.join(told)}, the rest {rest:.1f} s"


class FilterModule:
    def filters(self) -> dict:
        return {"boot_report": boot_report, "down_time": down_time}
