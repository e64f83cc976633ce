# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stranger is answered, and what of it is an error."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import api_open

CLOSED = {
    **dict.fromkeys((*api_open.GUARDED, *api_open.DEVELOPER), 401),
    **dict.fromkeys(api_open.ANYBODY, 200),
}


@pytest.mark.parametrize(
    ("changes", "with_key", "ids"),
    [
        ({}, True, []),
        ({"POST /invocations": 404, "GET /server_info": 404, "POST /tokenize": 405}, True, []),
        ({"GET /v1/models": 200}, True, ["access.api.open"]),
        ({"GET /v1/models": 200, "POST /v1/chat/completions": 400}, False, []),
        ({"POST /invocations": 422, "POST /tokenize": 400}, True, ["access.api.open"]),
        ({"POST /collective_rpc": 400}, False, ["access.api.developer"]),
        ({"GET /server_info": 200}, True, ["access.api.developer"]),
        ({"GET /v1/models": None}, True, ["access.api.unknown"]),
        ({"GET /health": 503}, True, []),
    ],
)
def test_what_a_stranger_must_not(changes, with_key, ids):
    found = api_open.judged({**CLOSED, **changes}, with_key)
    assert [each.id for each in found] == ids
    for each in found:
        assert all(path in each.summary for path in changes)


def test_each_path_is_asked_without_a_key_and_nothing_is_a_question():
    seen = []

    class Api(BaseHTTPRequestHandler):
        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            seen.append(
                (f"{self.command} {self.path}", self.headers.get("Authorization"), self.rfile.read(length))
            )
            self.send_response(200 if self.path == "/health" else 401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer

        def log_message(self, *_words):
            pass

    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        statuses = api_open.ask(f"http://127.0.0.1:{server.server_port}/v1")
        server.shutdown()
    assert statuses["GET /health"] == 200 and statuses["POST /invocations"] == 401
    assert [want for want, _key, _body in seen] == [*api_open.GUARDED, *api_open.DEVELOPER, *api_open.ANYBODY]
    assert {key for _want, key, _body in seen} == {None} and {body for _w, _k, body in seen} == {b"", b"{}"}
    assert set(api_open.ask(f"http://127.0.0.1:{server.server_port}").values()) == {None}
