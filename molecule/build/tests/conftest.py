# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios share lies two folders up, what makes the machines one."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from hands import NODES, shell  # noqa: E402 - after the path to it

TRACES = """journalctl --no-pager --lines=40 --unit=tandem-build.service; cat /run/tandem-build/state.json
tail -n 30 /var/lib/tandem/build/log/*.log; df -h /var/lib/tandem/build"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the builder and its compilers said last."""
    report = yield
    if report.when == "call" and report.failed:
        for node in NODES:
            report.sections.append((f"build of {node}", shell(node, TRACES, check=False)))
    return report
