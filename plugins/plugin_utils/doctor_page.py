# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doctor's report as a page for people (controller only): a line for each node, then the findings, worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 96
COLUMNS = {"host": 20, "rank": 5, "kernel": 22, "driver": 11, "GiB free": 11, "GPU": 12, "rank runs": 16}
BESIDE = "Not asked here: what the model answers (playbook verify), what the link carries (playbook fabric)."


def page(report: Mapping[str, Any]) -> str:
    blocks = [_table(report["hosts"]), *(_finding(each) for each in report["findings"]), _closing(report)]
    return "\n\n".join(blocks)


def _table(hosts: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [tuple(COLUMNS), *(_row(host, each) for host, each in hosts.items())]
    rows = [tuple(_cut(cell, most) for cell, most in zip(row, COLUMNS.values(), strict=True)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _row(host: str, looked: Mapping[str, Any]) -> tuple[str, ...]:
    node = looked["node"]
    if node is None:
        return (host, "?", "unknown" if looked["reached"] else "unreachable", *["?"] * (len(COLUMNS) - 3))
    driver = (node.get("driver") or {}).get("driver") or {}
    return (
        host,
        _rank(node.get("status") or {}),
        str(node.get("kernel") or "unknown"),
        str(driver.get("loaded") or ("none" if driver.get("flavour") == "none" else "unknown")),
        _memory(node.get("memory") or {}),
        _gpu(node),
        _runs(node.get("status")),
    )


def _rank(status: Mapping[str, Any]) -> str:
    rank = status.get("rank")
    return "-" if rank is None else f"{rank}/{status.get('ranks')}"


def _memory(memory: Mapping[str, Any]) -> str:
    known = [memory.get(name) for name in ("available_gib", "total_gib")]
    return "/".join("?" if value is None else f"{value:.1f}" for value in known)


def _gpu(node: Mapping[str, Any]) -> str:
    verdicts = [each["verdict"] for each in (node.get("power") or {}).get("gpus") or ()]
    if verdicts:
        return ", ".join(dict.fromkeys(verdicts)).replace("_", " ")
    return "unknown" if (node.get("gpu") or {}).get("present") else "none"


def _runs(status: Mapping[str, Any] | None) -> str:
    if status is None:
        return "nothing yet"
    if status["proven"]:
        return "what is proven"
    return f"unit {status['unit']['active'] or 'unknown'}"


def _finding(found: Mapping[str, Any]) -> str:
    hosts = ", ".join(found["hosts"])
    lines = [f"{found['severity'].upper():<8} {found['id']}{'  ' if hosts else ''}{hosts}"]
    lines += _wrapped("  ", found["summary"])
    if found["evidence"]:
        lines += _wrapped("  seen: ", found["evidence"])
    lines += _wrapped("  do:   ", found["remedy"])
    if found["fixed_by"]:
        lines.append(f"  fixed by site.yml, role {found['fixed_by']}")
    return "\n".join(lines)


def _wrapped(label: str, text: str) -> Iterator[str]:
    """A word is never broken, so that paths and addresses can be copied."""
    indent = " " * len(label)
    yield from textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=label,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _closing(report: Mapping[str, Any]) -> str:
    hosts, counts = report["hosts"], report["counts"]
    seen = sum(each["node"] is not None for each in hosts.values())
    where = f"{seen} of {len(hosts)} node{'' if len(hosts) == 1 else 's'} could be looked at"
    if not report["findings"]:
        return f"No finding. {where[0].upper()}{where[1:]}.\n{BESIDE}"
    told = ", ".join(
        f"{count} {severity}{'' if count == 1 or severity == 'info' else 's'}"
        for severity, count in counts.items()
    )
    fixed = sum(bool(each["fixed_by"]) for each in report["findings"])
    fixing = f" site.yml fixes {fixed} of them." if fixed else ""
    return f"{told}; {where}.{fixing}\n{BESIDE}"
