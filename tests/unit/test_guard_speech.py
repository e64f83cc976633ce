# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guards say to each other over a real socket, and what others try to say."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import guard_speech as speech
from ansible_collections.tandem.spark.plugins.module_utils.guard_rules import Order, Report, as_dict, read
from hypothesis import given, settings
from hypothesis import strategies as st

SECRET = b"0123456789abcdef0123456789abcdef"
REPORT = Report(1, "active", "start-1", "e1", facts={"release": "0123"})
ORDER = Order("run", "e1", invocation="start-1")


class Head:
    """An ear that answers ORDER. heard: the reports; said: its lines for the journal."""

    def __init__(self, limit_s: float = 2.0):
        self.heard: list[Report] = []
        self.said: list[str] = []
        self.ear = speech.Ear(("127.0.0.1", 0), SECRET, self._hear, self.said.append, limit_s)
        self.address = self.ear.listener.address

    def _hear(self, report: Report) -> Order:
        self.heard.append(report)
        return ORDER

    def __enter__(self) -> Head:
        self.ear.listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ear.listener.close()

    def still_listens(self) -> bool:
        return speech.call(self.address, SECRET, REPORT) == ORDER


@pytest.fixture
def head():
    with Head() as one:
        yield one


def exchange(head: Head, answer) -> bytes:
    """Connects, reads the nonce, sends what `answer(nonce)` returns -> what comes back."""
    with socket.create_connection(head.address, timeout=5) as connection:
        nonce = connection.makefile("rb").readline().decode().strip()
        try:
            connection.sendall(answer(nonce))
            connection.shutdown(socket.SHUT_WR)
            return connection.makefile("rb").read()
        except OSError:  # it hung up first
            return b""


def content(nonce: str, **changed) -> dict:
    return {"nonce": nonce, "own": "ab", "said": as_dict(REPORT), **changed}


def test_an_exchange(head):
    assert speech.call(head.address, SECRET, REPORT) == ORDER
    assert head.heard == [REPORT] and head.said == []
    assert head.still_listens()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda nonce: b"GET / HTTP/1.1\r\nHost: spark\r\n\r\n", "wrong signature"),
        (lambda nonce: speech.sign(b"x" * 32, "rank", content(nonce)), "wrong signature"),
        (lambda nonce: speech.sign(SECRET, "head", content(nonce)), "wrong signature"),
        (
            lambda nonce: speech.sign(SECRET, "rank", content(nonce)).replace(b"start-1", b"start-2"),
            "wrong signature",
        ),
        (lambda nonce: speech.sign(SECRET, "rank", content("00" * 16)), "old message"),
        (lambda nonce: speech.sign(SECRET, "rank", content(nonce, own=7)), "nonce of its own"),
        (lambda nonce: speech.sign(SECRET, "rank", content(nonce, said=[])), "wanted exactly"),
        (
            lambda nonce: speech.sign(SECRET, "rank", content(nonce, said={**as_dict(REPORT), "unit": "on"})),
            "state",
        ),
        (
            lambda nonce: speech.sign(SECRET, "rank", content(nonce, said={**as_dict(REPORT), "rank": True})),
            "kind",
        ),
        (
            lambda nonce: speech.sign(
                SECRET, "rank", content(nonce, said={**as_dict(REPORT), "hold": "h" * 500})
            ),
            "long",
        ),
        (lambda nonce: b"a" * 100_000, "more than a line"),
        (lambda nonce: b"no end", "hung up"),
    ],
)
def test_what_is_refused_and_said_once(head, answer, said):
    assert exchange(head, answer) == b"" and exchange(head, answer) == b""
    assert head.heard == []
    assert head.still_listens()
    assert len([line for line in head.said if said in line]) == 1, head.said


def test_a_replayed_report_is_refused(head):
    seen: list[bytes] = []

    def record(nonce: str) -> bytes:
        seen.append(speech.sign(SECRET, "rank", content(nonce)))
        return seen[0]

    assert exchange(head, record) and len(head.heard) == 1
    assert exchange(head, record) == b"" and exchange(head, lambda nonce: seen[0]) == b""
    assert len(head.heard) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda asked: b"", "hung up"),
        (lambda asked: b"\n", "signature"),
        (lambda asked: asked + b"\n", "signature"),  # its own words, sent back
        (
            lambda asked: speech.sign(SECRET, "head", {"nonce": "other", "said": as_dict(ORDER)}),
            "old message",
        ),
        (
            lambda asked: speech.sign(SECRET, "head", {"nonce": own(asked), "said": {"want": "run"}}),
            "no order",
        ),
        (
            lambda asked: speech.sign(SECRET, "head", {"nonce": own(asked), "said": _order(want="go")}),
            "no order",
        ),
        (lambda asked: b"x" * 100_000, "more than a line"),
    ],
)
def test_a_rank_believes_only_its_head(answer, said):
    listener = socket.create_server(("127.0.0.1", 0))

    def pretend() -> None:
        connection, _peer = listener.accept()
        with connection:
            connection.sendall(b"nonce\n")
            asked = connection.makefile("rb").readline().strip()
            try:
                connection.sendall(answer(asked))
            except OSError:
                pass

    with listener:
        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(speech.SpeechError, match=said):
            speech.call(listener.getsockname(), SECRET, REPORT, 2)
        thread.join()


def own(asked: bytes) -> str:
    return json.loads(asked.partition(b" ")[2])["own"]


def _order(**changed) -> dict:
    return {**as_dict(ORDER), **changed}


def test_nobody_there_and_a_head_that_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(speech.SpeechError, match="out of time|timed out"):
            speech.call(silent.getsockname(), SECRET, REPORT, 0.2)
        address = silent.getsockname()
    with pytest.raises(speech.SpeechError, match="refused"):
        speech.call(address, SECRET, REPORT, 0.2)


def test_callers_that_say_nothing_take_no_seat_for_long():
    with Head(limit_s=0.3) as head:
        idle = [socket.create_connection(head.address, timeout=5) for _caller in range(40)]
        for connection in idle:
            connection.makefile("rb").read()  # until the head hangs up
            connection.close()
        assert head.still_listens()


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_no_line_passes_without_the_secret(line):
    with pytest.raises(speech.SpeechError):
        speech.verify(SECRET, "rank", line, "nonce")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(as_dict(REPORT))), JSON) | JSON)
@settings(max_examples=100, deadline=None)
def test_what_is_signed_and_senseless_is_a_value_error(said):
    changed = {**as_dict(REPORT), **said} if isinstance(said, dict) else said
    for kind in (Report, Order):
        try:
            read(kind, changed)
        except ValueError:
            pass


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o640, "x" * 40, "0600"),
        (0o600, "short", "at least 32"),
        (0o604, "x" * 40, "0600"),
        (None, "", "cannot be read"),
    ],
)
def test_a_secret_that_is_none(tmp_path, mode, text, said):
    path = tmp_path / "secret"
    if mode is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(speech.SpeechError, match=said):
        speech.read_secret(str(path))
    path.write_text("s" * 40 + "\n")
    path.chmod(0o600)
    assert speech.read_secret(str(path)) == b"s" * 40
