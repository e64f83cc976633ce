# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real server on the loopback whose answers are scripted byte by byte, the good and the bad."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

USAGE = {"prompt_tokens": 16, "completion_tokens": 6, "total_tokens": 22}


def chunk(**delta: str) -> dict:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def end(reason: str = "stop") -> dict:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def event(data: dict | str) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def stream(*events: dict | str) -> bytes:
    """A whole answer in the order that vLLM sends it: role, content, end, usage, [DONE]."""
    whole = (chunk(role="assistant", content=""), *events, {"choices": [], "usage": USAGE}, "[DONE]")
    return b"".join(map(event, whole))


def says(text: str, reasoning: str = "", reason: str = "stop") -> bytes:
    thought = [chunk(reasoning=reasoning)] if reasoning else []
    return response(stream(*thought, chunk(content=text), end(reason)))


def response(
    body: bytes,
    status: str = "200 OK",
    kind: str = "text/event-stream; charset=utf-8",
    size: int | None = None,
) -> bytes:
    length = len(body) if size is None else size
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n".encode() + body


def chunked(*blocks: bytes, last: bool = True) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x;oddity=1\r\n%s\r\n" % (len(block), block) for block in blocks)
    return head + body + (b"0\r\n\r\n" if last else b"")


def until_closed(body: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body


class ChatServer:
    """Answers each request with what `answer(request body, stop)` yields, then closes the connection."""

    def __init__(
        self,
        answer: Callable[[dict, threading.Event], bytes | Iterator[bytes]],
        tls: ssl.SSLContext | None = None,
    ):
        self.answer = answer
        self.requests: list[dict] = []
        self.headers: list[bytes] = []
        self.stop = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> ChatServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                request = self._read(connection)
                answer = self.answer(request, self.stop)
                for block in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(block)
        except OSError:
            pass  # the client went away, as it should

    def _read(self, connection: socket.socket) -> dict:
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        while length and len(body) < int(length.group(1)):
            body += connection.recv(65536)
        request = json.loads(body) if body else {}
        self.headers.append(head)
        self.requests.append(request)
        return request


def forever(
    block: bytes, pause_s: float = 0.0, head: bytes | None = None
) -> Callable[[dict, threading.Event], Iterator[bytes]]:
    """An answer that repeats `block` until the server is stopped."""

    def answer(_request: dict, stop: threading.Event) -> Iterator[bytes]:
        yield until_closed() if head is None else head
        while not stop.wait(pause_s):
            yield block

    return answer


def silent(_request: dict, stop: threading.Event) -> Iterator[bytes]:
    """Accepts the request and never answers."""
    stop.wait()
    yield b""
