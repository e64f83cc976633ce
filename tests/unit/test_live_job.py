# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warm-up and proof as jobs of the node: progress is printed once, the result handed on, a stall gets its rank."""

from __future__ import annotations

import re
from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import engine_proof, engine_warmup
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.plugin_utils import live_job

STALL = finding("engine.warmup.stalled", evidence="0 of 3 requests answered", phase="long", seconds="120")
FAILED = finding("engine.warmup.failed", evidence="HTTP 500", phase="burst", url="http://x")
JOB = {"ansible_job_id": "j1", "started": 1, "finished": 0}
WARM_UP = {"url": "http://x", "model": "m", "workers": {"spark-b": "tandem-worker.service"}}
PROOF = {"url": "http://x", "model": "m", "plan": {}, "concurrency": 2, "total_timeout": 600}
WAITS = ["No available shared memory broadcast block found in 60 seconds."]


def ended(trouble=None, progress=()):
    """What the module leaves behind as the result of its job."""
    done = {"changed": False, "ok": trouble is None, "phases": [], "findings": [], "progress": list(progress)}
    if trouble:
        done.update(failed=True, msg=f"{trouble.summary}: {trouble.evidence}", findings=[trouble.as_dict()])
    return {"finished": 1, "results_file": "/root/.ansible_async/j1", **done}


@pytest.fixture
def act(monkeypatch):
    """Runs the action. `looks` is what each look at the job says, `written` what the progress file holds at each."""

    def run(looks, written, check_mode=False, worker=None, started=JOB, kind=engine_warmup, args=WARM_UP):
        looks, written = iter(looks), iter(written)
        clock = [0.0]
        monkeypatch.setattr(live_job.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(live_job.time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))

        class OtherHost:
            def __init__(self, action, host, hostvars):
                pass

            def run(self, module, arguments):
                return worker

        monkeypatch.setattr(engine_warmup, "OtherHost", OtherHost)
        task = mock.Mock(args=args, check_mode=check_mode, async_val=0, delegate_to=None)
        action = kind.ActionModule(task, *(mock.Mock() for _each in range(5)))
        asked = []

        def execute(module, module_args=None, task_vars=None, wrap_async=False):
            asked.append((module, module_args, task.async_val))
            if module == kind.MODULE:
                return dict(started) if wrap_async else {"ok": None}
            if module == "tandem.spark.engine_wait":
                return {"journal": WAITS}
            return {"erased": "x"} if module_args["mode"] == "cleanup" else next(looks)

        def shell(command):
            first = int(re.search(r"tail -n \+(\d+) ", command).group(1))
            return {"stdout": "\n".join(next(written)[first - 1 :])}

        action._execute_module, action._low_level_execute_command = execute, shell
        action._make_tmp_path = lambda: "/tmp/x"
        action._remove_tmp_path = mock.Mock()
        action._remote_expand_user = action.get_shell_option = mock.Mock(return_value="/root/.ansible_async")
        action._display = mock.Mock()
        action._connection._shell.join_path = lambda *parts: "/".join(parts)
        result = action.run(task_vars={"inventory_hostname": "spark-a", "hostvars": {}})
        assert task.async_val == 0  # or the executor would wait for the job by itself
        assert action._remove_tmp_path.called or check_mode
        return result, [call.args[0] for call in action._display.display.call_args_list], asked

    return run


RUNS = {"finished": 0}


def test_progress_is_printed_as_it_comes_and_once(act):
    said = ["ramp: a", "burst: b", "long: c"]
    # At the last look the job has ended, and its folder is gone with the file.
    result, printed, asked = act([RUNS, RUNS, ended(progress=said)], [said[:1], said[:1], []])
    assert printed == ["spark-a: ramp: a", "spark-a: burst: b", "spark-a: long: c"]
    assert result["ok"] and not result.get("failed") and "ansible_job_id" not in result
    assert asked[0][1]["progress_file"] == "/tmp/x/progress" and asked[0][2] == 3600 + live_job.SPARE_S
    assert asked[-1][1]["mode"] == "cleanup"


def test_a_failed_request_is_told_as_the_module_tells_it(act):
    result, _, asked = act([ended(FAILED)], [[], []])
    assert result["failed"] and result["msg"].endswith("HTTP 500")
    assert "tandem.spark.engine_wait" not in [module for module, *_rest in asked]


def test_the_rank_that_does_not_say_that_it_waits_is_named_when_it_stalls(act):
    result, _, _ = act([ended(STALL)], [[], []], worker={"journal": ["compiling kernel 7"]})
    (found,) = result["findings"]
    assert result["failed"] and found["hosts"] == ["spark-b"]
    assert "[spark-b]" in result["msg"] and "its last line: compiling kernel 7" in result["msg"]


def test_a_lost_rank_is_named_when_it_stalls(act):
    result, _, _ = act([ended(STALL)], [[], []], worker={"unreachable": True, "msg": "no route to host"})
    assert result["findings"][0]["hosts"] == ["spark-b"] and "no route to host" in result["msg"]


def test_a_job_that_could_not_be_started_is_handed_on(act):
    result, _, asked = act([], [[]], started={"failed": True, "msg": "no space left on device"})
    assert result["failed"] and result["msg"] == "no space left on device" and len(asked) == 1


def test_a_node_that_does_not_answer_any_more_is_given_up(act):
    result, _, _ = act([RUNS] * 4000, [[]] * 4000)
    assert result["failed"] and "did not end in its time" in result["msg"]


def test_check_mode_starts_no_job(act):
    result, printed, asked = act([], [], check_mode=True)
    assert (result["ok"], printed, len(asked)) == (None, [], 1)


def test_the_rounds_of_the_proof_are_printed_as_they_end(act):
    said = [
        "one by one: proven, 3 of 3 answers right (0.9 s)",
        "draft: not asked, the release does not speculate",
    ]
    done = {**ended(progress=said), "conclusion": {"outcome": "proven", "reason": "3 of 3"}}
    result, printed, asked = act([RUNS, done], [said[:1], []], kind=engine_proof, args=PROOF)
    assert printed == [f"spark-a: {line}" for line in said]
    assert result["conclusion"]["outcome"] == "proven"
    assert (asked[0][1]["progress_file"], asked[0][2]) == ("/tmp/x/progress", 600 + live_job.SPARE_S)


def test_the_proof_asks_in_check_mode_too(act):
    result, _, asked = act([], [], check_mode=True, kind=engine_proof, args=PROOF)
    assert [module for module, *_rest in asked] == [engine_proof.MODULE]
