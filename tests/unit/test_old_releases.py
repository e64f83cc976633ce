# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Old releases and environments go, and never what runs, is a way back or was written lately."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import old_releases


def release(root, number, runtime, proven=None):
    """Releases r1, r2, … in the order they were written; proven: the minute of its proof."""
    folder = root / f"opt/tandem/releases/r{number}"
    folder.mkdir(parents=True)
    (root / "opt/tandem/runtime" / runtime / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "runtime").symlink_to(f"/opt/tandem/runtime/{runtime}")
    os.utime(folder, (number, number))
    if proven is not None:
        path = root / f"var/lib/tandem/proofs/r{number}.0123abcd.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"digest": f"r{number}", "outcome": "proven", "at": f"2026-11-30T00:{proven:02}:00Z"}
        path.write_text(json.dumps(record))


def in_force(root, current, applied):
    (root / "opt/tandem/current").symlink_to(f"releases/{current}")
    (root / "var/lib/tandem").mkdir(parents=True, exist_ok=True)
    (root / "var/lib/tandem/applied").write_text(f"{applied}\n")


def left(root):
    return sorted(path.name for path in (root / "opt/tandem").glob("r*/*"))


@pytest.fixture
def node(tmp_path):
    """Twelve releases: r1 runs, r2 was proven last; r3 to r6 are older proofs, r7 and r8 of others; all in e1 or e2."""
    for number in range(1, 13):
        release(tmp_path, number, "e2" if number == 7 else "e1", proven={2: 50, 7: 1}.get(number))
    for number, minute in ((3, 40), (4, 30), (5, 20), (6, 10)):
        (tmp_path / f"var/lib/tandem/proofs/r{number}.89ab0123.json").write_text(
            json.dumps({"digest": f"r{number}", "outcome": "proven", "at": f"2026-11-30T00:{minute}:00Z"})
        )
    in_force(tmp_path, "r1", "r2")
    return tmp_path


def test_the_ways_back_and_the_newest_stay(node):
    removed, troubles = old_releases.prune(node)
    assert troubles == []
    assert sorted(removed) == ["releases/r6", "releases/r7", "releases/r8", "runtime/e2"]
    assert left(node) == ["e1", "r1", "r10", "r11", "r12", "r2", "r3", "r4", "r5", "r9"]
    assert old_releases.prune(node) == ([], [])


def test_nothing_goes_where_a_release_that_stays_does_not_say_what_it_runs_in(node):
    (node / "opt/tandem/releases/r12/runtime").unlink()
    before = left(node)
    removed, (trouble,) = old_releases.prune(node)
    assert removed == [] and "r12/runtime is no link" in trouble
    assert left(node) == before


def test_records_that_are_broken_and_links_that_are_no_folders_are_left(node):
    (node / "var/lib/tandem/proofs/r3.0.json").write_text("{")
    (node / "opt/tandem/runtime/.e3").mkdir()  # an installer at work
    (node / "opt/tandem/runtime/mine").symlink_to("/srv")
    removed, troubles = old_releases.prune(node)
    assert troubles == [] and "runtime/e2" in removed
    assert (node / "opt/tandem/runtime/.e3").is_dir() and (node / "opt/tandem/runtime/mine").is_symlink()


def test_what_cannot_be_removed_is_told_and_the_rest_goes(node, monkeypatch):
    real = old_releases.shutil.rmtree

    def rmtree(path):
        if path.name == "r6":
            raise PermissionError(1, "Operation not permitted", str(path))
        real(path)

    monkeypatch.setattr(old_releases.shutil, "rmtree", rmtree)
    removed, (trouble,) = old_releases.prune(node)
    assert "releases/r7" in removed and "r6 could not be removed: Operation not permitted" in trouble


def test_a_node_without_releases(tmp_path):
    assert old_releases.prune(tmp_path) == ([], [])
