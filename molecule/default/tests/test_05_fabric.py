# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the rails proves good or undoes itself, and nobody is cut off, with the engine running on them."""

from __future__ import annotations

from rails_tests import (  # noqa: F401 - pytest collects them from here
    narrow,
    test_a_backend_that_is_not_known_is_one_finding_and_nothing_is_touched,
    test_a_change_that_cuts_the_peer_off_is_undone_on_every_rank,
    test_a_change_that_was_broken_off_is_taken_up_by_the_next_run,
    test_a_change_whose_controller_went_away_is_undone_by_the_node,
    test_a_foreign_file_is_told_backed_up_and_left,
    test_a_pulled_cable_is_named_and_its_rail_not_given_up,
    test_a_reboot_in_the_guarded_window_leads_back,
    test_rails_that_lost_their_mtu_or_address_are_repaired,
    test_the_way_to_the_node_is_never_a_rail,
    test_the_way_to_the_node_is_not_felt_to_change_with_its_rails,
)

from conftest import site


def test_a_pair_of_which_one_rank_was_rebooted_is_restarted_at_once():
    """The head still says that it is healthy, and does not take its worker back."""
    run = site()
    assert run.code == 0, run.text
    assert "was started anew, and that on" in run.text
