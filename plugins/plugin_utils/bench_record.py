# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of one run of the bench, and its page for the terminal (controller only)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding
from ansible_collections.tandem.spark.plugins.module_utils.quality import by_class
from ansible_collections.tandem.spark.plugins.plugin_utils import doctor
from ansible_collections.tandem.spark.plugins.plugin_utils import profile as profiles
from ansible_collections.tandem.spark.plugins.plugin_utils.bench_files import BENCH, VERSION
from ansible_collections.tandem.spark.plugins.plugin_utils.planning import PROFILES

COLUMNS = ("row", "tokens/s", "first after", "acceptance", "length", "steps/s", "ceiling", "succeeded")


def stack(statuses: Mapping[str, Mapping], looks: Mapping[str, Mapping]) -> dict[str, Any]:
    """What makes two runs comparable: the release, and what of each rank changes its figures. Unknown is null.

    statuses: for each host of a group what status_info says, the head first. looks: what node_info returned.
    """
    head = next(iter(statuses.values()), {})
    release, boot = head.get("release") or {}, head.get("boot") or {}
    serving = release.get("serving") or {}
    ranks = {}
    for host in statuses:
        node = doctor.node_of(looks.get(host) or {}) or {}
        driver = ((node.get("driver") or {}).get("driver") or {}).get("loaded")
        ranks[host] = {"kernel": node.get("kernel"), "driver": driver}
    return {
        "release": release.get("current"),
        "profile": release.get("profile"),
        "model": serving.get("model"),
        "max_num_seqs": serving.get("max_num_seqs"),
        "speculates": serving.get("speculates"),
        "engine": boot.get("version"),
        "nccl": boot.get("nccl"),
        "graphs": boot.get("graphs"),
        "ranks": ranks,
    }


def reference_of(name: str | None, own: Mapping[str, Mapping] | None) -> dict[str, Any]:
    """{name, evidence, reference, compared_with} of a profile; its own figures, or those that it names as nearest."""
    empty = {"name": name, "evidence": None, "reference": [], "compared_with": None}
    try:
        found = profiles.described(name, PROFILES, own) if name else {}
        other = found.get("compare_with") if not found.get("reference") else None
        references = profiles.described(other, PROFILES, own) if other else found
    except profiles.ProfileError:
        return empty
    return {
        **empty,
        "evidence": found.get("evidence"),
        "reference": references.get("reference") or [],
        "compared_with": other,
    }


def findings_of(looks: Mapping[str, Mapping], addresses: Mapping[str, str]) -> list[Finding]:
    """What doctor says of the nodes and of what is unequal between them."""
    found = [each for host, look in looks.items() for each in doctor.of_node(host, addresses[host], look)]
    nodes = {host: node for host, look in looks.items() if (node := doctor.node_of(look)) is not None}
    return doctor.merged([*found, *doctor.of_group(nodes)])


def record(
    *,
    group: str,
    url: str,
    bench: Mapping[str, Any],
    looks: Mapping[str, Mapping],
    addresses: Mapping[str, str],
    telemetry: Mapping[str, Mapping],
    answers: Iterable[Mapping[str, Any]],
    own_profiles: Mapping[str, Mapping] | None,
    collection: str,
) -> dict[str, Any]:
    """Everything that a report needs, as plain data. bench: what serving_bench returned.

    answers: the cases that generation_check returned for the suite of quality; none where it was not asked.
    """
    profile = (bench["stack"].get("given") or {}).get("profile")
    return {
        "version": VERSION,
        "kind": BENCH,
        "collection": collection,
        "group": group,
        "hosts": list(looks),
        "looked_at": [host for host, look in looks.items() if doctor.node_of(look) is not None],
        "at": bench["at"],
        "url": url,
        "server": bench["server"],
        "stack": bench["stack"],
        "summaries": bench["summaries"],
        "draws": bench["draws"],
        "ended": bench["ended"],
        "telemetry": {
            host: {"summary": told.get("summary"), "samples": told.get("samples") or []}
            for host, told in telemetry.items()
        },
        "quality": by_class(answers),
        "profile": reference_of(profile, own_profiles),
        "findings": [each.as_dict() for each in findings_of(looks, addresses)] + list(bench["findings"]),
    }


def page(summaries: Iterable[Mapping[str, Any]]) -> str:
    """A line for each row; ranges where draws differ."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    notes = []
    for row in summaries:
        figures = row["figures"]
        if row["void"]:
            rows.append((row["name"], "void", *[""] * (len(COLUMNS) - 3), share(row["success_rate"])))
            notes.append(f"{row['name']}: void, {row['void']}")
            continue
        prefill = row["kind"] == "prefill"
        rate = shown(figures["prefill_tokens_per_s" if prefill else "tokens_per_s"], 1)
        rows.append(
            (
                row["name"],
                f"{rate} read" if prefill else rate,
                shown(figures["ttft_s"], 2, " s"),
                *(("", "", "", "") if prefill else _of_draft(figures)),
                share(row["success_rate"]),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*table, "", *notes] if notes else table)


def _of_draft(figures: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (
        shown(figures["acceptance"], 1, " %", 100),
        shown(figures["mean_accepted_length"], 2),
        shown(figures["verify_steps_per_s"], 2),
        shown(figures["ceiling_tokens_per_s"], 1),
    )


def shown(span: Mapping[str, float] | None, digits: int, unit: str = "", factor: float = 1) -> str:
    """72.1-73.4 where draws differ, 72.8 where they do not, - where nothing is known."""
    if span is None:
        return "-"
    low, high = (f"{span[end] * factor:.{digits}f}" for end in ("low", "high"))
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


def share(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"
