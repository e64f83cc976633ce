# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the guards speak: one short exchange over TCP, authenticated on both sides, of bounded size and time.

The head sends a nonce. The rank sends its report with a nonce of its own, and the head answers with an order:

    head → rank   <nonce>\\n
    rank → head   <mac> {"nonce": …, "own": …, "said": report}\\n
    head → rank   <mac> {"nonce": own, "said": order}\\n

A mac is HMAC-SHA256 over who speaks and the JSON text. Each side finds its own nonce in what the other one signed,
so nothing can be replayed, and who speaks is signed, so nothing can be sent back. What is said is no secret.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import stat
import time
from collections.abc import Callable
from typing import Any

from .guard_listener import Listener
from .guard_rules import Order, Report, as_dict, read

PORT = 25001
LIMIT_S = 2.0  # for a whole exchange
LARGEST = 8192  # bytes of a line
_SHORTEST_SECRET = 32
_NONCE_BYTES = 16
_TELL_AGAIN_S = 600.0
_MOST_TOLD = 100


class SpeechError(Exception):
    """Why nothing was understood. The text is for the journal."""


def read_secret(path: str) -> bytes:
    """The secret that all guards of a group share. SpeechError where others can read it, or it is too short."""
    try:
        info = os.stat(path)
        with open(path, "rb") as stream:
            secret = stream.read(4096).strip()
    except OSError as error:
        raise SpeechError(f"{path} cannot be read ({error.strerror}), wanted the guards' secret.") from error
    if stat.S_IMODE(info.st_mode) & 0o077:
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        raise SpeechError(f"{path} has mode {mode}, wanted 0600: chmod 0600 {path}")
    if len(secret) < _SHORTEST_SECRET:
        raise SpeechError(f"{path} holds {len(secret)} bytes, wanted at least {_SHORTEST_SECRET}.")
    return secret


def _mac(secret: bytes, speaker: str, text: bytes) -> bytes:
    return hmac.digest(secret, f"tandem guard 1 {speaker}\n".encode() + text, "sha256").hex().encode()


def sign(secret: bytes, speaker: str, content: dict[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":")).encode()
    line = _mac(secret, speaker, text) + b" " + text + b"\n"
    if len(line) > LARGEST:
        raise SpeechError(f"{len(line)} bytes are too much to say, at most {LARGEST}")
    return line


def verify(secret: bytes, speaker: str, line: bytes, nonce: str) -> dict[str, Any]:
    """The content of a signed line. SpeechError for anything that the speaker did not sign for this nonce."""
    mac, _space, text = line.rstrip(b"\n").partition(b" ")
    if not hmac.compare_digest(mac, _mac(secret, speaker, text)):
        raise SpeechError("a wrong signature: is the secret the same on all ranks?")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpeechError("signed, and no JSON") from error
    if not isinstance(content, dict) or not isinstance(content.get("nonce"), str):
        raise SpeechError("signed, and without a nonce")
    if not hmac.compare_digest(content["nonce"].encode(), nonce.encode()):
        raise SpeechError("an old message, sent again")
    return content


class _Line:
    """Reads and writes lines of bounded size until a deadline."""

    def __init__(self, connection: socket.socket, limit_s: float):
        self._connection = connection
        self._deadline = time.monotonic() + limit_s
        self._rest = b""

    def _patience(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("out of time")
        self._connection.settimeout(left)

    def read(self) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > LARGEST:
                raise SpeechError("more than a line")
            self._patience()
            block = self._connection.recv(LARGEST)
            if not block:
                raise SpeechError("the other side hung up")
            self._rest += block
        line, _newline, self._rest = self._rest.partition(b"\n")
        if len(line) > LARGEST:
            raise SpeechError("more than a line")
        return line

    def write(self, line: bytes) -> None:
        self._patience()
        self._connection.sendall(line)


def call(head: tuple[str, int], secret: bytes, report: Report, limit_s: float = LIMIT_S) -> Order:
    """Tell the head how this rank is, and return its order. SpeechError says why that did not work."""
    began = time.monotonic()
    try:
        with socket.create_connection(head, timeout=limit_s) as connection:
            line = _Line(connection, limit_s - (time.monotonic() - began))
            own = os.urandom(_NONCE_BYTES).hex()
            nonce = line.read().decode("ascii", "replace")
            line.write(sign(secret, "rank", {"nonce": nonce, "own": own, "said": as_dict(report)}))
            order = verify(secret, "head", line.read(), own).get("said")
    except OSError as error:
        raise SpeechError(f"{head[0]}:{head[1]}: {error.strerror or error}") from error
    if time.monotonic() - began > limit_s + 1:  # this process was halted: by now the order may be another one
        raise SpeechError("the exchange took too long")
    try:
        return read(Order, order)
    except ValueError as error:
        raise SpeechError(f"no order: {error}") from error


class Ear:
    """The head's listener. `hear` takes a report and returns the order for it; a SpeechError or ValueError refuses.

    A refusal is told, but not again for the same reason and address within ten minutes.
    """

    def __init__(
        self,
        address: tuple[str, int],
        secret: bytes,
        hear: Callable[[Report], Order],
        say: Callable[[str], None],
        limit_s: float = LIMIT_S,
    ):
        self._secret, self._hear, self._say, self._limit_s = secret, hear, say, limit_s
        self._told: dict[tuple[str, str], float] = {}
        self.listener = Listener(address, self._serve)

    def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            self._exchange(_Line(connection, self._limit_s))
        except (SpeechError, ValueError) as error:
            self._refuse(peer, str(error))

    def _refuse(self, peer: str, why: str) -> None:
        now = time.monotonic()
        if now - self._told.get((peer, why), float("-inf")) < _TELL_AGAIN_S:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[peer, why] = now
        self._say(f"refused {peer}: {why}")

    def _exchange(self, line: _Line) -> None:
        nonce = os.urandom(_NONCE_BYTES).hex()
        line.write(nonce.encode() + b"\n")
        content = verify(self._secret, "rank", line.read(), nonce)
        own = content.get("own")
        if not isinstance(own, str) or len(own) > 2 * _NONCE_BYTES:
            raise SpeechError("signed, and without a nonce of its own")
        order = self._hear(read(Report, content.get("said")))
        line.write(sign(self._secret, "head", {"nonce": own, "said": as_dict(order)}))
