# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""start.yml and rollback.yml over two pretend nodes: engines that differ are named, and nothing is stopped."""

from __future__ import annotations

import pretend_tune as pretend
import pytest

EARLIER = "fedcba9876543210"
ENGINE = {
    "installed": True,
    "path": "/opt/tandem/runtime/x",
    "fingerprint": "f" * 64,
    "packages": {"torch": "2.14.0", "vllm": "0.33.0"},
    "files": {"torch": "a", "vllm": "b"},
    "changed_since": [],
}
CHANGED = {
    **ENGINE,
    "fingerprint": "0" * 64,
    "packages": {"torch": "2.13.0", "vllm": "0.33.0"},
    "files": {"torch": "c", "vllm": "d"},
    "changed_since": ["torch is 2.14.0 on the day it was installed and 2.13.0 on this one"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(what Ansible said in one line, what the pretended pair is like then) of one run of a playbook."""
    pairs = {name: pretend.Pair(tmp_path_factory.mktemp(name), name, {}) for name in ("start", "rollback")}

    def once(playbook, code, **state):
        pair = pairs[playbook]
        pair.set(proven=[pretend.PROVEN, EARLIER], **state)
        done = pair.run()
        assert (done.returncode == 0) == (code == 0), done.stdout + done.stderr
        return " ".join(done.stdout.split()), pair.state

    return once


@pytest.mark.parametrize(
    ("playbook", "worker", "told"),
    [
        (
            "start",
            CHANGED,
            "The ranks do not have the same engine: torch is 2.14.0 on spark-a and 2.13.0 on spark-b; "
            "vllm 0.33.0 has other files on spark-a than on spark-b; spark-b is not as it was installed "
            "(torch is 2.14.0 on the day it was installed and 2.13.0 on this one). Nothing was stopped.",
        ),
        pytest.param(
            "rollback", CHANGED, "torch is 2.14.0 on spark-a and 2.13.0 on spark-b", marks=pytest.mark.long
        ),
        (
            "start",
            {"installed": False, "path": "/opt/tandem/runtime/y"},
            "spark-b has no engine in /opt/tandem/runtime/y. Nothing was stopped.",
        ),
    ],
)
def test_engines_that_differ_are_named_and_nothing_is_touched(run, playbook, worker, told):
    said, now = run(playbook, 2, engines={pretend.HEAD: ENGINE, pretend.WORKER: worker})
    assert told in said
    assert now["steps"] == [] and now["history"] == []


def test_equal_engines_are_no_reason_to_stop(run):
    _said, now = run("rollback", 0, engines=dict.fromkeys(pretend.HOSTS, ENGINE))
    assert now["current"] == now["applied"] == EARLIER


def test_an_engine_with_another_key_is_started_anew(run):
    said, now = run("start", 0, key_runs=False)
    assert "the engine on spark-a was started with another key of the API than it is to have" in said
    assert len([step for step in now["steps"] if step.startswith("restarted")]) == 1


def test_an_api_that_answers_strangers_is_not_proven(run):
    wrong = {
        "id": "access.api.open",
        "severity": "error",
        "summary": "It answers /invocations",
        "remedy": "Restart",
    }
    said, now = run("start", 2, key_runs=False, strangers=[wrong])
    assert "It answers /invocations. Restart." in said
    assert not any(outcome == "proven" for _host, _event, _digest, outcome in now["history"])
