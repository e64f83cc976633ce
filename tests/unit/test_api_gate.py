# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With a key nothing generates without it, whatever the path; without one nobody is kept out; health stays open."""

from __future__ import annotations

import asyncio
import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.api_gate import Gate

KEY = "k3y-of-the-test-123"
PATHS = [
    "/v1/chat/completions",
    "/v1/models",
    "/invocations",
    "/tokenize",
    "/server_info",
    "/docs",
    "/",
    "/healthy",
]


@pytest.fixture
def ask(monkeypatch):
    def run(path, given=None, key=KEY, kind="http", method="POST", **more):
        """(status or close code, whether the engine was reached)."""
        monkeypatch.delenv("VLLM_API_KEY", raising=False)
        if key is not None:
            monkeypatch.setenv("VLLM_API_KEY", key)
        reached, said = [], []

        async def engine(scope, receive, send):
            reached.append(scope["path"])

        async def send(message):
            said.append(message)

        headers = [] if given is None else [(b"Authorization", given)]
        scope = {"type": kind, "path": path, "headers": headers, "method": method, **more}
        asyncio.run(Gate(engine)(scope, None, send))
        if not said:
            return None, reached == [path]
        if kind == "http":
            assert json.loads(said[1]["body"]) == {"error": "Unauthorized"}
            assert dict(said[0]["headers"])[b"content-length"] == str(len(said[1]["body"])).encode()
        return said[0].get("status") or said[0]["code"], bool(reached)

    return run


@pytest.mark.parametrize("path", PATHS)
def test_without_the_key_nobody_is_answered(ask, path):
    assert ask(path) == (401, False)
    for wrong in (
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer other",
        KEY.encode(),
        f"Basic {KEY}".encode(),
        b"\xff\xfe",
    ):
        assert ask(path, wrong) == (401, False), wrong


@pytest.mark.parametrize("path", PATHS)
def test_with_it_everybody_is(ask, path):
    assert ask(path, f"Bearer {KEY}".encode()) == ask(path, f"bearer {KEY}".encode()) == (None, True)


@pytest.mark.parametrize("path", ["/health", "/ping", "/version", "/metrics", "/load"])
def test_health_and_counters_are_for_all(ask, path):
    assert ask(path) == (None, True)


@pytest.mark.parametrize("key", [None, ""])
def test_where_there_is_no_key_nothing_is_kept_back(ask, key):
    assert ask("/v1/models", key=key) == (None, True)


def test_a_path_behind_a_proxy_is_that_without_its_prefix(ask):
    assert ask("/spark/health", root_path="/spark") == (None, True)
    assert ask("/spark/v1/models", root_path="/spark") == (401, False)


def test_a_socket_is_closed_and_what_is_no_question_goes_through(ask):
    assert ask("/v1/realtime", kind="websocket") == (1008, False)
    assert ask("/v1/realtime", f"Bearer {KEY}".encode(), kind="websocket") == (None, True)
    assert ask("", kind="lifespan") == (None, True)
    assert ask("/v1/models", method="OPTIONS") == (None, True)
