# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run for one rank prepares it and activates nothing."""

from __future__ import annotations

import json

import pytest

from conftest import NODES, ask, shell, site

OTHER = json.dumps({"tandem_profile_overrides": {"engine": {"flags": {"max-model-len": 3500}}}})
RUNNING = """readlink /opt/tandem/current; cat /var/lib/tandem/applied
systemctl show -p InvocationID --value tandem-head tandem-worker"""


@pytest.mark.parametrize("node", NODES)
def test_a_run_for_one_rank_activates_nothing(node):
    before = [shell(each, RUNNING) for each in NODES]
    releases = shell(node, "ls /opt/tandem/releases")
    run = site("--limit", node, "-e", OTHER)
    assert run.code == 0, run.text
    assert [shell(each, RUNNING) for each in NODES] == before
    staged = set(shell(node, "ls /opt/tandem/releases").split()) - set(releases.split())
    assert len(staged) == 1
    shell(node, f"rm -r /opt/tandem/releases/{staged.pop()}")
    assert "391" in ask()
