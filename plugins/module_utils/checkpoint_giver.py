# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives the weights of this rank to another one, for one transfer: a process that ends by itself.

    python3 -P -m tandem.checkpoint_giver < wish.json

wish: {folder, addresses, secret, idle_s, limit_s}. It listens on the addresses alone, each time on a free port, prints
{"doors": [[address, port]]} or {"error": text}, and goes on without a word until it was idle for so long.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .checkpoint_manifest import MANIFEST, Manifest, load
from .checkpoint_wire import Wire, WireError, mac, opened_by_giver

PIECE_BYTES = 64 << 20
SILENT_S = 60.0
PROOF_S = 10.0
MOST_AT_ONCE = 256


class Giver:
    """Listens on every address; the folder's manifest says what may be asked for."""

    def __init__(self, folder: Path, addresses: Iterable[str], secret: bytes):
        self._folder, self._secret = folder, secret
        self._manifest: Manifest = load(folder / MANIFEST)
        self._list = json.dumps(self._manifest.as_dict()).encode()
        self._seats = threading.BoundedSemaphore(MOST_AT_ONCE)
        self.last, self._at_work, self._counting = time.monotonic(), 0, threading.Lock()
        self._sockets = [_listener(address) for address in addresses]
        self.doors = [each.getsockname()[:2] for each in self._sockets]

    def start(self) -> None:
        for each in self._sockets:
            threading.Thread(target=self._listen, args=(each,), daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def idle_s(self) -> float:
        return 0.0 if self._at_work else time.monotonic() - self.last

    def _listen(self, door: socket.socket) -> None:
        while True:
            try:
                connection, _peer = door.accept()
            except OSError:
                if door.fileno() < 0:
                    return
                time.sleep(0.1)
                continue
            if self._seats.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, WireError):
                connection.settimeout(PROOF_S)
                wire = opened_by_giver(connection, self._secret)
                connection.settimeout(SILENT_S)
                self._count(1)
                try:
                    while True:
                        self._answer(wire, wire.read())
                finally:
                    self._count(-1)
        finally:
            self._seats.release()

    def _count(self, change: int) -> None:
        with self._counting:
            self._at_work += change
            self.last = time.monotonic()

    def _answer(self, wire: Wire, request: dict[str, Any]) -> None:
        if "list" in request:
            signed = mac(self._secret, "list", wire.nonces, self._list)
            wire.say(json.dumps({"bytes": len(self._list), "mac": signed}))
            wire.connection.sendall(self._list)
            return
        name, first = request.get("file"), request.get("first", 0)
        if name not in self._manifest.files or not isinstance(first, int) or first < 0:
            wire.say(json.dumps({"error": f"{name!r} from byte {first!r} is not in the list"}))
            return
        try:
            stream = (self._folder / name).open("rb", buffering=0)
        except OSError as error:
            wire.say(json.dumps({"error": f"{name} cannot be read there ({error.strerror})"}))
            return
        with stream:
            size = os.fstat(stream.fileno()).st_size
            wire.say(json.dumps({"bytes": max(0, size - first)}))
            _send(wire.connection, stream, first, size)


def _send(connection: socket.socket, stream: Any, first: int, size: int) -> None:
    handle = stream.fileno()
    os.posix_fadvise(handle, first, 0, os.POSIX_FADV_SEQUENTIAL)
    for at in range(first, size, PIECE_BYTES):
        count = min(PIECE_BYTES, size - at)
        if connection.sendfile(stream, at, count) < count:
            raise WireError("the file became shorter")
        # What was read once shall not take the memory of the engine.
        os.posix_fadvise(handle, at, count, os.POSIX_FADV_DONTNEED)


def _listener(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM)
    door.bind((address, 0))
    door.listen(64)
    return door


def main() -> int:
    wish = json.load(sys.stdin)
    try:
        giver = Giver(Path(wish["folder"]), wish["addresses"], wish["secret"].encode())
    except Exception as error:  # whoever asked reads it, and no one else could
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    giver.start()
    print(json.dumps({"doors": giver.doors}), flush=True)
    # Nobody reads what comes now.
    with open(os.devnull, "r+b") as nothing:
        for stream in (0, 1, 2):
            os.dup2(nothing.fileno(), stream)
    end = time.monotonic() + wish["limit_s"]
    while time.monotonic() < end and giver.idle_s() < wish["idle_s"]:
        time.sleep(0.5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
