# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a rank gives its weights to another: lines of JSON and raw bytes over TCP, opened by a secret for one transfer.

    giver → taker   tandem weights 1 <nonce>\\n
    taker → giver   <own nonce> <mac>\\n
    giver → taker   <mac>\\n
    taker → giver   {"list": true}\\n                    giver → taker   {"bytes": N, "mac": …}\\n and N bytes
    taker → giver   {"file": NAME, "first": OFFSET}\\n   giver → taker   {"bytes": N}\\n and N bytes, or {"error": …}\\n

A mac is HMAC-SHA256 over both nonces and who speaks. The list of files is signed too, with their hashes, so that no
byte counts that the giver did not mean. The bytes themselves are as open as all that the ranks say over their rails.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
from typing import Any

GREETING = "tandem weights 1"
LARGEST_LINE = 1 << 16
LARGEST_LIST = 64 << 20
NONCE_BYTES = 16
SHORTEST_SECRET = 32


class WireError(Exception):
    """Why the two do not understand each other."""


class Refused(WireError):
    """The other side does not know the secret: it is of no use to try again."""


def mac(secret: bytes, speaker: str, nonces: str, content: bytes = b"") -> str:
    return hmac.digest(secret, f"{GREETING} {speaker} {nonces}\n".encode() + content, "sha256").hex()


class Wire:
    """One connection that both sides opened; nonces: those of both."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.nonces = ""
        self._rest = b""

    def line(self) -> str:
        while b"\n" not in self._rest:
            if len(self._rest) > LARGEST_LINE:
                raise WireError("more than a line")
            piece = self.connection.recv(LARGEST_LINE)
            if not piece:
                raise WireError("the other side hung up")
            self._rest += piece
        line, _newline, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace")

    def say(self, line: str) -> None:
        self.connection.sendall(f"{line}\n".encode())

    def ask(self, **request: Any) -> dict[str, Any]:
        self.say(json.dumps(request))
        return self.read()

    def read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.line())
        except ValueError as error:
            raise WireError("no JSON") from error
        if not isinstance(content, dict):
            raise WireError("no map")
        return content

    def into(self, view: memoryview) -> int:
        """Fills the view as far as bytes come; fewer only where the other side hung up."""
        count = len(self._rest[: len(view)])
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        while count < len(view) and (more := self.connection.recv_into(view[count:])):
            count += more
        return count

    def bytes(self, count: int) -> bytes:
        content = bytearray(count)
        if self.into(memoryview(content)) < count:
            raise WireError("the other side hung up")
        return bytes(content)


def opened_by_giver(connection: socket.socket, secret: bytes) -> Wire:
    """Raises Refused for a taker that does not know the secret."""
    wire, own = Wire(connection), os.urandom(NONCE_BYTES).hex()
    wire.say(f"{GREETING} {own}")
    theirs, _space, proof = wire.line().partition(" ")
    wire.nonces = f"{own} {theirs}"
    if not hmac.compare_digest(proof.encode(), mac(secret, "taker", wire.nonces).encode()):
        raise Refused("the taker does not know the secret of this transfer")
    wire.say(mac(secret, "giver", wire.nonces))
    return wire


def opened_by_taker(connection: socket.socket, secret: bytes) -> Wire:
    """Raises Refused for a giver that does not know the secret, WireError for another program."""
    wire, own = Wire(connection), os.urandom(NONCE_BYTES).hex()
    greeting, _space, theirs = wire.line().rpartition(" ")
    if greeting != GREETING:
        raise WireError(f"it says {greeting[:40]!r}, wanted {GREETING!r}")
    wire.nonces = f"{theirs} {own}"
    wire.say(f"{own} {mac(secret, 'taker', wire.nonces)}")
    try:
        answer = wire.line()
    except (WireError, ConnectionError) as error:
        raise Refused("the giver hung up on the proof: another transfer's secret") from error
    if not hmac.compare_digest(answer.encode(), mac(secret, "giver", wire.nonces).encode()):
        raise Refused("the giver does not know the secret of this transfer")
    return wire
