# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For every pytest run of the project: what was skipped was not tested, and a failure can be told once more at the end.

A run of many programs names a file in TANDEM_FAILURES and prints it last, where nobody has to search for it.
"""

from __future__ import annotations

import os

import pytest

FAILURES = os.environ.get("TANDEM_FAILURES")
LINES_TOLD = 12


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and FAILURES:
        last = report.longreprtext.splitlines()[-LINES_TOLD:]
        with open(FAILURES, "a", encoding="utf-8") as stream:
            stream.write("\n".join([f"FAILED {report.nodeid} ({report.when})", *last, ""]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("FAILED: a skipped test says nothing, so it does not pass here", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
