# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands before vLLM's API where there is a key: whatever can be asked there wants it, but for looks at health.

vLLM itself asks for the key below /v1, /v2 and /inference alone; /invocations generates just as well, and /tokenize and
others work for everybody (vLLM 0.33.0, entrypoints/serve/middleware/authenticate.py and the warning at its --api-key).
Runs in the engine's own Python, by `--middleware tandem.api_gate.Gate`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

# Of a load balancer, of Prometheus and of whoever asks which release it is: they tell nothing of what was asked.
OPEN = frozenset({"/health", "/ping", "/version", "/metrics", "/load"})
_REFUSED = b'{"error": "Unauthorized"}'

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Gate:
    """An ASGI application before another one. Without VLLM_API_KEY in the environment it lets everything through."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]):
        self._app = app
        key = os.environ.get("VLLM_API_KEY")
        self._wanted = _hash(key.encode()) if key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._wanted is None or scope["type"] not in ("http", "websocket") or self._may(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(_REFUSED)).encode()),
            ]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSED})

    def _may(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        # A browser asks with OPTIONS what it may send, and sends no key along.
        return path in OPEN or scope.get("method") == "OPTIONS" or self._has_key(scope["headers"])

    def _has_key(self, headers: list[tuple[bytes, bytes]]) -> bool:
        given = next((value for name, value in headers if name.lower() == b"authorization"), b"")
        scheme, _space, key = given.partition(b" ")
        return scheme.lower() == b"bearer" and secrets.compare_digest(_hash(key), self._wanted)


def _hash(key: bytes) -> bytes:
    """Of one length, whatever was sent: the comparison takes as long for every key."""
    return hashlib.sha256(key).digest()
