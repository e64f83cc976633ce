# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: what was seen that an operator should know, and what to do about it.

Every finding has an entry in a catalogue module; docs/findings.md is generated from CATALOGUE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from . import (
    catalogue_access,
    catalogue_bench,
    catalogue_build,
    catalogue_checkpoint,
    catalogue_container,
    catalogue_driver,
    catalogue_engine,
    catalogue_fabric,
    catalogue_generation,
    catalogue_host,
    catalogue_link,
    catalogue_memory,
    catalogue_nccl,
    catalogue_plan,
    catalogue_profile,
    catalogue_rails,
    catalogue_serving,
    catalogue_status,
)
from .catalogue import Entry

SEVERITIES = ("error", "warning", "info")
SCOPES = ("node", "group")
LASTING = ("mended", "start", "boot")


@dataclass(frozen=True)
class Finding:
    """One finding; hosts is empty where the caller does not know its own inventory name."""

    id: str
    severity: str
    scope: str
    hosts: tuple[str, ...]
    summary: str
    evidence: str
    remedy: str
    fixed_by: str | None
    source: str

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hosts": list(self.hosts)}


class FindingError(Exception):
    """A finding that ends what was to be done."""

    def __init__(self, what: Finding):
        evidence = f": {what.evidence}" if what.evidence else ""
        super().__init__(f"{what.summary}{evidence}. {what.remedy}")
        self.finding = what


def join_catalogues(parts: Iterable[Mapping[str, Entry]]) -> dict[str, Entry]:
    """Join catalogues into one; an id in two of them or an impossible severity is a ValueError."""
    joined: dict[str, Entry] = {}
    for part in parts:
        for finding_id, entry in part.items():
            if finding_id in joined:
                raise ValueError(f"finding {finding_id} is in two catalogues")
            if entry.severity not in SEVERITIES or entry.scope not in SCOPES or entry.lasts not in LASTING:
                raise ValueError(
                    f"finding {finding_id} has severity {entry.severity}, scope {entry.scope}, lasts {entry.lasts}"
                )
            joined[finding_id] = entry
    return joined


CATALOGUE = join_catalogues(
    (
        catalogue_access.ENTRIES,
        catalogue_bench.ENTRIES,
        catalogue_build.ENTRIES,
        catalogue_checkpoint.ENTRIES,
        catalogue_container.ENTRIES,
        catalogue_driver.ENTRIES,
        catalogue_engine.ENTRIES,
        catalogue_fabric.ENTRIES,
        catalogue_generation.ENTRIES,
        catalogue_host.ENTRIES,
        catalogue_link.ENTRIES,
        catalogue_memory.ENTRIES,
        catalogue_nccl.ENTRIES,
        catalogue_plan.ENTRIES,
        catalogue_profile.ENTRIES,
        catalogue_rails.ENTRIES,
        catalogue_serving.ENTRIES,
        catalogue_status.ENTRIES,
    )
)


def finding(finding_id: str, /, hosts: Iterable[str] = (), evidence: str = "", **values: Any) -> Finding:
    """Fill in the catalogue's entry; an unknown id or a missing value is a KeyError at once."""
    entry = CATALOGUE[finding_id]
    return Finding(
        id=finding_id,
        severity=entry.severity,
        scope=entry.scope,
        hosts=tuple(hosts),
        summary=entry.summary.format(**values),
        evidence=evidence,
        remedy=entry.remedy.format(**values),
        fixed_by=entry.fixed_by,
        source=entry.source,
    )


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, then by id and hosts, so that two runs print the same order."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.id, f.hosts, f.evidence))
