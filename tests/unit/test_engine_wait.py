# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for an engine: what one look concludes, and what the loop on the controller prints and returns."""

from __future__ import annotations

from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import engine_wait
from ansible_collections.tandem.spark.plugins.module_utils import commands, engine_state, engine_watch
from ansible_collections.tandem.spark.plugins.module_utils.engine_watch import conclude, journal_of, look

UNIT = "tandem-head.service"
WORKER = "tandem-worker.service"
LOADING = [
    "Starting to load model x",
    "Loading safetensors checkpoint shards:  65% Completed | 31/48 [02:10<01:11, 4.19s/it]",
]
CACHED = [*LOADING, "Available KV cache memory: 10.04 GiB"]
SERVING = [*CACHED, "INFO:     Application startup complete."]
BROKEN = [*LOADING, "torch.AcceleratorError: CUDA error: out of memory"]


def unit(active="active", sub="running", result="success", load="loaded", invocation_id="one"):
    return {"load": load, "active": active, "sub": sub, "result": result, "invocation_id": invocation_id}


@pytest.mark.parametrize(
    ("found", "journal", "health", "headless", "outcome", "phase"),
    [
        (unit("activating", "start-pre"), [], None, False, "waiting", "preparing the start"),
        (unit(), [], None, False, "waiting", "starting"),
        (unit(), LOADING, None, False, "waiting", "loading weights, 31 of 48 shards"),
        (unit(), SERVING, None, False, "waiting", "serving"),
        (unit(), SERVING, 503, False, "waiting", "serving"),
        (unit(), SERVING, 200, False, "ready", "ready"),
        (unit(), LOADING, 200, False, "ready", "ready"),
        (unit("activating", "start-pre"), [], 200, False, "waiting", "preparing the start"),
        (unit(), LOADING, None, True, "waiting", "loading weights, 31 of 48 shards"),
        (unit(), CACHED, None, True, "ready", "ready"),
    ],
)
def test_an_engine_may_still_come_up(found, journal, health, headless, outcome, phase):
    seen = conclude(UNIT, found, journal, health, headless=headless)
    assert (seen.outcome, seen.phase, seen.cause) == (outcome, phase, None)


@pytest.mark.parametrize(
    ("found", "journal", "anew", "cause", "said"),
    [
        (unit("inactive", "dead", load="not-found"), [], False, "engine.unit.missing", UNIT),
        (unit("inactive", "dead"), SERVING, False, "engine.unit.ended", "inactive, dead, result success"),
        (
            unit("failed", "failed", "exit-code"),
            ["no carrier"],
            False,
            "engine.unit.ended",
            "result exit-code",
        ),
        (unit("activating", "auto-restart", "signal"), LOADING, False, "engine.unit.ended", "auto-restart"),
        (
            unit("activating", "auto-restart", "oom-kill"),
            LOADING,
            False,
            "engine.memory.killed",
            "kernel killed",
        ),
        (unit(), BROKEN, False, "engine.memory.cuda", "ran out of memory"),
        (unit("failed", "failed", "exit-code"), BROKEN, False, "engine.memory.cuda", "ran out of memory"),
        (unit(), LOADING, True, "engine.unit.ended", "it was started anew"),
    ],
)
def test_an_engine_that_will_not_come_up_has_a_cause(found, journal, anew, cause, said):
    seen = conclude(UNIT, found, journal, None, headless=False, started_anew=anew)
    assert (seen.outcome, seen.cause.id) == ("failed", cause)
    assert said in seen.cause.summary
    assert seen.journal == journal


def test_a_failed_start_names_the_phase_it_failed_in():
    assert conclude(UNIT, unit(), BROKEN, None, headless=False).phase == "loading weights, 31 of 48 shards"


def test_only_the_last_lines_are_kept():
    seen = conclude(UNIT, unit(), [str(number) for number in range(100)], None, headless=False)
    assert seen.journal == [str(number) for number in range(80, 100)]


@pytest.mark.parametrize(
    ("waited_for", "now", "read", "outcome"),
    [
        (None, "one", "one", "waiting"),
        ("one", "one", "one", "waiting"),
        ("one", "two", "one", "failed"),
        ("one", None, "one", "waiting"),
    ],
)
def test_the_journal_of_the_start_that_is_waited_for_is_read(monkeypatch, waited_for, now, read, outcome):
    asked = []

    def ask(argv, timeout_s=5):
        asked.append(argv)
        return commands.Answer(0, "\n".join(LOADING))

    monkeypatch.setattr(commands, "ask", ask)
    monkeypatch.setattr(engine_state, "units", lambda names: {names[0]: unit(invocation_id=now)})
    monkeypatch.setattr(engine_watch, "get_status", lambda url, timeout, verify: None)
    seen = look(UNIT, "http://127.0.0.1:8888/v1", waited_for)
    assert seen.outcome == outcome
    assert [argv[-1] for argv in asked] == [f"_SYSTEMD_INVOCATION_ID={read}"]


def test_health_is_asked_beside_the_api(monkeypatch):
    asked = []
    monkeypatch.setattr(engine_state, "units", lambda names: {names[0]: unit(invocation_id=None)})
    monkeypatch.setattr(engine_watch, "get_status", lambda url, timeout, verify: asked.append(url) or 200)
    assert look(UNIT, "http://127.0.0.1:8888/v1/").outcome == "ready"
    assert asked == ["http://127.0.0.1:8888/health"]


def test_without_systemd_there_is_no_look(monkeypatch):
    monkeypatch.setattr(engine_state, "units", lambda names: {})
    assert look(UNIT, None) is None


def test_a_unit_that_never_started_has_no_journal():
    assert journal_of(None) == []


def seen(journal, active="active", sub="running", health=None, invocation_id="one", headless=False):
    found = conclude(UNIT, unit(active, sub, invocation_id=invocation_id), journal, health, headless=headless)
    return {
        "outcome": found.outcome,
        "ready": found.outcome == "ready",
        "phase": found.phase,
        "unit_state": found.unit,
        "boot": found.log.as_dict(),
        "journal": found.journal,
        "findings": [found.cause.as_dict()] if found.cause else [],
    }


@pytest.fixture
def wait(monkeypatch):
    """Runs the action against a row of looks; time passes only by its sleeping."""

    def run(looks, check_mode=False, others=None, **args):
        clock = [0.0]
        others = others or {}

        class OtherHost:
            def __init__(self, action, host, hostvars):
                self.looks = iter(others[host])

            def run(self, module, arguments):
                return next(self.looks)

        monkeypatch.setattr(engine_wait, "OtherHost", OtherHost)
        args = {"workers": dict.fromkeys(others, WORKER), "interval": 5, **args}
        monkeypatch.setattr(engine_wait.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(
            engine_wait.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds)
        )
        task = mock.Mock(
            args={"unit": UNIT, "url": "http://127.0.0.1:8888", **args}, check_mode=check_mode, async_val=0
        )
        task.delegate_to = None
        action = engine_wait.ActionModule(
            task, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock()
        )
        action._execute_module = mock.Mock(side_effect=looks)
        action._display = mock.Mock()
        result = action.run(task_vars={"inventory_hostname": "spark-a", "hostvars": {}})
        printed = [call.args[0] for call in action._display.display.call_args_list]
        return result, printed, action._execute_module

    return run


def shards(done):
    return seen(
        [LOADING[0], f"Loading safetensors checkpoint shards:  1% Completed | {done}/48 [00:01<00:01]"]
    )


def test_a_line_is_printed_when_the_phase_changes(wait):
    looks = [
        seen([], "activating", "start-pre"),
        *map(shards, (1, 2, 12, 13, 31)),
        seen(SERVING),
        seen(SERVING, health=200),
    ]
    result, printed, module = wait(looks)
    assert printed == [
        "spark-a: preparing the start (0 s)",
        "spark-a: loading weights, 1 of 48 shards (5 s)",
        "spark-a: loading weights, 12 of 48 shards (15 s)",
        "spark-a: loading weights, 31 of 48 shards (25 s)",
        "spark-a: serving (30 s)",
        "spark-a: ready (35 s)",
    ]
    assert (result["ready"], result["seconds"], result.get("failed", False)) == (True, 35.0, False)
    assert result["boot"]["kv_gib"] == 10.04
    assert module.call_count == len(looks)


def test_later_looks_hold_on_to_the_first_start(wait):
    looks = [seen(LOADING, invocation_id=None), seen(LOADING), seen(LOADING), seen(SERVING, health=200)]
    _, _, module = wait(looks)
    asked = [call.kwargs["module_args"].get("invocation_id") for call in module.call_args_list]
    assert asked == [None, None, "one", "one"]


def test_it_fails_at_once_with_cause_remedy_and_last_lines(wait):
    result, _, module = wait([seen(LOADING), seen(BROKEN), seen(SERVING, health=200)])
    assert result["failed"]
    failed = f"{UNIT} on spark-a failed after 5 s (last phase: loading weights, 31 of 48 shards)"
    assert result["msg"].startswith(f"{failed}: The GPU ran out of memory. Lower gpu-memory-utilization")
    assert BROKEN[-1] in result["msg"].splitlines()
    assert result["findings"][0]["hosts"] == ["spark-a"]
    assert module.call_count == 2


def test_it_gives_up_when_the_time_is_over(wait):
    result, _, module = wait([seen(LOADING)] * 10, timeout=12, interval=5)
    assert result["failed"] and result["findings"][0]["id"] == "engine.boot.timeout"
    assert result["msg"].startswith("The engine is not ready after 12 s")
    assert "spark-a is loading weights, 31 of 48 shards" in result["msg"]
    assert module.call_count == 4


WAITING = [
    *LOADING,
    "INFO shm_broadcast.py:1 No available shared memory broadcast block found in 60 seconds.",
]


def worker(journal, active="active", sub="running"):
    return seen(journal, active, sub, headless=True)


def test_a_group_is_ready_when_all_its_ranks_are(wait):
    looks = [seen(LOADING), seen(SERVING, health=200), seen(SERVING, health=200)]
    result, printed, _ = wait(looks, others={"spark-b": [worker([]), worker(LOADING), worker(CACHED)]})
    assert (result["ready"], result["seconds"]) == (True, 10.0)
    assert printed == [
        "spark-a: loading weights, 31 of 48 shards (0 s)",
        "spark-b: starting (0 s)",
        "spark-a: ready (5 s)",
        "spark-b: loading weights, 31 of 48 shards (5 s)",
        "spark-b: ready (10 s)",
    ]
    assert result["boot"]["ready"]
    assert {host: rank["boot"]["kv_gib"] for host, rank in result["ranks"].items()} == {
        "spark-a": 10.04,
        "spark-b": 10.04,
    }


RENDEZVOUS = [
    "Launching vLLM (v0.32.0) headless multiproc executor",
    "world_size=2 rank=1 local_rank=0 distributed_init_method=tcp://192.168.177.1:25000 backend=nccl",
]


@pytest.mark.parametrize("alone", [[], RENDEZVOUS[:1], RENDEZVOUS])
def test_a_head_that_is_ready_without_its_worker_will_not_take_it_back(wait, alone):
    looks = [seen(SERVING, health=200)] * 9
    result, _, module = wait(looks, others={"spark-b": [worker(alone)] * 9}, timeout=3600)
    assert result["failed"] and result["seconds"] == 15.0 and not result["ready"]
    assert result["msg"].startswith(
        "The rank on spark-b was started anew, and that on spark-a does not take it back"
    )
    assert [(found["id"], found["hosts"]) for found in result["findings"]] == [
        ("engine.boot.parted", ["spark-b"])
    ]


def test_a_journal_that_lags_behind_is_no_parted_group(wait):
    looks = [seen(LOADING), *[seen(SERVING, health=200)] * 4]
    others = {"spark-b": [worker(RENDEZVOUS)] * 3 + [worker(LOADING), worker(CACHED)]}
    result, _, _ = wait(looks, others=others)
    assert (result["ready"], result["seconds"]) == (True, 20.0)


def test_a_worker_that_breaks_ends_the_wait_and_is_named_before_the_head_that_followed_it(wait):
    head = seen(LOADING, active="failed", sub="failed")
    result, _, _ = wait([seen(LOADING), head], others={"spark-b": [worker(LOADING), worker(BROKEN)]})
    first, *rest = [line for line in result["msg"].splitlines() if "failed after 5 s" in line]
    assert first.startswith(f"{WORKER} on spark-b") and "ran out of memory" in first
    assert rest[0].startswith(f"{UNIT} on spark-a") and "ended" in rest[0]
    assert {found["id"]: found["hosts"] for found in result["findings"]} == {
        "engine.memory.cuda": ["spark-b"],
        "engine.unit.ended": ["spark-a"],
    }


def test_a_worker_that_breaks_says_how_far_the_head_was(wait):
    result, _, _ = wait([seen(LOADING)], others={"spark-b": [worker(BROKEN)]})
    assert result["failed"] and result["outcome"] == "failed"
    assert result["msg"].splitlines()[-1] == "spark-a was loading weights, 31 of 48 shards."


def test_a_lost_worker_ends_the_wait(wait):
    lost = {"unreachable": True, "failed": True, "msg": "no route to host"}
    result, _, _ = wait([seen(LOADING), seen(LOADING)], others={"spark-b": [worker(LOADING), lost]})
    assert result["failed"] and not result.get("unreachable")
    assert result["msg"].startswith("spark-b was lost after 5 s: no route to host. Bring it back")


def test_the_rank_that_keeps_the_others_waiting_is_named_when_the_time_is_over(wait):
    looks = {"spark-b": [worker(LOADING)] * 3}
    result, _, _ = wait([seen(WAITING)] * 3, others=looks, timeout=10)
    assert result["findings"][0]["hosts"] == ["spark-b"]
    assert "not ready after 10 s [spark-b]" in result["msg"]
    assert "spark-a has waited for another process for 60 s" in result["msg"]


def test_a_look_that_breaks_is_handed_on(wait):
    result, printed, _ = wait([{"failed": True, "msg": "no systemd"}])
    assert (result["failed"], result["msg"], printed) == (True, "no systemd", [])


def test_check_mode_returns_without_a_look(wait):
    result, printed, module = wait([], check_mode=True)
    assert (result["ready"], result["changed"], printed, module.called) == (False, False, [], False)
