# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order over a group, and what is told of a rank that fails or is lost."""

from __future__ import annotations

from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import group_unit
from ansible_collections.tandem.spark.plugins.filter.boot import boot_report, down_time

RANKS = {"a": "tandem-head.service", "b": "tandem-worker.service", "c": "tandem-worker.service"}
DONE = {"changed": True, "seconds": 1.5}


@pytest.mark.parametrize(
    ("state", "release", "order"),
    [
        ("stopped", None, ["stopped a", "stopped b", "stopped c"]),
        ("started", None, ["started b", "started c", "started a"]),
        (
            "restarted",
            "new",
            ["stopped a", "stopped b", "stopped c", "switched a", "switched b", "switched c"]
            + ["started b", "started c", "started a"],
        ),
        (
            "restarted",
            None,
            ["stopped a", "stopped b", "stopped c", "started b", "started c", "started a"],
        ),
    ],
)
def test_the_order_over_a_group(state, release, order):
    assert [f"{step} {host}" for step, host in group_unit.steps(RANKS, state, release)] == order


@pytest.fixture
def act(monkeypatch):
    """Runs the action; `answers` has what a rank says to a step where it is not plainly done."""

    def run(state, answers, check_mode=False):
        asked = []

        class OtherHost:
            def __init__(self, action, host, hostvars):
                self.host = host

            def run(self, module, arguments):
                asked.append(f"{arguments['state']} {self.host}")
                return answers.get(asked[-1], DONE)

        monkeypatch.setattr(group_unit, "OtherHost", OtherHost)
        task = mock.Mock(
            args={"ranks": RANKS, "state": state, "release": "new"}, check_mode=check_mode, async_val=0
        )
        action = group_unit.ActionModule(task, *(mock.Mock() for _each in range(5)))
        action._display = mock.Mock()
        result = action.run(task_vars={"hostvars": {}})
        return result, asked, [call.args[0] for call in action._display.display.call_args_list]

    return run


def test_what_is_done_is_told_with_its_time(act):
    warned = {"switched b": {**DONE, "warnings": ["the caches could not be bounded"]}}
    result, _asked, said = act("restarted", {"stopped c": {"changed": False, "seconds": 0.0}, **warned})
    assert result["warnings"] == ["b: the caches could not be bounded"]
    assert result["changed"] and not result.get("failed")
    assert result["seconds"] == {"stopped": 3.0, "switched": 4.5, "started": 4.5}
    assert said[:3] == ["a: stopped (1.5 s)", "b: stopped (1.5 s)", "a: switched to release new (1.5 s)"]


def test_check_mode_says_what_would_be_done(act):
    assert act("stopped", {}, check_mode=True)[2][0] == "a: would be stopped (1.5 s)"


def test_the_first_step_that_fails_ends_a_switch(act):
    result, asked, _said = act("restarted", {"switched a": {"failed": True, "msg": "holds no release"}})
    assert result["failed"] and result["msg"] == "a: holds no release"
    assert asked[-1] == "switched a"


def test_a_lost_rank_has_failed_and_the_others_are_stopped_all_the_same(act):
    lost = {"stopped b": {"unreachable": True, "failed": True, "msg": "no route"}}
    result, asked, _said = act("stopped", lost)
    assert result["failed"] and not result.get("unreachable")
    assert result["msg"] == "b was lost while its rank was to be stopped: no route"
    assert asked == ["stopped a", "stopped b", "stopped c"]
    assert act("restarted", lost)[1] == ["stopped a", "stopped b"]


def test_the_time_that_a_group_was_down_is_told_in_its_parts():
    told = down_time({"stop": 4.1, "start": 22, "warm_up": 18.25, "proof": 20.5, "down": 71.0})
    assert told == "Down for 71.0 s: stop 4.1 s, start 22.0 s, warm-up 18.2 s, proof 20.5 s, the rest 6.2 s"


def test_each_rank_is_compared_with_its_own_last_start():
    boots = {"a": {"boot": {"kv_gib": 10.0, "nccl": "2.30.7"}}, "b": {"boot": {"kv_gib": 5.0}}}
    engines = {
        "a": {"proof": {"boot": {"kv_gib": 10.0, "nccl": "2.30.4"}}},
        "b": {"proof": {"boot": {"kv_gib": 10.0}}},
    }
    first, second = boot_report(boots, {}, engines).splitlines()
    assert first.startswith(
        "WARNING engine.boot.measure [b]: The KV cache takes 5 GiB (-50%), the last proven start had 10"
    )
    assert second.startswith("INFO engine.boot.version [a]: NCCL is 2.30.7, it was 2.30.4")
    assert boot_report(boots, {"kv_gib": 5}, {"a": {"proof": None}}) == ""
