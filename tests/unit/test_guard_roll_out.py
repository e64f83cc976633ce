# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the guard and a roll-out meet: what is seen of a guard, its secret, and who waits for whom."""

from __future__ import annotations

import json
import time
from pathlib import Path
from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import guard_secret, guard_wait
from ansible_collections.tandem.spark.plugins.filter.release import (
    foreign_holds,
    guard_recovers,
    restart_reasons,
)
from ansible_collections.tandem.spark.plugins.module_utils import guard_look

RUNS = {"active": "active"}


def node(root: Path, secret: str | None = "s" * 64, mode: int = 0o600, **told) -> Path:
    """A node's files with a guard that said something two seconds ago."""
    for folder in ("opt/tandem/lib/tandem", "etc/tandem", "run/tandem"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "opt/tandem/lib/tandem/guard_rules.py").write_text("RULES = 1\n")
    if secret is not None:
        (root / guard_look.SECRET).write_text(secret)
        (root / guard_look.SECRET).chmod(mode)
    said = {"monotonic_s": time.monotonic() - 2, "made_of": guard_look.made_of(root), **told}
    (root / guard_look.STATE_FILE).write_text(json.dumps({"snapshot": said}))
    return root


def test_a_guard_that_runs_and_speaks(tmp_path):
    seen = guard_look.look(node(tmp_path, state="ready", why="a right answer"), RUNS)
    assert (seen["active"], seen["fresh"], seen["state"], seen["why"]) == (
        True,
        True,
        "ready",
        "a right answer",
    )
    assert seen["secret"] and "s" * 8 not in seen["secret"] and seen["holds"] == []


@pytest.mark.parametrize(
    "path", ["opt/tandem/lib/tandem/guard_rules.py", "etc/tandem/plan.json", guard_look.SECRET]
)
def test_a_guard_is_made_of_what_it_read(tmp_path, path):
    node(tmp_path)
    (tmp_path / path).write_text("another")
    assert not guard_look.look(tmp_path, RUNS)["fresh"]


@pytest.mark.parametrize("unit", [None, {"active": "inactive"}, {"active": "failed"}])
def test_a_guard_that_does_not_run_says_nothing(tmp_path, unit):
    seen = guard_look.look(node(tmp_path, state="ready"), unit)
    assert (seen["active"], seen["fresh"], seen["state"]) == (False, False, None)


def test_what_was_said_long_ago_is_not_said(tmp_path):
    node(tmp_path, state="ready", monotonic_s=time.monotonic() - 60)
    assert guard_look.look(tmp_path, RUNS)["state"] is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"snapshot": 3}', '{"snapshot": {"monotonic_s": "x"}}'])
def test_a_state_that_cannot_be_read(tmp_path, text):
    node(tmp_path)
    (tmp_path / guard_look.STATE_FILE).write_text(text)
    assert guard_look.look(tmp_path, RUNS)["state"] is None


@pytest.mark.parametrize(("secret", "mode"), [(None, 0), ("", 0o600), ("s" * 64, 0o644)])
def test_a_secret_that_no_guard_would_take_is_none(tmp_path, secret, mode):
    assert guard_look.look(node(tmp_path, secret, mode), RUNS)["secret"] is None


def act(action, args, run, check_mode=False):
    task = mock.Mock(args=args, check_mode=check_mode, async_val=0, delegate_to=None)
    plugin = action.ActionModule(task, *(mock.Mock() for _each in range(5)))
    plugin._display, plugin._execute_module = mock.Mock(), run
    return plugin, plugin.run(task_vars={"hostvars": {}, "inventory_hostname": "a"})


@pytest.mark.parametrize(
    ("marks", "written"),
    [
        ({"a": "m1", "b": "m1"}, []),
        ({"a": "m1"}, []),
        ({"a": "m1", "b": "m2"}, ["a", "b"]),
        ({"a": "m1", "b": None}, ["a", "b"]),
        ({"a": None, "b": None}, ["a", "b"]),
    ],
)
def test_a_secret_is_drawn_where_it_is_not_one(monkeypatch, marks, written):
    given = {}

    class OtherHost:
        def __init__(self, _action, host, _hostvars):
            self.host = host

        def run(self, module, arguments):
            assert module == "tandem.spark.managed_files"
            given[self.host] = arguments["files"][0]
            return {"changed": True}

    monkeypatch.setattr(guard_secret, "OtherHost", OtherHost)
    _plugin, result = act(guard_secret, {"ranks": marks}, None)
    assert result["written"] == written == list(given) and result["changed"] == bool(written)
    secrets = {entry["secret"] for entry in given.values()}
    assert len(secrets) <= 1 and all(secret not in json.dumps(result) for secret in secrets)
    assert all(entry["mode"] == "0600" and "content" not in entry for entry in given.values())


def test_a_rank_that_could_not_be_given_it_is_named(monkeypatch):
    lost = mock.Mock(run=lambda *_words: {"unreachable": True, "msg": "no route"})
    monkeypatch.setattr(guard_secret, "OtherHost", lambda *_words: lost)
    _plugin, result = act(guard_secret, {"ranks": {"a": None}}, None)
    assert result["failed"] and "a: no route" in result["msg"]


def waited(monkeypatch, states):
    looks = iter(states)
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr(guard_wait.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(guard_wait.time, "sleep", lambda _s: None)

    def look(_name, module_args, task_vars):
        state = next(looks)
        return state if isinstance(state, dict) else {"changed": False, "state": state, "why": "because"}

    return act(guard_wait, {"timeout": 300}, look)


def test_a_group_that_comes_up_is_waited_for(monkeypatch):
    plugin, result = waited(
        monkeypatch, ["waiting", "starting", "starting", None, "warming", "ready", "held"]
    )
    assert not result.get("failed") and result["state"] == "ready"
    told = [call.args[0] for call in plugin._display.display.call_args_list]
    assert [line.split(", ")[0] for line in told] == [
        "a: the guard: waiting",
        "a: the guard: starting",
        "a: the guard: warming",
        "a: the guard: ready",
    ]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["starting", "given-up"], "does not bring the group up"),
        (["held"], "does not bring the group up"),
        ([None] * 20, "says nothing for"),
        (["starting"] * 200, "took too long"),
        ([{"failed": True, "msg": "no python"}], "no python"),
    ],
)
def test_one_that_does_not_is_not(monkeypatch, states, said):
    _plugin, result = waited(monkeypatch, states)
    assert result["failed"] and said in result["msg"]


def guards(state, active=True):
    return {
        "a": {"active": True, "state": state, "holds": []},
        "b": {"active": active, "state": state, "holds": []},
    }


@pytest.mark.parametrize(
    ("told", "recovers"),
    [
        (guards("starting"), True),
        (guards("waiting"), True),
        (guards("ready"), False),
        (guards("held"), False),
        (guards("off"), False),
        (guards("given-up"), False),
        (guards(None), False),
        (guards("starting", active=False), False),
        ({"a": None, "b": None}, False),
        ({}, False),
    ],
)
def test_a_group_that_the_guard_brings_up(told, recovers):
    assert guard_recovers(told) is recovers


def test_units_that_the_guard_is_about_to_start_are_no_reason_to_restart():
    down = {"current": "d", "applied": "d", "units": {"u": {"active": "inactive", "sub": "dead"}}}
    rank = {**down, "runs_as": {"invocation_id": None}, "proof": None}
    assert restart_reasons({"a": rank}, {"a": "u"}, "d") == ["u on a is inactive"]
    assert restart_reasons({"a": rank}, {"a": "u"}, "d", recovering=True) == []
    assert restart_reasons({"a": rank}, {"a": "u"}, "e", recovering=True), "another release is wanted"


def test_holds_that_no_playbook_took():
    told = guards("held")
    told["a"]["holds"] = [{"owner": "rollout", "left_s": 9}, {"owner": "bob", "left_s": None}]
    told["b"]["holds"] = [{"owner": "bob", "left_s": None}]
    assert foreign_holds(told) == {"bob": ["a", "b"]}
    assert foreign_holds({"a": None}) == {}
