# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every play."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

PLAYBOOKS = sorted((Path(__file__).resolve().parents[2] / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_play_over_the_heads_outlives_a_rank_that_is_lost(path):
    """any_errors_fatal does not look at ignore_unreachable (2.21): the head fails, and a rescue has no reason to tell.

    Nor shall a group that fails end the others.
    """
    plays = yaml.safe_load(path.read_text())
    fatal = [
        play["name"] for play in plays if play.get("hosts") == "tandem_heads" and "any_errors_fatal" in play
    ]
    assert fatal == []
