# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about what the served model says."""

from __future__ import annotations

from .catalogue import Entry

FIELD = "field reports of two-Spark owners"

ENTRIES = {
    "generation.unreachable": Entry(
        "error",
        "group",
        "{count} of {asked} questions could not be asked at {url}",
        "Look at the engine with `systemctl status tandem-head` and `journalctl -u tandem-head -n 50` on the head. "
        "For 401 check api_key, for 404 check url and the served model name (`curl {url}/v1/models`)",
    ),
    "generation.degenerate": Entry(
        "error",
        "group",
        "{count} of {asked} generations are degenerate text",
        "Do not serve this release. If it happens at concurrency only, try eager mode or max_num_seqs 2; "
        "otherwise compare engine, draft method and driver with the last release that was proven",
        source=FIELD,
    ),
    "generation.wrong": Entry(
        "error",
        "group",
        "{count} of {asked} generations are wrong",
        "Ask once more, one at a time (concurrency 1): wrong answers at concurrency alone point at the engine's "
        "batching, wrong answers one by one at the checkpoint or its quantisation",
        source=FIELD,
    ),
    "generation.crossed": Entry(
        "error",
        "group",
        "A stream gave the answer to another stream's question",
        "Do not serve this release: requests are mixed up. Try max_num_seqs 1, eager mode, or another engine release",
        source="eugr/spark-vllm-docker#281",
    ),
    "generation.inconclusive": Entry(
        "warning",
        "group",
        "{count} of {asked} generations ended before an answer",
        "Raise request_timeout or max_tokens, or ask with thinking off. If no token comes at all the engine is wedged: "
        "see `journalctl -u tandem-head -n 50` on the head",
    ),
    "generation.glitch": Entry(
        "warning",
        "group",
        "{count} of {asked} generations have a flaw in a usable answer",
        "Watch it: single stray fragments were seen on healthy engines, growing numbers were not",
        source="vllm-project/vllm-ascend#13615",
    ),
}
