# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint that answers nonsense never goes live, and the one that was proven comes back."""

from __future__ import annotations

import json

import pytest

from conftest import NODES, ask, shell, site, state


def last_line(node: str) -> dict:
    return json.loads(shell(node, "tail -n 1 /var/lib/tandem/history.jsonl"))


@pytest.mark.parametrize(
    ("defect", "verdict"),
    [
        ("count", "degenerate"),
        pytest.param("loop", "degenerate", marks=pytest.mark.long),
        pytest.param("wrong", "wrong", marks=pytest.mark.long),
    ],
)
def test_a_defective_checkpoint_is_refused(defect, verdict):
    before = [shell(node, "readlink /opt/tandem/current; cat /var/lib/tandem/applied") for node in NODES]
    run = site("-e", f"tandem_checkpoint_path=/srv/models/lab-{defect}")
    assert run.code != 0
    assert verdict in run.text and "is back and proved again" in run.text, run.text
    assert [
        shell(node, "readlink /opt/tandem/current; cat /var/lib/tandem/applied") for node in NODES
    ] == before
    assert {(last_line(node)["event"], last_line(node)["outcome"]) for node in NODES} == {
        ("rollback", "proven")
    }
    assert "391" in ask()


def test_a_rejected_release_is_not_tried_twice_unasked():
    before = {node: state(node) for node in NODES}
    run = site("-e", "tandem_checkpoint_path=/srv/models/lab-count")
    assert run.code != 0 and "was rejected before" in run.text and "tandem_retry_rejected=true" in run.text
    assert {node: state(node) for node in NODES} == before
