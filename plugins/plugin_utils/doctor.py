# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From looks at the nodes to one report: what is wrong on each, what is unequal between them (controller only)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils import driver_judgement, firmware, loaded_nccl
from ansible_collections.tandem.spark.plugins.module_utils.findings import (
    SEVERITIES,
    Finding,
    finding,
    worst_first,
)

VERSION = 1  # of the report's shape
UNEQUAL_GIB = 2.0  # kernels and reservations of one machine differ by less
UNEQUAL_CLOCKS = 1.25
WORKING = ("memory_bound", "compute_bound", "working", "stuck", "capped", "throttled", "unknown")
# A connection was taken, and nothing came of it: the kernel answers, and no program does.
SILENT = re.compile(r"(?i)(?:timed out|timeout).*\bbanner\b|\bbanner\b.*(?:timed out|timeout)")
Look = Mapping[str, Any]  # what node_info returned, or why it could not


def node_of(look: Look) -> Mapping[str, Any] | None:
    node = look.get("node")
    return node if isinstance(node, Mapping) else None


def of_node(host: str, address: str, look: Look) -> list[Finding]:
    """Everything that was found on one node, with its name; that it could not be looked at is one of them."""
    if node_of(look) is not None:
        return [_from_dict(each, host) for each in look.get("findings") or ()]
    lines = str(look.get("msg") or "it gave no answer").strip().splitlines() or ["it gave no answer"]
    why = re.sub(r"^(Task failed: )?(Data could not be sent .* over ssh: )?", "", lines[0].strip()).rstrip(
        "."
    )
    if look.get("unreachable"):
        said = "; ".join(line.strip() for line in lines[1:4])
        if SILENT.search("\n".join(lines)):
            return [finding("host.node.stuck", [host], said, why=why)]
        return [finding("host.node.unreachable", [host], said, why=why, address=address)]
    evidence = str(look.get("module_stderr") or look.get("exception") or "").strip().splitlines()[-1:]
    return [finding("host.node.failed", [host], "".join(evidence), why=why, host=host)]


def _from_dict(found: Mapping[str, Any], host: str) -> Finding:
    values = {name: found.get(name) for name in Finding.__dataclass_fields__}
    return Finding(**{**values, "hosts": (host,)})


def of_group(nodes: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """What is not equal on the ranks of one group; `nodes` are those that could be looked at."""

    def parts(name: str) -> dict[str, Any]:
        return {host: node[name] for host, node in nodes.items() if node.get(name)}

    notes = driver_judgement.compare(parts("driver"))
    notes += firmware.compare(parts("firmware"))
    notes += _memory(parts("memory"))
    notes += _clocks(parts("power"))
    notes += unequal_releases(parts("status"))
    processes = {host: _ours(each["processes"]) for host, each in parts("nccl").items()}
    if all(processes.values()):
        notes += loaded_nccl.differences(processes)
    return notes


def _ours(processes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in processes if str(each.get("unit")).startswith("tandem-")]


def _memory(seen: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    totals = {host: each["total_gib"] for host, each in seen.items() if each["total_gib"] is not None}
    if len(totals) < 2 or max(totals.values()) - min(totals.values()) < UNEQUAL_GIB:
        return []
    told = ", ".join(f"{host} {total} GiB" for host, total in totals.items())
    return [finding("memory.host.unequal", totals, totals=told)]


def _clocks(seen: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Only GPUs that work are compared: an idle one is slow and well."""
    clocks = {
        host: min(working)
        for host, each in seen.items()
        if (
            working := [
                gpu["clock_mhz"] for gpu in each["gpus"] if gpu["verdict"] in WORKING and gpu["clock_mhz"]
            ]
        )
    }
    if len(clocks) < 2 or max(clocks.values()) < UNEQUAL_CLOCKS * min(clocks.values()):
        return []
    told = ", ".join(f"{host} {clock:g} MHz" for host, clock in clocks.items())
    return [finding("power.clocks.unequal", clocks, clocks=told)]


def unequal_releases(seen: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """`seen`: for each host what status_info says of it."""
    current = {host: each["release"]["current"] for host, each in seen.items()}
    if len(set(current.values())) < 2:
        return []
    told = ", ".join(f"{host} has {release or 'none'}" for host, release in current.items())
    return [finding("status.release.unequal", current, releases=told)]


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding of several nodes as one with all their names; worst first."""
    alike: dict[tuple, list[Finding]] = {}
    for each in findings:
        alike.setdefault((each.id, each.severity, each.summary, each.remedy), []).append(each)
    return worst_first(_joined(same) for same in alike.values())


def _joined(same: list[Finding]) -> Finding:
    hosts = tuple(dict.fromkeys(host for each in same for host in each.hosts))
    evidence = {each.evidence for each in same if each.evidence}
    if len(evidence) < 2:
        return replace(same[0], hosts=hosts, evidence="".join(evidence))
    told = (f"{', '.join(each.hosts)}: {each.evidence}" for each in same if each.evidence)
    return replace(same[0], hosts=hosts, evidence="; ".join(dict.fromkeys(told)))


def report(
    looks: Mapping[str, Look], findings: Iterable[Finding], at: str, collection: str
) -> dict[str, Any]:
    """The report for machines: {version, collection, at, worst, counts, hosts, findings}, plain JSON."""
    told = merged(findings)
    counts = {severity: sum(each.severity == severity for each in told) for severity in SEVERITIES}
    return {
        "version": VERSION,
        "collection": collection,
        "at": at,
        "worst": next((severity for severity, count in counts.items() if count), None),
        "counts": counts,
        "hosts": {
            host: {"reached": not look.get("unreachable"), "node": node_of(look)}
            for host, look in looks.items()
        },
        "findings": [each.as_dict() for each in told],
    }
