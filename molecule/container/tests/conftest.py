# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios share lies two folders up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from hands import shows  # noqa: E402 - after the path to it

TRACES = "docker ps -a; docker image ls -a; journalctl --no-pager -o cat -n 80 -u 'tandem-*' -u docker"

pytest_runtest_makereport = shows(TRACES)
