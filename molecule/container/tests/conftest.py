# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios share lies two folders up."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from hands import NODES, shell  # noqa: E402 - after the path to it

TRACES = "docker ps -a; docker image ls -a; journalctl --no-pager -o cat -n 80 -u 'tandem-*' -u docker"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what Docker has, and the journals, which is where the reason is."""
    report = yield
    if report.when == "call" and report.failed:
        for node in NODES:
            report.sections.append((f"traces of {node}", shell(node, TRACES, check=False)))
    return report
