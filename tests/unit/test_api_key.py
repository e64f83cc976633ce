# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key's file as systemd and the agent read it, and whether an engine runs with it."""

from __future__ import annotations

import argparse
from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action.api_key import draw
from ansible_collections.tandem.spark.plugins.module_utils import api_key, cli, own_endpoint
from ansible_collections.tandem.spark.plugins.module_utils.engine_config import read_environment

KEY = "0123456789abcdef-KEY"


def test_what_is_drawn_fits_everywhere_and_is_new_each_time(tmp_path):
    drawn = {draw() for _each in range(50)}
    assert len(drawn) == 50 and all(api_key.FORM.fullmatch(key) for key in drawn)
    path = tmp_path / "api.env"
    for key in drawn:
        path.write_text(api_key.text(key))
        assert api_key.read(path) == key and read_environment(path) == {"VLLM_API_KEY": key}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (f"{KEY}\n", KEY),
        (f"VLLM_API_KEY={KEY}\n", KEY),
        (f'# x\nVLLM_API_KEY="{KEY}"\n\n', KEY),
        ("a-key-that-ends-with=\n", "a-key-that-ends-with="),
        (api_key.text(None), None),
        ("", None),
        ("VLLM_API_KEY=\n", None),
        ("# only\n", None),
    ],
)
def test_a_file_as_the_agent_reads_it(content, key):
    assert api_key.parse(content) == key


def test_a_file_that_is_not_there_holds_none_and_one_that_cannot_be_read_is_said(tmp_path):
    assert api_key.read(tmp_path / "none") is None
    with pytest.raises(api_key.ApiKeyError, match="Run this as root"):
        api_key.read(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(api_key.ApiKeyError, match="wanted the API key"):
        api_key.read(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("kept", "environ", "told"),
    [
        (KEY, f"PATH=/bin\0VLLM_API_KEY={KEY}\0", {"kept": True, "running": True}),
        (KEY, "PATH=/bin\0VLLM_API_KEY=another\0", {"kept": True, "running": False}),
        (KEY, "PATH=/bin\0", {"kept": True, "running": False}),
        (None, f"VLLM_API_KEY={KEY}\0", {"kept": False, "running": False}),
        (None, "PATH=/bin\0", {"kept": False, "running": True}),
        (KEY, None, {"kept": True, "running": None}),
    ],
)
def test_whether_the_engine_runs_with_it(tmp_path, kept, environ, told):
    (tmp_path / "etc/tandem").mkdir(parents=True)
    (tmp_path / api_key.FILE).write_text(api_key.text(kept))
    if environ is not None:
        (tmp_path / "proc/7").mkdir(parents=True)
        (tmp_path / "proc/7/environ").write_text(environ)
    (tmp_path / api_key.FILE).chmod(0o600)
    assert api_key.look(tmp_path, {"tandem-head.service": {"main_pid": 7}}) == {"file": True, **told}
    (tmp_path / api_key.FILE).chmod(0o644)  # whoever could read it knows it
    assert not api_key.look(tmp_path, {})["kept"]
    assert api_key.look(tmp_path, {"tandem-worker.service": {"main_pid": 7}})["running"] is None


def test_a_file_that_cannot_be_read_is_unknown_and_never_good(tmp_path):
    (tmp_path / api_key.FILE).mkdir(parents=True)
    assert api_key.look(tmp_path, {}) == dict.fromkeys(("file", "kept", "running"))
    assert api_key.look(tmp_path / "none", {}) == {"file": False, "kept": False, "running": None}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"api_key": "given-in-the-task", "api_key_file": "FILE"}, "given-in-the-task"),
        ({"api_key": None, "api_key_file": "FILE"}, KEY),
        ({"api_key": None, "api_key_file": "/nowhere"}, None),
        ({"api_key": None, "api_key_file": None}, None),
    ],
)
def test_the_key_of_a_modules_options_is_never_in_its_results(tmp_path, options, key):
    path = tmp_path / "api.env"
    path.write_text(api_key.text(KEY))
    options = {name: str(path) if value == "FILE" else value for name, value in options.items()}
    module = mock.Mock(params=options, no_log_values=set())
    assert api_key.of(module) == key and module.no_log_values == ({key} if key else set())


def test_the_command_prints_the_header_that_curl_reads(tmp_path, capsys):
    path = tmp_path / "api.env"
    path.write_text(api_key.text(KEY))
    assert cli.main(["key", "--file", str(path)]) == 0
    assert capsys.readouterr().out == f"Authorization: Bearer {KEY}\n"
    path.write_text(api_key.text(None))
    assert cli.main(["key", "--file", str(path)]) == 1
    assert "tandem_api_auth is open" in capsys.readouterr().err


def test_a_key_goes_to_the_groups_own_api_and_to_no_other(tmp_path, monkeypatch):
    """Whoever names an address may name a stranger's."""
    (tmp_path / "api.env").write_text(api_key.text(KEY))
    monkeypatch.setattr(api_key, "FILE", str(tmp_path / "api.env"))
    words = argparse.Namespace(plan="p", release="/nowhere", url=None, model=None, api_key_file=None)
    plan = {"api": {"port": 8888, "model": "m"}}
    assert own_endpoint.endpoint(plan, words).api_key == KEY
    words.url = "http://192.0.2.1:8888"
    assert own_endpoint.endpoint(plan, words).api_key is None
