# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the bench beside what others measured, and beside earlier runs (controller only).

A reference is an entry of `reference` in a profile, whose figures are lists of one number, or of the lowest and the
highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What is compared in rows of each kind: the figure of a row, that of a reference, and whether less is better.
_RATE = ("tokens_per_s", "tokens_per_s", False)
_DRAFT = (("acceptance", "acceptance", False), ("mean_accepted_length", "mean_accepted_length", False))
COMPARED = {
    "series": (_RATE, *_DRAFT, ("verify_steps_per_s", "verify_steps_per_s", False)),
    "concurrency": (_RATE,),
    "prefill": (("ttft_s", "prefill_s", True),),
    "context": (_RATE, *_DRAFT),
}
SLOWER_BELOW = 0.95  # of the lowest of the other side: draws of one stack scatter by some percent
_SIZE_TOLERANCE = 0.1


def fits(row: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    """Whether a reference was measured on the same kind of work as a row."""
    sizes = reference.get("prompt_tokens") or []
    if reference["series"] == row["name"]:
        return True
    if row["kind"] == "prefill":
        return bool(reference.get("prefill_s")) and bool(sizes) and _near(row["prompt_tokens"], sizes[0])
    if row["kind"] == "context":
        return (
            len(sizes) == 2
            and not reference.get("prefill_s")
            and sizes[0] * (1 - _SIZE_TOLERANCE) <= row["prompt_tokens"] <= sizes[1] * (1 + _SIZE_TOLERANCE)
        )
    one_of_the_series = reference.get("mean_accepted_length") or reference.get("acceptance")
    return (
        row["kind"] == "concurrency"
        and not sizes
        and not one_of_the_series
        and bool(reference.get("tokens_per_s"))
        and reference["concurrency"] == row["concurrency"]
    )


def _near(one: int, other: int) -> bool:
    return abs(one - other) <= _SIZE_TOLERANCE * other


def against_references(
    rows: Iterable[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """{row, figure, ours, theirs, ratio, slower, source, method, differs} of everything that can be compared.

    ratio: of the medians, above 1 where ours is better. differs: what was not the same, in words.
    """
    found = []
    for row in rows:
        for reference in references:
            if not fits(row, reference):
                continue
            for name, theirs_name, less_is_better in COMPARED[row["kind"]]:
                ours, theirs = row["figures"].get(name), reference.get(theirs_name)
                if ours and theirs:
                    span = {"low": min(theirs), "median": sum(theirs) / len(theirs), "high": max(theirs)}
                    found.append(
                        {
                            **_compared(row["name"], name, ours, span, less_is_better),
                            "source": f"{reference['series']} ({reference['source']})",
                            "method": reference["method"],
                            "differs": differences(row, reference),
                        }
                    )
    return found


def differences(row: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """What was not the same as in the reference, in words."""
    pairs = (
        ("k", row.get("k"), reference.get("k")),
        ("max_num_seqs", row.get("max_num_seqs"), reference.get("max_num_seqs")),
        ("reasoning effort", row.get("reasoning_effort"), reference.get("reasoning_effort")),
        ("streams", row.get("concurrency"), reference.get("concurrency")),
    )
    return [
        f"{name} {ours} instead of {theirs}"
        for name, ours, theirs in pairs
        if None not in (ours, theirs) and ours != theirs
    ]


def against_earlier(rows: Iterable[Mapping[str, Any]], earlier: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same against the rows of an earlier run."""
    before = {row["name"]: row for row in earlier["summaries"] if row["void"] is None}
    found = []
    for row in rows:
        for name, _theirs, less_is_better in COMPARED[row["kind"]]:
            ours = row["figures"].get(name)
            theirs = before.get(row["name"], {}).get("figures", {}).get(name)
            if ours and theirs:
                found.append(_compared(row["name"], name, ours, theirs, less_is_better))
    return found


def _compared(
    row: str, figure: str, ours: Mapping[str, float], theirs: Mapping[str, float], less_is_better: bool
) -> dict[str, Any]:
    """slower: even our best draw is below their worst by more than draws scatter."""
    ratio = None
    if ours["median"] and theirs["median"]:
        ratio = ours["median"] / theirs["median"]
        ratio = 1 / ratio if less_is_better else ratio
    if less_is_better:
        slower = ours["low"] * SLOWER_BELOW > theirs["high"]
    else:
        slower = ours["high"] < theirs["low"] * SLOWER_BELOW
    return {
        "row": row,
        "figure": figure,
        "ours": dict(ours),
        "theirs": dict(theirs),
        "ratio": None if ratio is None else round(ratio, 3),
        "slower": slower,
    }
