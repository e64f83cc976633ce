# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands and eyes of the tests: the lab's own commands, and site.yml as a user runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
pytest.register_assert_rewrite("rails_tests", "faults_tests")

from hands import (  # noqa: E402, F401 - after the path to it; handed on to the tests
    API,
    INVENTORY,
    JOURNALS,
    LAB_PROGRAM,
    NODES,
    PROJECT,
    Run,
    ansible,
    ask,
    lab,
    play,
    shell,
    shows,
    wait_for,
)

UNITS = {"spark-a": "tandem-head.service", "spark-b": "tandem-worker.service"}
MOST_PAYLOADS = 30  # docs/design.md, section 7
# What a run of site.yml could change: every file that is not the engine's own or a log, with its content's traces.
STATE = r"""
find /etc /opt/tandem /usr/local /var/lib/tandem /run/tandem /run/netplan /run/systemd/network \
     -path /opt/tandem/runtime -prune -o -name __pycache__ -prune -o -name '*guard.json*' -prune \
     -o ! -type d -printf '%p %T@ %s %m %u %l\n' 2>/dev/null | sort
ls -d /opt/tandem/runtime/*
ip -br addr; ip -o link | sed 's/qlen.*//'
systemctl show -p Id,InvocationID,ActiveEnterTimestampMonotonic tandem-head tandem-worker tandem-guard systemd-networkd
"""


def state(node: str) -> str:
    """Everything about a node that a run could change, as text."""
    return shell(node, STATE, check=False)


def site(*words: str) -> Run:
    """Runs site.yml as a user does, with the payloads counted."""
    return play("site.yml", *words)


pytest_runtest_makereport = shows(JOURNALS)
