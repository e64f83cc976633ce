# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios share lies two folders up, what makes the profiles one."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from hands import NODES, shell  # noqa: E402 - after the path to it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows the journal of the units, which is where the reason is."""
    report = yield
    if report.when == "call" and report.failed:
        for node in NODES:
            said = shell(node, "journalctl --no-pager -o cat -n 80 -u 'tandem-*'", check=False)
            report.sections.append((f"journal of {node}", said))
    return report
