# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may decide over a node's memory beside the engine is put away where that is asked, and given back."""

from __future__ import annotations

import pytest

from conftest import NODES, shell, site

KILLER = "/etc/systemd/system/earlyoom.service"
STUB = f"printf '[Service]\\nExecStart=/usr/bin/sleep infinity\\n' > {KILLER} && systemctl daemon-reload"
START = "systemctl start earlyoom.service; systemctl is-active earlyoom.service"


@pytest.fixture
def killer():
    """A unit by the name of one that ends processes early, on every node."""
    for node in NODES:
        shell(node, STUB)
    yield
    for node in NODES:
        shell(node, f"systemctl stop earlyoom.service; rm {KILLER}; systemctl daemon-reload")


def started() -> list[str]:
    return [shell(node, START, check=False).split()[-1] for node in NODES]


def test_who_ends_processes_early_is_put_away_and_given_back(killer):
    off = ("--tags", "memory", "-e", "tandem_memory_killer=off")
    assert started() == ["active", "active"]
    run = site(*off)
    assert run.code == 0, run.text
    assert [shell(node, "systemctl is-active earlyoom", check=False) for node in NODES] == ["inactive"] * 2
    assert started() == ["inactive", "inactive"]
    assert site(*off).changed == dict.fromkeys(NODES, 0)
    back = site("--tags", "memory")
    assert back.code == 0 and min(back.changed.values()) > 0, back.text
    assert started() == ["active", "active"]
    assert site("--tags", "memory").changed == dict.fromkeys(NODES, 0)
