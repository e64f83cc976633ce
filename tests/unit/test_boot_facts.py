# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A start that came up with less than it should have is told from one that did not."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.boot_facts import compare

BOOT = {
    "version": "0.33.0",
    "model_gib": 79.17,
    "kv_gib": 10.0,
    "kv_tokens": 1_400_000,
    "max_concurrency": 1.4,
    "nccl": "2.30.7",
    "draft_loaded": True,
    "graphs": {"seconds": 30.0, "gib": 1.6},
}


def ids(boot, expected=None, last=None):
    return [found.id for found in compare("spark-a", {**BOOT, **boot}, expected or {}, last)]


def test_a_start_like_the_last_one_is_not_worth_a_word():
    assert ids({"graphs": {"seconds": 44.0, "gib": 1.7}}, {"model_gib": 79, "graphs": True}, BOOT) == []


@pytest.mark.parametrize(
    ("boot", "count"),
    [
        ({"model_gib": 160.0}, 1),  # not the quantised weights
        ({"model_gib": 60.0}, 1),
        ({"kv_gib": 9.8, "kv_tokens": 1_372_000}, 0),
        ({"kv_gib": 6.0, "kv_tokens": 840_000, "max_concurrency": 0.84}, 3),
        ({"kv_gib": 12.0, "kv_tokens": 1_680_000, "max_concurrency": 1.7}, 0),
    ],
)
def test_measures_are_compared_with_the_last_start_and_with_the_profile(boot, count):
    assert ids(boot, last=BOOT) == ["engine.boot.measure"] * count
    assert ids(boot, expected=BOOT) == ["engine.boot.measure"] * count


def test_what_is_told_names_found_wanted_and_by_whom():
    (found,) = compare("spark-b", {**BOOT, "kv_gib": 5.0}, {"kv_gib": 10.0}, None)
    assert found.summary == "The KV cache takes 5 GiB (-50%), the profile expects 10" and found.hosts == (
        "spark-b",
    )


@pytest.mark.parametrize(
    ("boot", "expected", "said"),
    [
        ({"draft_loaded": False}, {"draft_loaded": True}, "with none, the profile expects a draft model"),
        ({}, {"draft_loaded": False}, "with a draft model, the profile expects none"),
        ({"graphs": None}, {"graphs": True}, "with none, the profile expects CUDA graphs"),
    ],
)
def test_a_draft_or_graphs_that_are_missing_are_told(boot, expected, said):
    (found,) = compare("spark-a", {**BOOT, **boot}, expected, None)
    assert found.id == "engine.boot.part" and said in found.summary


def test_another_nccl_than_last_time_is_told():
    assert ids({"nccl": "2.28.9"}, last=BOOT) == ["engine.boot.version"]


@pytest.mark.parametrize("last", [None, {}, {"kv_tokens": None, "nccl": None}])
def test_what_was_not_known_is_not_compared(last):
    assert ids({}, last=last) == []


def test_a_journal_that_is_gone_compares_with_nothing():
    assert compare("spark-a", {"kv_gib": None, "graphs": None}, {"graphs": True}, BOOT) == []
