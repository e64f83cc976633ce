# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tune.yml found as a picture: an SVG that needs no other file (controller only).

Speed over max_num_seqs, a line for each row of the matrix; what is not right is a cross at the bottom, since the
throughput of nonsense is none.
"""

from __future__ import annotations

import io
from typing import Any

from ansible_collections.tandem.spark.plugins.plugin_utils import tune_page
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import Point, Row, TuneError

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
except ImportError:
    Figure = None  # svg() says so

# Okabe and Ito: told apart by people who see colours differently.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_MARKERS = "osD^vPX"
_WRONG = "#B00020"
_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tandem",  # the same bytes for the same figures
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


def svg(found: tune_page.Found, title: str) -> bytes:
    """The picture; TuneError where the controller cannot draw."""
    if Figure is None:
        raise TuneError(
            "The controller's Python has no matplotlib, so there is no picture. Install it with "
            "`pip install --require-hashes -r requirements/report.txt`, and run again: nothing is measured twice."
        )
    with rc_context(_STYLE):
        figure = Figure(figsize=(11, 5), layout="constrained")
        left, right = figure.subplots(1, 2)
        figure.suptitle(title)
        _panel(left, found, "all streams together", many=True)
        _panel(right, found, "one stream", many=False)
        handles, labels = left.get_legend_handles_labels()
        if handles:
            figure.legend(
                handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small"
            )
        text = io.BytesIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Title": title})
    return text.getvalue()


def _panel(axes: Any, found: tune_page.Found, title: str, *, many: bool) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("max_num_seqs")
    axes.set_ylabel("tok/s")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(found.matrix.sequences))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
    for number, row in enumerate(found.matrix.rows):
        points = _right(found, row, many)
        look = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}
        axes.plot(list(points), list(points.values()), label=_label(row), **look)
    _crosses(axes, found)
    chosen = tune_page.best(found)
    if chosen and (speed := _right(found, chosen.row, many).get(chosen.max_num_seqs)):
        ring = {"s": 220, "facecolors": "none", "edgecolors": "#222222", "linewidths": 1.5, "zorder": 5}
        axes.scatter([chosen.max_num_seqs], [speed], label="chosen", **ring)
    axes.set_ylim(bottom=0)
    margin = 2**0.3
    axes.set_xlim(found.matrix.sequences[0] / margin, found.matrix.sequences[-1] * margin)


def _right(found: tune_page.Found, row: Row, many: bool) -> dict[int, float]:
    """{max_num_seqs: speed} of a row's points that are right and measured."""
    speeds = {}
    for sequences in found.matrix.sequences:
        record = found.records.get(Point(row, sequences)) or {}
        speed = tune_page.figure(record, sequences if many else 1, tune_page.SPEED)
        if record.get("outcome") == "right" and speed is not None:
            speeds[sequences] = speed
    return speeds


def _crosses(axes: Any, found: tune_page.Found) -> None:
    """One cross for each number of sequences that is not right anywhere, with how many rows it broke in."""
    broken: dict[int, int] = {}
    for point in found.matrix.points():
        if (found.records.get(point) or {}).get("outcome") in ("wrong", "refused"):
            broken[point.max_num_seqs] = broken.get(point.max_num_seqs, 0) + 1
    if not broken:
        return
    axes.scatter(
        list(broken),
        [0] * len(broken),
        marker="x",
        s=70,
        color=_WRONG,
        clip_on=False,
        zorder=6,
        label="not right",
    )
    for sequences, rows in broken.items():
        axes.annotate(
            f"{rows}x",
            (sequences, 0),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            color=_WRONG,
            fontsize="small",
        )


def _label(row: Row) -> str:
    return f"{row.mode}, {f'{row.drafted}, k={row.k}' if row.k else 'no draft'}"
