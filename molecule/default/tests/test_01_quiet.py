# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second run changes nothing: no file, no link, no start of a unit; and it is short."""

from __future__ import annotations

from conftest import MOST_PAYLOADS, NODES, site, state


def test_a_second_run_is_quiet():
    before = {node: state(node) for node in NODES}
    run = site()
    assert run.code == 0, run.text
    assert run.changed == dict.fromkeys(NODES, 0), run.text
    assert {node: state(node) for node in NODES} == before
    assert set(run.payloads) == set(NODES)
    assert max(run.payloads.values()) <= MOST_PAYLOADS, run.payloads
    print(f"\nno-change run: {run.seconds:.1f} s with one generation, module payloads {run.payloads}")


def test_check_mode_is_quiet_too():
    before = {node: state(node) for node in NODES}
    run = site("--check", "--diff")
    assert run.code == 0, run.text
    assert run.changed == dict.fromkeys(NODES, 0), run.text
    assert {node: state(node) for node in NODES} == before
