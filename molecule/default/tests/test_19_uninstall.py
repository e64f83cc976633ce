# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uninstall.yml leaves each node as the factory did: files, packages, accounts, units, network. It comes last."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import pytest

from conftest import NODES, play, shell, state

sys.path.insert(0, str(Path(__file__).parents[1]))

from factory import kept, picture  # after the path to it is set

HEAD, WORKER = NODES
ALLOWED = ("-e", "tandem_uninstall=allowed")
# As after somebody who lost patience: half of it is gone by hand, and a unit's file with it.
HALF = """systemctl stop tandem-guard; rm -rf /opt/tandem/bin /opt/tandem/releases /etc/tandem/plan.json
rm -f /etc/systemd/system/tandem-guard.service"""

pytestmark = pytest.mark.long


def uninstall(*words):
    return play("playbooks/uninstall.yml", *words)


def test_without_consent_it_shows_what_would_go_and_touches_nothing():
    before = {node: state(node) for node in NODES}
    for words, code in (((), 2), (("--check", "--diff"), 0)):
        run = uninstall(*words)
        assert run.code == code, run.text
        for word in (
            "tandem-guard.service",
            "/opt/tandem",
            "account  tandem",
            "90-tandem",
            "/srv/models/lab",
        ):
            assert word in run.text, f"no {word!r} in {run.text}"
    assert {node: state(node) for node in NODES} == before


def test_a_node_of_which_half_is_missing_ends_as_well_as_a_whole_one():
    shell(WORKER, HALF)
    run = uninstall(*ALLOWED)
    assert run.code == 0 and min(run.changed.values()) > 0, run.text


@pytest.mark.parametrize(
    "subject", ["files", "packages", "marks", "accounts", "units", "services", "swap", "network"]
)
@pytest.mark.parametrize("node", NODES)
def test_the_node_is_as_it_came_from_the_factory(node, subject):
    before, after = kept(node)[subject], picture(node)[subject]
    assert len(before) > (0 if subject == "swap" else 3)
    different = [*unified_diff(before, after, "factory", "now", n=0, lineterm="")]
    assert different == [], "\n".join(different[:80])


def test_no_process_of_ours_is_left():
    for node in NODES:
        left = shell(
            node, "ps -eo pid,args | grep -E '/opt/tandem|/var/cache/tandem|VLLM' | grep -v grep", check=False
        )
        assert left == "", left


def test_a_second_time_is_quiet():
    run = uninstall()
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert run.text.count("nothing of this collection is left") == len(NODES)
