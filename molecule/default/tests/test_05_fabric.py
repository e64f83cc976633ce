# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the rails proves good or undoes itself, with the engine running on them. All of it: `make rails`."""

from __future__ import annotations

from rails_tests import (  # noqa: F401 - pytest collects them from here
    narrow,
    test_a_change_that_cuts_the_peer_off_is_undone_on_every_rank,
    test_a_change_whose_controller_went_away_is_undone_by_the_node,
    test_a_pulled_cable_is_named_and_its_rail_not_given_up,
    test_a_reboot_in_the_guarded_window_leads_back,
)

from conftest import NODES, shell, site


def test_a_pair_of_which_one_rank_was_rebooted_comes_back_by_itself():
    """The head would say that it is healthy, and not take its worker back: the guard starts both anew."""
    run = site()
    assert run.code == 0, run.text
    assert "Restarting the group" not in run.text
    history = shell(NODES[0], "grep recovery /var/lib/tandem/history.jsonl")
    assert '"recovered"' in history and "rank 1" in history
