# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the key of the API comes from, that it is kept, and that nothing shows it."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import api_key as action
from ansible_collections.tandem.spark.plugins.module_utils import api_key

GIVEN = "from-the-vault-0123456789"
NONE = {"file": False, "kept": False, "running": None}
KEPT = {"file": True, "kept": True, "running": True}


@pytest.fixture
def act(monkeypatch):
    """(result, what the node was told to write) of one run."""

    def run(auth="key", seen=NONE, given=None, environment=None, done=None):
        monkeypatch.delenv(action.ENVIRONMENT, raising=False)
        if environment:
            monkeypatch.setenv(action.ENVIRONMENT, environment)
        task = mock.Mock(args={"auth": auth, "seen": seen, "user": "tandem"}, check_mode=False, async_val=0)
        plugin = action.ActionModule(task, *(mock.Mock() for _each in range(5)))
        plugin._templar.template = lambda text: text
        written = []

        def execute(module_name, module_args, task_vars):
            assert module_name == "tandem.spark.managed_files"
            written.extend(module_args["files"])
            return {"changed": True, "invocation": {"module_args": module_args}, **(done or {})}

        plugin._execute_module = execute
        task_vars = {} if given is None else {action.VARIABLE: given}
        return plugin.run(task_vars=task_vars), written

    return run


@pytest.mark.parametrize(
    ("words", "source", "key"),
    [
        ({"given": GIVEN}, "variable", GIVEN),
        ({"given": GIVEN, "environment": "of-the-environment-1"}, "variable", GIVEN),
        ({"given": GIVEN, "seen": KEPT}, "variable", GIVEN),  # the node compares
        ({"environment": "of-the-environment-1"}, "environment", "of-the-environment-1"),
        ({}, "drawn", None),
        ({"given": "", "seen": {**KEPT, "kept": False}}, "drawn", None),  # others could read it
        ({"auth": "open"}, "open", ""),
        ({"auth": "open", "seen": KEPT}, "open", ""),
    ],
)
def test_where_it_comes_from(act, words, source, key):
    result, (entry,) = act(**words)
    assert result["source"] == source and result["changed"] and not result.get("failed")
    assert (entry["path"], entry["mode"], entry["owner"]) == ("/etc/tandem/api.env", "0600", "tandem")
    kept = api_key.parse(entry["secret"])
    assert "content" not in entry and (kept == (key or None) if key is not None else len(kept) > 40)
    assert kept is None or kept not in json.dumps(result)  # nor the options of the module, which hold it


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ({"seen": KEPT}, "kept"),
        ({"auth": "open", "seen": {"file": True, "kept": False, "running": True}}, "open"),
    ],
)
def test_what_is_as_it_should_be_costs_no_module_run(act, words, source):
    result, written = act(**words)
    assert (result["source"], result["changed"], written) == (source, False, [])


@pytest.mark.parametrize(
    "key", ["short", "with a space in it 123", "two\nlines-0123456789", 'q"uote-0123456789', "x" * 600]
)
def test_a_key_that_something_would_change_is_refused_and_not_shown(act, key):
    for words in ({"given": key}, {"environment": key}):
        result, written = act(**words)
        assert result["failed"] and written == [] and key not in json.dumps(result)
        assert f"has {len(key)} characters that are not shown" in result["msg"]


def test_what_is_drawn_is_another_each_time(act):
    assert len({act()[1][0]["secret"] for _each in range(20)}) == 20


def test_a_node_that_refuses_is_told(act):
    result, _written = act(done={"failed": True, "msg": "No space left", "changed": False})
    assert result["failed"] and result["msg"] == "No space left" and "invocation" not in result
