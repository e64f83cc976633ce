# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings for a person (controller only)."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, worst_first


def report(findings: Iterable[Finding]) -> str:
    """A line for each finding, the worst first, with what to do."""
    lines = []
    for each in worst_first(findings):
        where = f" [{', '.join(each.hosts)}]" if each.hosts else ""
        lines.append(f"{each.severity.upper()} {each.id}{where}: {each.summary}. {each.remedy}.")
    return "\n".join(lines)
