# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings for a person (controller only)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, worst_first


def line(found: Finding, remedy: bool = True) -> str:
    where = f" [{', '.join(found.hosts)}]" if found.hosts else ""
    told = f"{found.severity.upper()} {found.id}{where}: {found.summary}."
    return f"{told} {found.remedy}." if remedy else told


def report(findings: Iterable[Finding]) -> str:
    """A line for each finding, the worst first, with what to do."""
    return "\n".join(line(each) for each in worst_first(findings))


def overridden_text(name: str, changes: Iterable[tuple[str, object, object]]) -> str:
    """What an inventory changes in a profile, a line for each key."""

    def shown(value: object) -> str:
        return "nothing" if value is None else json.dumps(value, default=str)

    lines = [f"  {key}: {shown(was)} -> {shown(now)}" for key, was, now in changes]
    return "\n".join([f"The profile {name}, as tandem_profile_overrides changes it:", *lines])
