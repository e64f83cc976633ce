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

from conftest import site


def test_a_pair_of_which_one_rank_was_rebooted_is_restarted_at_once():
    """The head still says that it is healthy, and does not take its worker back."""
    run = site()
    assert run.code == 0, run.text
    assert "was started anew, and that on" in run.text
