# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator asks of a pair: stop, start, another release, and back; and one rank that is not as the other."""

from __future__ import annotations

import re

import pytest
from running import another_release, history, released

from conftest import NODES, UNITS, ask, lab, play, shell, site, wait_for

HEAD, WORKER = NODES


def active(node: str) -> str:
    return shell(node, f"systemctl is-active {UNITS[node]}", check=False)


def test_stop_stops_every_rank_and_says_so_once():
    run = play("playbooks/stop.yml")
    assert run.code == 0, run.text
    assert [active(node) for node in NODES] == ["inactive", "inactive"] and ask(timeout_s=5) is None
    assert {history(node)[0][::2] for node in NODES} == {("stop", "stopped")}
    assert f"Stopped: {HEAD}, {WORKER}." in run.text


def test_what_was_stopped_stays_stopped_over_a_reboot():
    lab("reboot", HEAD)
    wait_for("the guard", lambda: "held by stop" in shell(HEAD, "tandem status", check=False), 60)
    assert [active(node) for node in NODES] == ["inactive", "inactive"]


def test_start_brings_back_what_was_proven_and_proves_it():
    before = {node: released(node) for node in NODES}
    run = play("playbooks/start.yml")
    assert run.code == 0, run.text
    assert "391" in ask()
    assert {node: released(node) for node in NODES} == before
    assert {history(node)[0] for node in NODES} == {("start", before[HEAD]["applied"], "proven")}


def test_start_of_a_pair_that_serves_asks_one_question_and_restarts_nothing():
    since = {node: shell(node, f"systemctl show -p InvocationID {UNITS[node]}") for node in NODES}
    run = play("playbooks/start.yml")
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert {node: shell(node, f"systemctl show -p InvocationID {UNITS[node]}") for node in NODES} == since


def test_an_engine_that_was_changed_on_one_rank_is_named_before_a_start_and_nothing_is_stopped():
    since = {node: shell(node, f"systemctl show -p InvocationID {UNITS[node]}") for node in NODES}
    record = shell(
        WORKER, "ls -d /opt/tandem/current/runtime/lib/python3*/site-packages/jinja2-*.dist-info/RECORD"
    )
    kept = f"{record}.kept"
    shell(WORKER, f"cp -p {record} {kept} && echo jinja2/mine.py,sha256=x,1 >> {record}")
    try:
        run = play("playbooks/start.yml")
    finally:
        shell(WORKER, f"mv {kept} {record}")
    assert run.code != 0
    version = re.search(r"jinja2-([\d.]+)\.dist-info", record)[1]
    assert f"jinja2 {version} has other files on {HEAD} than on {WORKER}" in " ".join(run.text.split()), (
        run.text
    )
    assert {node: shell(node, f"systemctl show -p InvocationID {UNITS[node]}") for node in NODES} == since


@pytest.mark.long
def test_another_release_is_rolled_out_and_its_down_time_told_in_parts():
    assert site().code == 0  # what the inventory wants is what the next test goes back to
    run = play("playbooks/serve.yml", *another_release("operator"))
    assert run.code == 0, run.text
    told = re.search(
        r"Down for [\d.]+ s: stop [\d.]+ s, start [\d.]+ s, warm-up [\d.]+ s, proof [\d.]+ s, the rest [\d.]+ s",
        run.text,
    )
    assert told, run.text
    print(f"\n{told.group()}")
    # Both ranks were watched, and the warm-up told how far it was.
    for word in (f"{HEAD}: ready", f"{WORKER}: ready", f"{HEAD}: sustained: done"):
        assert word in run.text, f"no {word!r} in {run.text}"


@pytest.mark.long
def test_rollback_goes_back_to_the_release_before():
    now = released(HEAD)
    run = play("playbooks/rollback.yml")
    assert run.code == 0, run.text
    back = released(HEAD)
    assert back["current"] == back["applied"] != now["applied"] and released(WORKER) == back
    assert {history(node)[0] for node in NODES} == {("rollback", back["applied"], "proven")}
    assert "391" in ask()
    # It is the release that the inventory wants, so the next run has nothing to do.
    quiet = site()
    assert quiet.code == 0 and quiet.changed == dict.fromkeys(NODES, 0), quiet.text


def test_a_release_that_was_never_proven_is_no_way_back():
    run = play("playbooks/rollback.yml", "-e", "tandem_release=0123456789abcdef")
    assert run.code != 0
    assert "Release 0123456789abcdef was not proven" in run.text and released(HEAD)["applied"] in run.text


@pytest.mark.long
def test_one_rank_that_is_down_restarts_the_group_once_and_in_order():
    began = float(shell(HEAD, "date +%s.%N"))
    shell(WORKER, f"systemctl stop {UNITS[WORKER]}")
    run = site()
    assert run.code == 0 and f"{UNITS[WORKER]} on {WORKER} is inactive" in run.text, run.text
    steps = []
    for node in NODES:
        said = shell(
            node, f"journalctl --no-pager -o short-unix -u {UNITS[node]} _PID=1 --since @{began} | cat"
        )
        for at, word in re.findall(r"^([\d.]+) .*: (Stopped|Started) tandem", said, re.MULTILINE):
            steps.append((float(at), f"{word} {node}"))
    # The first is the stop by hand; the roll-out then finds nothing of the worker's to stop.
    assert [step for _at, step in sorted(steps)] == [
        f"Stopped {WORKER}",
        f"Stopped {HEAD}",
        f"Started {WORKER}",
        f"Started {HEAD}",
    ]
    assert "391" in ask()
