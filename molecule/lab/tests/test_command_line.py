# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many nodes a lab has is said once, and refused before anything is made."""

from __future__ import annotations

import lab
import pytest


@pytest.mark.parametrize(
    ("environment", "words", "nodes"),
    [(None, [], 2), ("4", [], 4), ("4", ["--nodes", "1"], 1), (None, ["--nodes", "2"], 2)],
)
def test_how_many_nodes(monkeypatch, environment, words, nodes):
    monkeypatch.delenv("LAB_NODES", raising=False)
    if environment:
        monkeypatch.setenv("LAB_NODES", environment)
    assert lab.parse(["up", *words]).nodes == nodes


@pytest.mark.parametrize(
    ("environment", "words"),
    [("0", []), ("5", []), ("two", []), ("", []), ("2", ["--nodes", "-1"]), ("²", [])],
)
def test_a_number_that_no_lab_has(monkeypatch, capsys, environment, words):
    monkeypatch.setenv("LAB_NODES", environment)
    with pytest.raises(SystemExit):
        lab.parse(["up", *words])
    assert "wanted 1 to 4" in capsys.readouterr().err or words
