# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank remembers of releases, and under which circumstances it counts."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import records
from ansible_collections.tandem.spark.plugins.module_utils.files import FilesError

NOW = {"driver": "580.142", "kernel": "6.17.0", "boot_options": "quiet", "boot_id": "b", "invocation_id": "i"}
OTHER_DRIVER = {**NOW, "driver": "580.159.03"}


def remember(root, outcome, digest="abc", runs_as=NOW):
    records.write(
        root, "rollout", {"digest": digest, "outcome": outcome, "reason": "why", "cases": []}, runs_as
    )


def history(root):
    return [json.loads(line) for line in (root / "var/lib/tandem/history.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("outcome", "applied", "kept", "rejected"),
    [
        ("proven", "abc\n", True, {}),
        ("rejected", None, True, {"abc": "why"}),
        ("unproven", None, False, {}),
    ],
)
def test_what_is_kept_of_an_outcome(tmp_path, outcome, applied, kept, rejected):
    remember(tmp_path, outcome)
    file = tmp_path / "var/lib/tandem/applied"
    assert (file.read_text() if file.exists() else None) == applied
    assert bool(records.read_proof(tmp_path, "abc", NOW)) == kept
    assert records.rejected(tmp_path, NOW) == rejected
    (line,) = history(tmp_path)
    assert (line["event"], line["digest"], line["outcome"], line["reason"]) == (
        "rollout",
        "abc",
        outcome,
        "why",
    )


@pytest.mark.parametrize("outcome", ["right", "wrong", "unproven"])
def test_a_trial_is_a_line_of_the_history_and_nothing_else(tmp_path, outcome):
    remember(tmp_path, "proven", digest="served")
    tried = {
        "digest": "abc",
        "outcome": outcome,
        "reason": "why",
        "seconds": {"all": 60.0},
        "cases": ["a text"],
    }
    records.note_trial(tmp_path, "tune", tried)
    line = history(tmp_path)[-1]
    assert (line["event"], line["outcome"], line["seconds"]) == (
        "tune",
        outcome,
        {"all": 60.0},
    ) and "cases" not in line
    assert (tmp_path / "var/lib/tandem/applied").read_text() == "served\n"
    assert records.read_proof(tmp_path, "abc", NOW) is None and records.rejected(tmp_path, NOW) == {}
    assert list(records.proven(tmp_path, NOW)) == ["served"]


def test_what_was_seen_with_another_driver_does_not_count(tmp_path):
    remember(tmp_path, "rejected", runs_as=OTHER_DRIVER)
    remember(tmp_path, "proven", digest="old", runs_as=OTHER_DRIVER)
    assert records.rejected(tmp_path, NOW) == {} and records.read_proof(tmp_path, "old", NOW) is None
    assert [ran["driver"] for ran in records.proven_elsewhere(tmp_path, "old", NOW)] == ["580.159.03"]
    assert records.proven_elsewhere(tmp_path, "abc", NOW) == []


def test_another_boot_of_the_same_driver_counts(tmp_path):
    remember(tmp_path, "rejected")
    assert records.rejected(tmp_path, {**NOW, "boot_id": "later", "invocation_id": None}) == {"abc": "why"}


def test_a_release_that_is_proven_at_last_is_not_rejected_any_more(tmp_path):
    remember(tmp_path, "rejected")
    remember(tmp_path, "proven")
    assert records.rejected(tmp_path, NOW) == {}
    assert [line["outcome"] for line in history(tmp_path)] == ["rejected", "proven"]


@pytest.mark.parametrize("text", ["", "{cut", "[]", "null"])
def test_a_record_that_was_cut_off_says_nothing(tmp_path, text):
    remember(tmp_path, "rejected")
    records.proof_path(tmp_path, "abc", NOW).write_text(text)
    assert records.rejected(tmp_path, NOW) == {} and records.read_proof(tmp_path, "abc", NOW) is None


def test_a_disk_that_refuses_is_said(tmp_path):
    (tmp_path / "var").write_text("a file where a folder belongs")
    with pytest.raises(FilesError):
        remember(tmp_path, "unproven")
