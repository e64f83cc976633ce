# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of a bench as SVG, drawn by matplotlib (controller only). Each function gives None where it has nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator
except ImportError:
    matplotlib = None  # ChartsError says so

OURS, THEIRS, EARLIER = "#0b6e99", "#c2571a", "#8a8f98"
COLOURS = ("#0b6e99", "#7a4fa3", "#2f7d32", "#b0304a")
_SIZE = (7.2, 4.0)
_STYLE = {
    "svg.fonttype": "none",  # text stays text: smaller, and it can be searched
    "svg.hashsalt": "tandem",  # the same picture has the same bytes
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
Rows = Sequence[Mapping[str, Any]]


class ChartsError(Exception):
    """What is missing and how it is installed."""


def draw_all(record: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """{name: (title, SVG)} of all pictures that have something to show. ChartsError without matplotlib."""
    if matplotlib is None:
        raise ChartsError(
            "The controller's Python has no matplotlib, which draws the pictures of the report. Install it with "
            "`pip install --require-hashes -r requirements/report.txt`, or `pip install matplotlib`; with "
            "tandem_bench_pictures: false the report is written without pictures."
        )
    rows = [row for row in record["summaries"] if row["void"] is None]
    references = record["profile"]["reference"]
    pictures = {
        "acceptance": ("Throughput against mean accepted length", _acceptance(record, rows, references)),
        "concurrency": ("Streams at once", _concurrency(rows, references)),
        "prefill": ("Time to the first token", _prefill(rows, references)),
        "context": ("Throughput after a long prompt", _context(rows, references)),
        "positions": ("Accepted at each place of a draft", _positions(rows)),
        "earlier": ("This run beside earlier ones", _earlier(record, rows, earlier)),
        "telemetry": ("The nodes meanwhile", _telemetry(record["telemetry"])),
    }
    return {name: (title, figure) for name, (title, figure) in pictures.items() if figure is not None}


def _figure(panels: int = 1, height: float = 1.0) -> tuple[Any, Any]:
    figure = Figure(figsize=(_SIZE[0], _SIZE[1] * height), layout="constrained")
    return figure, figure.subplots(panels, 1, sharex=panels > 1)


def _svg(figure: Any) -> str:
    """The picture without a prologue, to stand inside HTML."""
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue().decode()
    return re.sub(r"^.*?(?=<svg)", "", text, flags=re.DOTALL)


def _whiskers(axes: Any, xs: Sequence[float], spans: Sequence[Mapping[str, float]], **style: Any) -> None:
    """Medians, and bars from the lowest to the highest draw."""
    middle = [span["median"] for span in spans]
    below = [span["median"] - span["low"] for span in spans]
    above = [span["high"] - span["median"] for span in spans]
    axes.errorbar(xs, middle, yerr=[below, above], capsize=4, marker="o", **style)


def _styled(draw: Any) -> Any:
    def styled(*words: Any) -> str | None:
        with matplotlib.rc_context(_STYLE):
            return draw(*words)

    return styled


@_styled
def _acceptance(record: Mapping[str, Any], rows: Rows, references: Rows) -> str | None:
    names = [row["name"] for row in rows if row["kind"] == "series"]
    points = [
        (
            names.index(each["row"]),
            each["counted"]["speculation"]["mean_accepted_length"],
            each["tokens_per_s"],
        )
        for each in record["draws"]
        if each["row"] in names
        and each["void"] is None
        and each["tokens_per_s"]
        and (each["counted"] or {}).get("speculation", {}).get("mean_accepted_length")
    ]
    theirs = [
        (each["mean_accepted_length"][0], each["tokens_per_s"][0])
        for each in references
        if each.get("mean_accepted_length") and each.get("tokens_per_s") and len(each["tokens_per_s"]) == 1
    ]
    if not points:
        return None
    figure, axes = _figure()
    for number, name in enumerate(names):
        own = [(length, rate) for place, length, rate in points if place == number]
        if own:
            colour = COLOURS[number % len(COLOURS)]
            axes.scatter(*zip(*own, strict=True), label=name, color=colour, zorder=3)
    if theirs:
        axes.scatter(*zip(*theirs, strict=True), label="reference", marker="x", s=60, color=THEIRS, zorder=3)
    steps = [
        row["figures"]["verify_steps_per_s"]["median"]
        for row in rows
        if row["kind"] == "series" and row["figures"]["verify_steps_per_s"]
    ]
    most = max(length for _name, length, _value in points)
    if steps:
        pace = sorted(steps)[len(steps) // 2]
        axes.plot(
            [0, most * 1.1],
            [0, pace * most * 1.1],
            color=EARLIER,
            linestyle="--",
            zorder=1,
            label=f"{pace:.2f} verify steps/s",
        )
    axes.set(
        xlabel="mean accepted length, tokens for each verify step",
        ylabel="tokens/s",
        xlim=(0, None),
        ylim=(0, None),
    )
    axes.legend()
    return _svg(figure)


@_styled
def _concurrency(rows: Rows, references: Rows) -> str | None:
    ours = sorted(
        (row for row in rows if row["kind"] == "concurrency" and row["figures"]["tokens_per_s"]),
        key=lambda row: row["concurrency"],
    )
    if not ours:
        return None
    figure, (together, each) = _figure(2, 1.5)
    streams = [row["concurrency"] for row in ours]
    _whiskers(
        together, streams, [row["figures"]["tokens_per_s"] for row in ours], color=OURS, label="this run"
    )
    alone = [row["figures"]["tokens_per_s_per_stream"] or row["figures"]["tokens_per_s"] for row in ours]
    _whiskers(each, streams, alone, color=OURS, label="this run")
    for series in dict.fromkeys(reference["series"] for reference in references):
        theirs = sorted(
            (reference["concurrency"], sum(reference["tokens_per_s"]) / len(reference["tokens_per_s"]))
            for reference in references
            if reference["series"] == series
            and reference.get("tokens_per_s")
            and not reference.get("prompt_tokens")
        )
        if len(theirs) > 1:
            together.plot(*zip(*theirs, strict=True), marker="x", label=series, color=THEIRS)
            each.plot(
                [number for number, _rate in theirs],
                [rate / number for number, rate in theirs],
                marker="x",
                label=series,
                color=THEIRS,
            )
    together.set(ylabel="tokens/s, all streams", ylim=(0, None))
    each.set(xlabel="streams at once", ylabel="tokens/s, one stream", ylim=(0, None))
    each.set_xscale("log", base=2)
    each.set_xticks(streams, [str(number) for number in streams])
    together.legend()
    return _svg(figure)


def _by_size(axes: Any, sizes: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _place: f"{size / 1000:g}K"))
    axes.xaxis.set_minor_locator(NullLocator())


@_styled
def _prefill(rows: Rows, references: Rows) -> str | None:
    ours = [row for row in rows if row["kind"] in ("prefill", "context") and row["figures"]["ttft_s"]]
    if not ours:
        return None
    ours.sort(key=lambda row: row["prompt_tokens"])
    figure, axes = _figure()
    sizes = [row["figures"]["prompt_tokens"]["median"] for row in ours]
    _whiskers(
        axes, sizes, [row["figures"]["ttft_s"] for row in ours], color=OURS, linestyle="-", label="this run"
    )
    theirs = [
        (each["prompt_tokens"][0], sum(each["prefill_s"]) / len(each["prefill_s"]))
        for each in references
        if each.get("prefill_s") and each.get("prompt_tokens")
    ]
    if theirs:
        axes.scatter(*zip(*theirs, strict=True), marker="x", s=60, color=THEIRS, label="reference", zorder=3)
    axes.set(xlabel="prompt, tokens", ylabel="seconds to the first token", ylim=(0, None))
    _by_size(axes, [row["prompt_tokens"] for row in ours])
    axes.legend()
    return _svg(figure)


@_styled
def _context(rows: Rows, references: Rows) -> str | None:
    ours = [row for row in rows if row["kind"] == "context" and row["figures"]["tokens_per_s"]]
    if not ours:
        return None
    figure, axes = _figure()
    sizes = [row["figures"]["prompt_tokens"]["median"] for row in ours]
    _whiskers(axes, sizes, [row["figures"]["tokens_per_s"] for row in ours], color=OURS, label="this run")
    for each in references:
        span = each.get("prompt_tokens") or []
        if len(span) == 2 and each.get("tokens_per_s"):
            axes.fill_between(
                span,
                min(each["tokens_per_s"]),
                max(each["tokens_per_s"]),
                color=THEIRS,
                alpha=0.2,
                label=f"{each['series']} ({each['source']})",
            )
    axes.set(xlabel="prompt, tokens", ylabel="tokens/s", ylim=(0, None))
    _by_size(axes, [row["prompt_tokens"] for row in ours])
    axes.legend()
    return _svg(figure)


@_styled
def _positions(rows: Rows) -> str | None:
    ours = [row for row in rows if row["kind"] == "series" and row["per_position"]]
    if not ours:
        return None
    figure, axes = _figure()
    for number, row in enumerate(ours):
        places = range(1, len(row["per_position"]) + 1)
        axes.plot(
            places,
            [100 * share for share in row["per_position"]],
            marker="o",
            label=row["name"],
            color=COLOURS[number % len(COLOURS)],
        )
    axes.set(xlabel="place in the draft", ylabel="accepted, % of drafts", ylim=(0, 105))
    axes.set_xticks(range(1, max(len(row["per_position"]) for row in ours) + 1))
    axes.legend()
    return _svg(figure)


@_styled
def _earlier(record: Mapping[str, Any], rows: Rows, earlier: Sequence[Mapping[str, Any]]) -> str | None:
    runs = [*earlier[-11:], record]
    names = [row["name"] for row in rows if row["kind"] == "series"]
    if len(runs) < 2 or not names:
        return None
    figure, axes = _figure()
    for number, name in enumerate(names):
        found = [
            (place, row["figures"]["tokens_per_s"])
            for place, run in enumerate(runs)
            for row in run["summaries"]
            if row["name"] == name and row["void"] is None and row["figures"]["tokens_per_s"]
        ]
        if found:
            places, spans = zip(*found, strict=True)
            _whiskers(axes, places, spans, label=name, color=COLOURS[number % len(COLOURS)])
    axes.set(ylabel="tokens/s", ylim=(0, None))
    axes.set_xticks(range(len(runs)), [str(run["at"])[:16].replace("T", "\n") for run in runs])
    axes.legend()
    return _svg(figure)


@_styled
def _telemetry(telemetry: Mapping[str, Mapping[str, Any]]) -> str | None:
    panels = (
        ("SM clock, MHz", lambda sample: _first(sample["gpus"], "clock_mhz")),
        ("power, W", lambda sample: _first(sample["gpus"], "power_w")),
        ("GPU used, %", lambda sample: _first(sample["gpus"], "utilization_percent")),
        ("memory left, GiB", lambda sample: sample["memory"]["available_gib"]),
    )
    hosts = {host: told["samples"] for host, told in telemetry.items() if len(told["samples"]) > 1}
    if not hosts:
        return None
    figure, all_axes = _figure(len(panels), 1.8)
    for axes, (label, reading) in zip(all_axes, panels, strict=True):
        for number, (host, samples) in enumerate(hosts.items()):
            seen = [(sample["at_s"] - samples[0]["at_s"], reading(sample)) for sample in samples]
            seen = [(at, value) for at, value in seen if value is not None]
            if seen:
                axes.plot(
                    *zip(*seen, strict=True), label=host, color=COLOURS[number % len(COLOURS)], linewidth=1
                )
        axes.set(ylabel=label, ylim=(0, None))
    all_axes[0].legend(*all_axes[-1].get_legend_handles_labels(), loc="lower right")
    all_axes[-1].set(xlabel="seconds")
    return _svg(figure)


def _first(gpus: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return gpus[0][name] if gpus else None
