# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml stops on what nothing in it mends, says who mends the rest, and sees to it that it is gone."""

from __future__ import annotations

import pytest

from conftest import NODES, shell, site, state

HEAD, WORKER = NODES[0], NODES[-1]
LEFT_OVER = "tandem-test-left-over.service"
# A process by the name of an engine's, whose server is gone: init is its parent.
START = f"systemd-run --quiet --unit={LEFT_OVER} bash -c 'exec -a VLLM::EngineCore sleep 900'"


@pytest.fixture
def left_over():
    shell(WORKER, START)
    yield
    shell(WORKER, f"systemctl stop {LEFT_OVER}")


def test_what_nothing_mends_stops_the_run_before_anything_is_touched(left_over):
    before = {node: state(node) for node in NODES}
    run = site()
    assert run.code != 0
    assert "Nothing was touched" in run.text and "memory.gpu.orphan" in run.text, run.text
    assert {node: state(node) for node in NODES} == before


def test_what_a_role_mends_is_told_and_gone_at_the_end():
    shell(WORKER, "rm /etc/tandem/plan.json")
    run = site("--check")
    assert run.code == 0 and "would be fixed by fabric: ERROR status.plan.none" in run.text, run.text
    run = site()
    assert run.code == 0, run.text
    assert "will be fixed by fabric: ERROR status.plan.none" in run.text, run.text
    assert "was to mend" not in run.text
    quiet = site()
    assert quiet.code == 0 and "will be fixed" not in quiet.text, quiet.text
    assert quiet.changed == dict.fromkeys(NODES, 0)
