# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A listening socket, a thread for each caller, and only so many callers at once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_MOST_AT_ONCE = 16
_IP_FREEBIND = 15  # linux/in.h; Python knows the name from 3.12 on


class Listener:
    """Calls `serve(connection, address of the caller)`, which has to end in time; more callers are hung up on."""

    def __init__(self, address: tuple[str, int], serve: Callable[[socket.socket, str], None]):
        self._serve = serve
        self._seats = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The address of a rail may come later than this process, and go and come while it listens.
        self._socket.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        self._socket.bind(address)
        self._socket.listen(_MOST_AT_ONCE)
        self.address = self._socket.getsockname()

    def start(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, peer = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(0.1)  # out of file descriptors, for now
                continue
            if self._seats.acquire(blocking=False):
                threading.Thread(target=self._serve_one, args=(connection, peer[0]), daemon=True).start()
            else:
                connection.close()

    def _serve_one(self, connection: socket.socket, peer: str) -> None:
        try:
            with connection, suppress(OSError):  # a caller that hangs up or is slow is the caller's affair
                self._serve(connection, peer)
        finally:
            self._seats.release()
