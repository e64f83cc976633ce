# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard's page in a real browser: all that it tells is there, at any width, and nothing in it is run or loaded."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import guard_page
from browser import chromium, drawn

RAIL = {"netdev": "enp1s0f0np0", "address": "192.168.177.1/29", "state": "200 Gb/s"}
FACTS = {
    "release": "0123456789abcdef",
    "rails": [RAIL, RAIL],
    "gids": "rocep1s0f0 index 3",
    "memory_available_gib": 9.5,
}
TOLD = {
    "group": "tandem",
    "rank": 0,
    "hosts": ["spark-a", "spark-b"],
    "state": "ready",
    "why": "a right answer 4 s ago",
    "epoch": "1ac446e2",
    "recoveries": 2,
    "failures": 0,
    "applied": "0123456789abcdef",
    "applied_at": "2026-11-30T16:50:22Z",
    "answer": {
        "outcome": "right",
        "why": "answers 391",
        "seconds": 0.4,
        "tokens_per_s": 38.5,
        "right_age_s": 4.2,
    },
    "ranks_seen": [
        {"host": "spark-a", "unit": "active", "age_s": 0.1, "facts": FACTS},
        {"host": "spark-b", "unit": "active", "age_s": 0.7, "facts": FACTS, "hold": "<b>bob</b>"},
    ],
    "history": [
        {
            "at": "2026-11-30T16:49:04Z",
            "event": "recovery",
            "outcome": "began",
            "reason": "<script>document.title='x'</script>",
        }
    ],
}


@pytest.mark.parametrize("width", [1000, 400])
def test_a_browser_shows_all_of_it(width, tmp_path):
    _sizes, over, loaded = drawn(guard_page.page(TOLD), tmp_path, width)
    assert (over, loaded) == (0, 0)


def test_what_others_said_is_text(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(guard_page.page(TOLD))
    dom = chromium(f"--user-data-dir={tmp_path}/profile", "--dump-dom", page.as_uri())
    assert "<title>tandem: ready</title>" in dom and "<b>bob" not in dom and "spark-b" in dom
    assert "38.5 tokens/s" in dom and "2 since boot" in dom and "rocep1s0f0 index 3" in dom
