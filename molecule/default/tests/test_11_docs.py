# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of docs/validation.md that are marked as run in the lab do run there, and show something."""

from __future__ import annotations

import re

import pytest

from conftest import NODES, PROJECT, lab

TEXT = (PROJECT / "docs" / "validation.md").read_text()
COMMANDS = re.findall(r"^(\S.*?) +# \(lab\) ?(.*)$", TEXT, re.MULTILINE)
BY_HAND = re.search(r"^curl .*?\}'$", TEXT, re.MULTILINE | re.DOTALL).group()
PLACES = {"PEER": "192.168.177.2", "HEAD": "127.0.0.1"}


def on_the_head(command: str) -> str:
    for word, place in PLACES.items():
        command = re.sub(rf"\b{word}\b", place, command)
    return lab("exec", NODES[0], "--", "bash", "-c", command)


def test_there_are_such_commands():
    assert len(COMMANDS) >= 17


@pytest.mark.parametrize(
    ("command", "shown"), [each for each in COMMANDS if not each[0].startswith("ansible-playbook ")]
)
def test_a_command_of_the_page_runs_and_shows_something(command, shown):
    assert on_the_head(command).strip() or shown.startswith("perhaps nothing")


def test_the_question_by_hand_is_answered():
    assert "391" in on_the_head(BY_HAND)
