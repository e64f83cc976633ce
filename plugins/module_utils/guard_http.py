# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard's own HTTP server: GET /healthz, /metrics and /, nothing else, bounded in size, time and number.

http.server would do, at the price of several megabytes in a process that shall stay below 25.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from . import guard_page
from .guard_listener import Listener
from .guard_page import Snapshot

PORT = 25002
_LIMIT_S = 5.0
_LARGEST = 8192  # bytes of a request
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_PLAIN = "text/plain; charset=utf-8"


def answer(request: bytes, snapshot: Snapshot) -> tuple[int, str, str]:
    """(status, content type, body) for the head of a request."""
    words = request.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return 400, _PLAIN, "this is no HTTP request\n"
    if words[0] not in ("GET", "HEAD"):
        return 405, _PLAIN, "only GET and HEAD\n"
    path = words[1].partition("?")[0]
    if path == "/healthz":
        status, body = guard_page.health(snapshot)
        return status, "application/json" if status != 404 else _PLAIN, body
    if path == "/metrics":
        return 200, "text/plain; version=0.0.4; charset=utf-8", guard_page.metrics(snapshot)
    if path == "/":
        return 200, "text/html; charset=utf-8", guard_page.page(snapshot)
    return 404, _PLAIN, "here are /, /healthz and /metrics\n"


def response(status: int, kind: str, body: str, *, with_body: bool = True) -> bytes:
    content = body.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:\r\n\r\n"
    )
    return head.encode() + (content if with_body else b"")


class Window:
    """Serves what `snapshot` returns."""

    def __init__(self, address: tuple[str, int], snapshot: Callable[[], Snapshot], limit_s: float = _LIMIT_S):
        self._snapshot, self._limit_s = snapshot, limit_s
        self.listener = Listener(address, self._serve)

    def _serve(self, connection: socket.socket, _peer: str) -> None:
        request = self._read(connection)
        connection.settimeout(self._limit_s)
        if request is None:
            connection.sendall(response(431, _PLAIN, "too long\n"))
        elif request:
            told = answer(request, self._snapshot())
            connection.sendall(response(*told, with_body=not request.startswith(b"HEAD ")))

    def _read(self, connection: socket.socket) -> bytes | None:
        """The head of a request; None where it is too long, empty where the client said nothing."""
        deadline = time.monotonic() + self._limit_s
        request = b""
        while b"\r\n\r\n" not in request:
            if len(request) > _LARGEST:
                return None
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            block = connection.recv(_LARGEST)
            if not block:
                return b""
            request += block
        return request
