# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All faults of a pair that serves, one after the other."""

from faults_tests import *  # noqa: F403 - pytest collects the shared tests from here
