# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a start measured, beside what the profile expects and what the start before it measured.

A start that came up with less than it should have still answers; only its figures tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .findings import Finding, finding

Boot = Mapping[str, Any]  # what engine_log_info returns of one rank

# Name -> (words, unit, how much less is worth a word, how much more is). Free memory differs a little at each start.
MEASURES = {
    "model_gib": ("The weights take", "GiB", 0.02, 0.02),
    "kv_gib": ("The KV cache takes", "GiB", 0.05, None),
    "kv_tokens": ("The KV cache holds", "tokens", 0.05, None),
    "max_concurrency": ("The KV cache holds requests of full length:", "at once", 0.05, None),
}
PARTS = {"draft_loaded": "draft model", "graphs": "CUDA graphs"}


def _measures(host: str, boot: Boot, than: Boot, whose: str) -> Iterator[Finding]:
    for name, (words, unit, less, more) in MEASURES.items():
        found, wanted = boot.get(name), than.get(name)
        if found is None or not wanted:
            continue
        share = found / wanted - 1
        if share < -less or (more is not None and share > more):
            values = {"words": words, "found": f"{found:g} {unit}", "wanted": f"{wanted:g}", "whose": whose}
            yield finding("engine.boot.measure", (host,), percent=f"{share:+.0%}", **values)


def _parts(host: str, boot: Boot, than: Boot, whose: str) -> Iterator[Finding]:
    for name, words in PARTS.items():
        if name in than and bool(boot.get(name)) != bool(than[name]):
            has, had = (("a " if name == "draft_loaded" else "") + words, "none")
            found, wanted = (has, had) if boot.get(name) else (had, has)
            yield finding("engine.boot.part", (host,), found=found, wanted=wanted, whose=whose)


def compare(host: str, boot: Boot, expected: Boot, last: Boot | None) -> list[Finding]:
    """Where one rank's start differs from the profile's expectation and from its last proven start.

    expected: any of the names of MEASURES and PARTS. What a log does not say is not compared.
    """
    if not boot.get("kv_gib"):
        return []  # the log is gone, or this start never came that far
    found = [
        *_measures(host, boot, expected, "the profile expects"),
        *_parts(host, boot, expected, "the profile expects"),
    ]
    if last:
        before = "the last proven start had"
        found += _measures(host, boot, last, before)
        found += _parts(host, boot, {name: last.get(name) for name in PARTS if name in last}, before)
        for name, words in (("nccl", "NCCL"), ("version", "vLLM")):
            if boot.get(name) and last.get(name) and boot[name] != last[name]:
                found.append(
                    finding("engine.boot.version", (host,), what=words, found=boot[name], before=last[name])
                )
    return found
