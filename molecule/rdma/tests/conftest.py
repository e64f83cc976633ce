# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hands of every scenario lie two folders up; here they reach virtual machines."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import hands  # noqa: E402 - after the path to it is set

hands.LAB_PROGRAM = hands.LAB_PROGRAM.with_name("vms.py")
