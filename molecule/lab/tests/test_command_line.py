# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many nodes a lab has, and what is in them, is said once, and refused before anything is made."""

from __future__ import annotations

import image
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


@pytest.mark.parametrize(
    ("environment", "words", "found"),
    [
        (None, [], "image"),
        ("docker_image", [], "docker_image"),
        ("docker_image", ["--image", "image"], "image"),
    ],
)
def test_what_is_in_the_nodes(monkeypatch, environment, words, found):
    monkeypatch.delenv("LAB_IMAGE", raising=False)
    if environment:
        monkeypatch.setenv("LAB_IMAGE", environment)
    assert lab.parse(["up", *words]).image == found


def test_an_image_is_named_by_all_that_it_is_made_of(tmp_path):
    """One that is laid over another is made anew where either changes."""

    def recipe(name: str, packages: str) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "packages.txt").write_text(packages)
        (tmp_path / name / "customize.sh").write_text("#!/bin/sh\n")

    def both() -> str:
        return image.digest(tmp_path / "more", tmp_path / "base")

    recipe("base", "python3\n")
    recipe("more", "docker.io\n")
    first, alone = both(), image.digest(tmp_path / "base")
    recipe("base", "python3\ncurl\n")
    second = both()
    recipe("more", "podman\n")
    assert len({first, alone, second, both()}) == 4
