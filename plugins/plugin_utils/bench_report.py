# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the bench as a page for people: one HTML file with its pictures in it, and Markdown (controller only)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.tandem.spark.plugins.plugin_utils import (
    bench_charts,
    bench_compare,
    bench_evidence,
    bench_files,
    bench_record,
)

TEMPLATES = Path(__file__).parents[2] / "roles" / "bench" / "templates"
UNITS = {
    "tokens_per_s": ("tokens/s", 1, 1),
    "acceptance": ("acceptance, %", 1, 100),
    "mean_accepted_length": ("mean accepted length", 2, 1),
    "verify_steps_per_s": ("verify steps/s", 2, 1),
    "ttft_s": ("seconds to the first token", 2, 1),
}


class ReportError(Exception):
    """What was found, what was wanted and what to do."""


def newest(records: Sequence[Mapping[str, Any]], folder: str, group: str) -> Mapping[str, Any]:
    runs = [each for each in records if each["kind"] == bench_files.BENCH]
    if not runs:
        raise ReportError(
            f"There is no run of the group {group} in {bench_files.expanded(folder)}. Run bench.yml first, or set "
            "tandem_bench_folder to where its runs are."
        )
    return runs[-1]


def files(
    folder: str, group: str, pictures: bool, run: str | None = None
) -> tuple[dict[Path, bytes], Mapping[str, Any], list[str]]:
    """(what to write, what the report says, what was left out). ReportError, ChartsError.

    run: the name of the file that the report is about; by default the newest.
    """
    records, left_out = bench_files.read_all(folder, group)
    record = newest(records, folder, group)
    if run is not None:
        named = [
            each for each in records if each["file"] == Path(run).name and each["kind"] == bench_files.BENCH
        ]
        if not named:
            known = ", ".join(each["file"] for each in records if each["kind"] == bench_files.BENCH)
            raise ReportError(f"There is no run {run} of the group {group}; there are {known}.")
        record = named[0]
    told = content(record, records)
    drawn = bench_charts.draw_all(record, told["earlier"]) if pictures else {}
    root, stem = bench_files.expanded(folder), Path(record["file"]).stem
    shown = [
        {"name": name, "title": title, "svg": svg, "file": f"{stem}-{name}.svg"}
        for name, (title, svg) in drawn.items()
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"span": bench_record.shown, "share": bench_record.share, "cell": cell}
    written = {
        root / f"{stem}.{kind}": environment.get_template(f"report.{kind}.j2")
        .render(**told, pictures=shown)
        .encode()
        for kind in ("html", "md")
    }
    written |= {root / each["file"]: each["svg"].encode() for each in shown}
    return written, told, left_out


def cell(value: object) -> str:
    """A text as a cell of a Markdown table, in which nothing of it is markup."""
    text = " ".join(str(value).split())
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, f"\\{sign}")
    return text


def content(record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Everything that a page of the run says."""
    runs = [each for each in records if each["kind"] == bench_files.BENCH]
    earlier = [each for each in runs if each["at"] < record["at"]]
    limit = (record["stack"].get("given") or {}).get("max_num_seqs")
    rows = [{**row, "max_num_seqs": limit} for row in record["summaries"] if row["void"] is None]
    theirs = bench_compare.against_references(rows, record["profile"]["reference"])
    before = bench_compare.against_earlier(rows, earlier[-1]) if earlier else []
    evaluations = [each for each in records if each["kind"] == bench_files.EVALUATION]
    release = (record["stack"].get("given") or {}).get("release")
    same = [each for each in evaluations if release and each["stack"].get("release") == release]
    return {
        "record": record,
        "earlier": earlier,
        "against_reference": [_labelled(each) for each in theirs],
        "against_earlier": [_labelled(each) for each in before],
        "why": bench_evidence.evidence(record, [*theirs, *before]),
        "evaluations": (same or evaluations)[-3:],
        "same_stack": bool(same),
        "quality": record.get("quality"),
        "samples_of_text": _texts(record),
    }


def _labelled(compared: Mapping[str, Any]) -> dict[str, Any]:
    unit, digits, factor = UNITS[compared["figure"]]
    return {
        **compared,
        "unit": unit,
        "ours_shown": bench_record.shown(compared["ours"], digits, "", factor),
        "theirs_shown": bench_record.shown(compared["theirs"], digits, "", factor),
    }


def _texts(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """The beginning of the first text of each series: a rate alone proves nothing."""
    seen: dict[str, dict[str, str]] = {}
    for drawn in record["draws"]:
        kinds = {row["name"]: row["kind"] for row in record["summaries"]}
        if kinds.get(drawn["row"]) == "series" and drawn["row"] not in seen and drawn["streams"]:
            stream = drawn["streams"][0]
            said = (stream["text"] or stream["reasoning"]).strip()
            seen[drawn["row"]] = {"row": drawn["row"], "verdict": stream["verdict"], "text": said[:400]}
    return list(seen.values())
