# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks of one or more groups are, as a page (controller only)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.tandem.spark.plugins.plugin_utils.doctor import unequal_releases

COLUMNS = ("rank", "host", "unit", "release", "proof", "stage", "last event")
Look = Mapping[str, Any]  # what status_info returned, or why it could not


def _no_look(look: Look) -> str:
    first = (str(look.get("msg") or "").strip() or "it was not looked at").splitlines()[0]
    return f"{'unreachable' if look.get('unreachable') else 'unknown'}: {first}"


def groups_of(looks: Mapping[str, Look]) -> dict[str, dict[str, Look]]:
    """{group: {host: look}}. A rank that could not be looked at belongs to the group whose other ranks name it."""
    told = [look["status"] for look in looks.values() if "status" in look]
    groups: dict[str, dict[str, Look]] = {}
    for host, look in looks.items():
        status = look.get("status") or next((each for each in told if host in each["hosts"]), {})
        groups.setdefault(str(status.get("group") or "unknown"), {})[host] = look
    return dict(sorted(groups.items()))


def _row(host: str, look: Look) -> tuple[str, ...]:
    status = look.get("status")
    if status is None:
        return ("?", host, "unknown", "unknown", "unknown", "unknown", "unknown")
    proof, history = status["proof"], status["history"]
    event = history[-1] if history else {}
    return (
        "?" if status["rank"] is None else str(status["rank"]),
        host,
        status["unit"]["active"] or "unknown",
        status["release"]["current"] or "none",
        f"for {proof['state']}" if proof["state"] == "this start" else proof["state"],
        status["stage"] or "unknown",
        f"{event.get('event')} {event.get('outcome')} {event.get('at')}" if event else "none",
    )


def _reasons(host: str, look: Look) -> Iterator[str]:
    status = look.get("status")
    if status is None:
        yield f"{host} is {_no_look(look)}"
        return
    for found in status["findings"]:
        yield f"{found['severity']} on {host}: {found['summary']}. {found['remedy']}."


def _releases(group: Mapping[str, Look]) -> Iterator[str]:
    for found in unequal_releases({host: look["status"] for host, look in group.items() if "status" in look}):
        yield f"{found.severity}: {found.summary}. {found.remedy}."


def status_table(looks: Mapping[str, Look]) -> str:
    """A table for each group, and below it what is not so. `looks` is {host: what status_info said}."""
    pages = []
    for name, group in groups_of(looks).items():
        rows = [COLUMNS, *(_row(host, look) for host, look in group.items())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        reasons = [reason for host, look in group.items() for reason in _reasons(host, look)]
        pages.append("\n".join([f"group {name}", *lines, *reasons, *_releases(group)]))
    return "\n\n".join(pages)


def not_as_proven(looks: Mapping[str, Look]) -> list[str]:
    """The hosts that do not run what was proven for this very start, or of which that is not known."""
    apart = [host for group in groups_of(looks).values() if any(_releases(group)) for host in group]
    return [
        host for host, look in looks.items() if host in apart or not (look.get("status") or {}).get("proven")
    ]


class FilterModule:
    def filters(self) -> dict:
        return {"status_table": status_table, "not_as_proven": not_as_proven}
