# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A crash, a wedge and a pulled cable under a pair that serves. All of it: `make faults`."""

from __future__ import annotations

from faults_tests import (  # noqa: F401 - pytest collects them from here
    test_a_cable_that_is_out_for_20_seconds,
    test_a_guard_is_small,
    test_a_worker_that_is_killed,
    test_a_worker_that_stands_still,
)
