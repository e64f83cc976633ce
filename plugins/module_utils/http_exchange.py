# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP requests that end in time, whatever the server does: be silent, trickle for ever or go away."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

try:
    import ssl
except ImportError:  # http.client does without it too; see guard_command
    ssl = None


class HttpFailure(Exception):
    """The exchange broke off; the text says why. timed_out: it was this side's patience that ended."""

    def __init__(self, reason: str, timed_out: bool = False):
        super().__init__(reason)
        self.timed_out = timed_out


def _connection(url: str, timeout: float, verify: bool) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname:
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        if parts.scheme == "https" and parts.hostname and ssl:
            context = ssl.create_default_context()
            context.check_hostname = verify
            context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=context)
    except (ValueError, http.client.InvalidURL) as error:
        raise HttpFailure(f"{url}: {error}") from error
    raise HttpFailure(f"{url} is no http:// or https:// address")


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, socket.gaierror):
        return f"host not found: {error.strerror}"
    if ssl and isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ValueError):  # its text would show a header, perhaps the API key
        return "the address or a header holds characters that HTTP does not carry"
    if isinstance(error, http.client.IncompleteRead):
        return "the stream was cut in the middle"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@contextmanager
def exchange(
    method: str,
    url: str,
    *,
    timeout: float,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    verify: bool = True,
) -> Iterator[http.client.HTTPResponse]:
    """Send a request and yield its response; the `with` block has `timeout` seconds for all its network work.

    Raises HttpFailure for everything that goes wrong on the wire, also while the block reads the body.
    """
    connection = _connection(url, timeout, verify)
    expired = threading.Event()
    open_socket: list[socket.socket] = []

    def cut() -> None:
        # A socket timeout starts anew with each byte that trickles in; this ends the read for good.
        expired.set()
        for sock in open_socket:
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    watchdog = threading.Timer(timeout, cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.connect()
        open_socket.append(connection.sock)
        connection.request(method, _target(url), body=body, headers=headers or {})
        response = connection.getresponse()
        if expired.is_set():  # headers that were cut off look like whole ones
            raise TimeoutError
        yield response
        if expired.is_set():
            raise TimeoutError
    except Exception as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            raise HttpFailure(f"not finished within {timeout:g} s", timed_out=True) from error
        if isinstance(error, (OSError, http.client.HTTPException, ValueError)):
            raise HttpFailure(_reason(error)) from error
        raise
    finally:
        watchdog.cancel()
        connection.close()


def get_status(url: str, timeout: float, verify: bool = True) -> int | None:
    """The status code of a GET, None if there is no answer."""
    try:
        with exchange("GET", url, timeout=timeout, verify=verify) as response:
            return response.status
    except HttpFailure:
        return None


def get_text(url: str, timeout: float, largest: int, verify: bool = True) -> str:
    """The body of a GET; HttpFailure for any status but 200 and for more than `largest` bytes."""
    with exchange("GET", url, timeout=timeout, verify=verify) as response:
        if response.status != 200:
            raise HttpFailure(f"HTTP {response.status} {response.reason}")
        body = response.read(largest + 1)
        if len(body) > largest:
            raise HttpFailure(f"more than {largest} bytes")
        if response.length:
            raise HttpFailure("the answer was cut in the middle")
    return body.decode("utf-8", "replace")
