# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator types on a node that serves, and the two playbooks that only look and ask."""

from __future__ import annotations

import json
import time

import pytest

from conftest import NODES, UNITS, play, shell, state

HEAD, WORKER = NODES
APPLIED = "/var/lib/tandem/applied"
CACHES = "/var/cache/tandem"


def agent(node: str, words: str) -> tuple[int, str]:
    """(exit code, stdout and stderr) of `tandem WORDS`."""
    said = shell(node, f"tandem {words} 2>&1; echo $?", check=False)
    assert "Traceback" not in said, said
    text, _, code = said.rpartition("\n")
    return int(code), text


def told(node: str) -> dict:
    return json.loads(shell(node, "tandem status --json", check=False))


@pytest.fixture
def unapplied():
    """The worker does not remember what was proven last."""
    shell(WORKER, f"mv {APPLIED} {APPLIED}.aside")
    yield
    shell(WORKER, f"mv {APPLIED}.aside {APPLIED}")


@pytest.mark.parametrize("node", NODES)
def test_status_says_that_the_rank_runs_what_was_proven(node):
    before = state(node)
    began = time.monotonic()
    code, page = agent(node, "status")
    print(f"\ntandem status on {node}: {time.monotonic() - began:.1f} s with the way into the node")
    assert code == 0, page
    assert "PROVEN    this rank runs the release that was proven for this very start" in page
    assert UNITS[node] in page and "GID index 3" in page and "came up" in page
    assert state(node) == before


def test_status_for_machines_agrees_on_both_ranks():
    head, worker = told(HEAD), told(WORKER)
    assert head["proven"] and worker["proven"]
    assert head["release"]["current"] == head["release"]["applied"] == worker["release"]["current"]
    assert (head["rank"], worker["rank"]) == (0, 1) and worker["api"] is None
    assert head["api"]["health"] == 200 and head["api"]["counters"]["generation_tokens"] > 0
    assert head["boot"]["version"].startswith("0.32") and head["boot"]["kv_tokens"] > 0
    assert 0 < head["caches"]["gib"] < head["caches"]["max_gib"]


def test_status_says_what_is_not_so(unapplied):
    code, page = agent(WORKER, "status")
    assert code == 1 and "proven last: none" in page and "NOT SO" in page and "PROVEN  " not in page
    assert [found["id"] for found in told(WORKER)["findings"]] == ["status.release.not_applied"]
    run = play("playbooks/status.yml")
    assert run.code != 0 and f"error on {WORKER}: Release" in run.text, run.text


def test_status_survives_files_that_are_broken():
    shell(WORKER, "cp -a /etc/tandem/plan.json /tmp/plan.json; echo '{cut' > /etc/tandem/plan.json")
    try:
        code, page = agent(WORKER, "status")
    finally:
        shell(WORKER, "mv /tmp/plan.json /etc/tandem/plan.json")
    assert code == 1 and "unknown: no plan" in page and UNITS[WORKER] in page


def test_status_as_somebody_else_says_what_is_unknown():
    said = shell(HEAD, "setpriv --reuid=nobody --clear-groups tandem status 2>&1; echo $?", check=False)
    assert "Traceback" not in said and "cannot be looked at" in said


@pytest.mark.parametrize("words", ["", "--thinking", "--concurrency 3"])
def test_probe_reads_a_right_answer(words):
    code, page = agent(HEAD, f"probe {words}")
    assert code == 0 and "verdict   correct: " in page, page


def test_probe_on_a_worker_says_where_to_ask():
    code, said = agent(WORKER, "probe")
    assert code == 1
    assert said == (
        f"tandem probe: This node is rank 1, which has no API. Run it on {HEAD}, the head, or give --url."
    )


def test_probe_names_what_it_cannot_reach():
    code, said = agent(WORKER, "probe --url http://127.0.0.1:1 --model x")
    assert code == 1 and "tandem probe: unreachable: " in said
    code, said = agent(HEAD, "probe --model another")
    assert code == 1 and "tandem probe: unreachable: " in said and "HTTP 404" in said


def test_caches_lists_what_is_in_use_and_prune_leaves_it():
    stack = shell(HEAD, f"ls {CACHES}")
    assert "current release; applied release" in agent(HEAD, "caches")[1]
    shell(HEAD, f"mkdir {CACHES}/00000000000000aa")
    shell(HEAD, f"head -c 2000000 /dev/zero > {CACHES}/00000000000000aa/kernel")
    code, said = agent(HEAD, "caches --prune --max-gib 0 --dry-run")
    assert code == 0 and "would be removed: 00000000000000aa" in said and "larger than the bound" in said
    before = shell(HEAD, f"find {CACHES}/{stack} | wc -l")
    code, said = agent(HEAD, "caches --prune --max-gib 0")
    assert code == 0 and "removed: 00000000000000aa" in said
    assert shell(HEAD, f"ls {CACHES}") == stack and shell(HEAD, f"find {CACHES}/{stack} | wc -l") == before


def test_the_playbook_status_is_a_table_and_changes_nothing():
    before = [state(node) for node in NODES]
    run = play("playbooks/status.yml")
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert run.payloads == dict.fromkeys(NODES, 1)
    rows = [line.split() for line in run.text.splitlines() if line[:2] in ("0 ", "1 ")]
    assert [row[:3] for row in rows] == [["0", HEAD, "active"], ["1", WORKER, "active"]]
    assert [state(node) for node in NODES] == before


def test_the_playbook_status_tells_a_node_that_cannot_be_reached(tmp_path):
    lost = tmp_path / "lost.yml"
    lost.write_text(f"tandem: {{hosts: {{{WORKER}: {{ansible_host: 127.0.0.1, ansible_port: 9}}}}}}\n")
    run = play("playbooks/status.yml", "-i", str(lost))
    assert run.code != 0 and f"{WORKER} is unreachable: " in run.text, run.text
    assert f"0     {HEAD}  active" in run.text


def test_the_playbook_verify_asks_and_remembers_nothing():
    before = [state(node) for node in NODES]
    run = play("playbooks/verify.yml")
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert "PROVEN     generations read and judged" in run.text and "NEVER SHOWN on two Sparks" in run.text
    assert [state(node) for node in NODES] == before
