# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard shows, asked for over a real socket, and what it makes of callers who ask for something else."""

from __future__ import annotations

import http.client
import json
import re
import socket
from html.parser import HTMLParser

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    guard_http,
    guard_page,
    guard_rules,
    prometheus_text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FACTS = {
    "release": "0123456789abcdef",
    "memory_available_gib": 17.5,
    "gids": "rocep1s0f1 index 3",
    "rails": [{"netdev": "rail0", "address": "10.0.0.1/24", "state": "200 Gb/s"}],
}
SNAPSHOT = {
    "group": "tandem",
    "rank": 0,
    "hosts": ["spark-a", "spark-b"],
    "state": "ready",
    "why": "a right answer 3 s ago",
    "epoch": "0a1b2c",
    "recoveries": 2,
    "failures": 0,
    "applied": "0123456789abcdef",
    "at": "2026-11-30T08:00:00Z",
    "answer": {
        "outcome": "right",
        "why": "answers 391",
        "seconds": 0.4,
        "tokens_per_s": 41.5,
        "right_age_s": 3.2,
    },
    "ranks_seen": [
        {"host": "spark-a", "unit": "active", "age_s": 0.0, "hold": None, "facts": FACTS},
        {"host": "spark-b", "unit": "restarting", "age_s": 0.9, "hold": "rollout", "facts": FACTS},
    ],
    "history": [
        {"at": "2026-11-30T07:00:00Z", "event": "recovery", "outcome": "recovered", "reason": "ready again"}
    ],
}


@pytest.fixture
def window():
    """A window onto a snapshot that a test may change -> (the snapshot, its port)."""
    snapshot = dict(SNAPSHOT)
    window = guard_http.Window(("127.0.0.1", 0), lambda: snapshot, limit_s=0.5)
    window.listener.start()
    yield snapshot, window.listener.address[1]
    window.listener.close()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path)
    response = connection.getresponse()
    return response.status, response.headers["Content-Type"], response.read().decode()


@pytest.mark.parametrize("state", guard_rules.STATES)
def test_healthz_is_200_only_for_ready_and_busy(window, state):
    snapshot, port = window
    snapshot["state"] = state
    status, kind, body = get(port, "/healthz")
    assert status == (200 if state in ("ready", "busy") else 503) and kind == "application/json"
    assert json.loads(body) == {"state": state, "why": SNAPSHOT["why"]}


def test_healthz_of_a_worker_sends_nobody_there(window):
    snapshot, port = window
    snapshot["rank"] = 1
    assert get(port, "/healthz")[0] == 404


def test_metrics_can_be_read_by_what_reads_them(window):
    page = prometheus_text.parse(get(window[1], "/metrics")[2])
    assert page.by_label("tandem_guard_state", "state") == {
        state: float(state == "ready") for state in guard_rules.STATES
    }
    assert page.total("tandem_guard_healthy") == 1 and page.total("tandem_guard_recoveries_total") == 2
    assert page.total("tandem_guard_answer_tokens_per_second") == 41.5
    assert page.by_label("tandem_guard_rank_active", "rank") == {"0": 1, "1": 0}
    assert page.by_label("tandem_guard_rank_memory_available_gib", "rank") == {"0": 17.5, "1": 17.5}


def test_metrics_of_what_is_unknown_are_absent(window):
    snapshot, port = window
    snapshot |= {"answer": None, "ranks_seen": [None, {"facts": 7}], "recoveries": None}
    page = prometheus_text.parse(get(port, "/metrics")[2])
    assert page.total("tandem_guard_answer_seconds") is None
    assert page.total("tandem_guard_recoveries_total") is None


class Tags(HTMLParser):
    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_the_page_tells_all_and_loads_nothing(window):
    status, kind, page = get(window[1], "/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    for word in (
        "ready",
        "spark-b",
        "restarting",
        "held by rollout",
        "200 Gb/s",
        "index 3",
        "41.5 tokens/s",
        "recovered",
    ):
        assert word in page
    loading = [tag for tag, attributes in Tags(page).tags if {"src", "srcset", "action"} & set(attributes)]
    assert loading == [] and not re.search(r"https?:|url\(|@import|<script", page)


NAMES = [*SNAPSHOT, *FACTS, "unit", "facts", "netdev", "host", "outcome"]
ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=8) | st.just("<script>alert('1')</script>&\""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(ANYTHING)
@settings(max_examples=80, deadline=None)
def test_no_snapshot_breaks_a_page_or_gets_into_its_markup(value):
    snapshot = (
        {**SNAPSHOT, **value}
        if isinstance(value, dict)
        else {**SNAPSHOT, "ranks_seen": value, "answer": value}
    )
    page = guard_page.page(snapshot)
    assert {tag for tag, _attributes in Tags(page).tags} <= set(
        "html head meta link title style body h1 h2 div span p table tr th td".split()
    )
    prometheus_text.parse(guard_page.metrics(snapshot))
    guard_page.health(snapshot)
    list(guard_page.lines(snapshot))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST / HTTP/1.1\r\n\r\n", 405),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"\xff\x00 / HTTP/1.1\r\n\r\n", 405),
        (b"GET /healthz?from=lb HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_other_requests(window, request_, status):
    with socket.create_connection(("127.0.0.1", window[1]), timeout=5) as connection:
        connection.sendall(request_)
        try:
            first = connection.makefile("rb").readline()
        except ConnectionResetError:  # what was not read of a request that is too long
            first = f" {status} ".encode() if status == 431 else b""
    assert f" {status} ".encode() in first
    assert get(window[1], "/healthz")[0] == 200


def test_who_says_nothing_is_hung_up_on(window):
    idle = [socket.create_connection(("127.0.0.1", window[1]), timeout=5) for _caller in range(30)]
    for connection in idle:
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass
        connection.close()
    assert get(window[1], "/healthz")[0] == 200


def test_head_has_no_body(window):
    assert get(window[1], "/", "HEAD") == (200, "text/html; charset=utf-8", "")


def test_lines_for_a_terminal():
    told = "\n".join(guard_page.lines(SNAPSHOT))
    assert (
        "ready: a right answer 3 s ago" in told
        and "rank 1 restarting, heard 0.9 s ago, held by rollout" in told
    )
