# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes weights from another rank over all rails: several streams, resumed, each file hashed while it arrives."""

from __future__ import annotations

import hmac
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .checkpoint_hub import part_of, size_of
from .checkpoint_manifest import Entry, Manifest, ManifestError, from_content
from .checkpoint_wire import LARGEST_LIST, Refused, Wire, WireError, mac, opened_by_taker
from .file_hashes import new_digest
from .findings import FindingError, finding
from .progress import on_the_way

STREAMS_A_RAIL = 4
PIECE_BYTES = 1 << 20
FLUSH_BYTES = 64 << 20
SILENT_S = 30.0
CONNECT_S = 5.0
SAY_EVERY_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0


@dataclass(frozen=True)
class Peer:
    """host: the giver's name for people. doors: its address and port on each rail. secret: of this transfer alone."""

    host: str
    doors: Sequence[tuple[str, int]]
    secret: bytes
    streams: int | None = None
    patience_s: float = 120.0
    always = True  # its list is asked for, whatever lies here already

    @property
    def where(self) -> str:
        return self.host

    def at(self, _revision: str | None) -> Peer:
        return self

    def manifest(self, say: Callable[[str], None]) -> Manifest:
        """What the giver has, signed by it. FindingError."""
        patience = _Patience(self.patience_s)
        for turn in _turns():
            try:
                with _connected(self, turn) as wire:
                    answer = wire.ask(list=True)
                    count = answer.get("bytes")
                    if not isinstance(count, int) or not 0 < count <= LARGEST_LIST:
                        raise WireError(f"a list of {count} bytes")
                    content = wire.bytes(count)
                    if not hmac.compare_digest(
                        str(answer.get("mac")), mac(self.secret, "list", wire.nonces, content)
                    ):
                        raise WireError("a list that the giver did not sign")
                    return from_content(json.loads(content))
            except (OSError, WireError, ManifestError, ValueError) as error:
                patience.wait(self, turn, error)
        raise AssertionError  # turns do not end

    def download(
        self,
        files: Mapping[str, Entry],
        folder: Path,
        say: Callable[[str], None],
        arrived: Callable[[str, str | None], None],
        limit_s: float = float("inf"),
    ) -> None:
        """As Hub.download; `arrived` is told the hash too. FindingError, OSError."""
        work = _Work(self, files, folder, arrived)
        threads = [
            threading.Thread(target=work.stream, args=(number,), daemon=True)
            for number in range(min(len(files), self.streams or STREAMS_A_RAIL * len(self.doors)))
        ]
        total = sum(entry.size or 0 for entry in files.values())
        before = sum(size_of(part_of(folder, name, entry)) for name, entry in files.items())
        start = told = time.monotonic()
        for each in threads:
            each.start()
        while any(each.is_alive() for each in threads) and not work.failed:
            time.sleep(0.05)
            now = time.monotonic()
            if now >= told + SAY_EVERY_S:
                say(on_the_way("copied", min(total, before + work.bytes()), total, now - start, before))
                told = now
            if now > start + limit_s:
                work.failed.append(self.error("slow", f"not through after {limit_s:.0f} s"))
        work.stop.set()
        for each in threads:
            each.join(SILENT_S)
        if work.failed:
            raise work.failed[0]

    def error(self, kind: str, text: str) -> FindingError:
        return FindingError(finding(f"checkpoint.copy.{kind}", evidence=text, host=self.host))


def _turns():
    turn = 0
    while True:
        yield turn
        turn += 1


def _connected(peer: Peer, turn: int) -> Wire:
    """Over one rail, and at the next turn over the next one. The caller closes it."""
    connection = socket.create_connection(tuple(peer.doors[turn % len(peer.doors)]), timeout=CONNECT_S)
    try:
        connection.settimeout(SILENT_S)
        return _Closing(opened_by_taker(connection, peer.secret))
    except BaseException:
        connection.close()
        raise


class _Closing:
    """A wire that ends with its block."""

    def __init__(self, wire: Wire):
        self._wire = wire

    def __enter__(self) -> Wire:
        return self._wire

    def __exit__(self, *_error: object) -> None:
        self._wire.connection.close()


class _Patience:
    """For how long nothing may arrive on any stream."""

    def __init__(self, limit_s: float):
        self._limit_s = limit_s
        self.last = time.monotonic()

    def fed(self) -> None:
        self.last = time.monotonic()

    def wait(self, peer: Peer, turn: int, error: Exception) -> None:
        if isinstance(error, Refused):
            raise peer.error("refused", str(error)) from error
        idle = time.monotonic() - self.last
        address, port = peer.doors[turn % len(peer.doors)][:2]
        if idle > self._limit_s:
            said = f"{address} port {port}: {error}; nothing arrived for {idle:.0f} s"
            raise peer.error("network", said) from error
        time.sleep(min(FIRST_PAUSE_S * 2 ** min(turn, 8), LONGEST_PAUSE_S, self._limit_s))


class _Work:
    """Files in a queue, the largest first, and streams that take from it."""

    def __init__(
        self, peer: Peer, files: Mapping[str, Entry], folder: Path, arrived: Callable[[str, str], None]
    ):
        self._peer, self._files, self._folder, self._arrived = peer, files, folder, arrived
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        for name in sorted(files, key=lambda each: (-(files[each].size or 0), each)):
            self._queue.put(name)
        self._patience = _Patience(peer.patience_s)
        self._counts: dict[int, int] = {}
        self.failed: list[Exception] = []
        self.stop = threading.Event()

    def bytes(self) -> int:
        return sum(list(self._counts.values()))

    def stream(self, number: int) -> None:
        """One stream: files one after the other, over its own rail for as long as that one works."""
        buffer = memoryview(bytearray(PIECE_BYTES))
        self._counts[number] = 0
        name, turn, failures = None, number, 0
        try:
            while not self.stop.is_set():
                try:
                    with _connected(self._peer, turn) as wire:
                        while not self.stop.is_set():
                            if name is None:
                                name = self._queue.get_nowait()
                            self._take(wire, name, buffer, number)
                            name, failures = None, 0
                except (ConnectionError, TimeoutError, WireError) as error:
                    self._patience.wait(self._peer, turn, error)
                    turn, failures = turn + 1, failures + 1
                except OSError as error:
                    if error.errno is None or error.filename:
                        raise
                    self._patience.wait(self._peer, turn, error)  # a network that is not there
                    turn += 1
        except queue.Empty:
            return
        except Exception as error:
            self.failed.append(error)

    def _take(self, wire: Wire, name: str, buffer: memoryview, number: int) -> None:
        entry = self._files[name]
        part = part_of(self._folder, name, entry)
        part.parent.mkdir(parents=True, exist_ok=True)
        digest = new_digest("sha256" if entry.sha256 else "git", entry.size or 0)
        handle = _writing(os.open, part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            have = self._resumed(handle, entry, digest, buffer)
            answer = wire.ask(file=name, first=have)
            if "error" in answer or not isinstance(answer.get("bytes"), int):
                raise self._peer.error("lacks", str(answer.get("error", "no size")))
            left, at, flushed = answer["bytes"], have, have
            if entry.size is not None and have + left != entry.size:
                raise self._peer.error(
                    "lacks", f"{name} has {have + left} bytes there, listed are {entry.size}"
                )
            while left:
                if self.stop.is_set():
                    return
                piece = buffer[: min(left, PIECE_BYTES)]
                count = wire.into(piece)
                digest.update(piece[:count])
                _write(handle, piece[:count], part)
                left, at = left - count, at + count
                self._counts[number] += count
                self._patience.fed()
                if count < len(piece):
                    raise WireError("the giver hung up")
                if at - flushed >= FLUSH_BYTES:
                    # Begins to write out what arrived, so that the last file does not wait for all of it.
                    os.posix_fadvise(handle, flushed, at - flushed, os.POSIX_FADV_DONTNEED)
                    flushed = at
            _writing(os.fdatasync, handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
        self._arrived(name, digest.hexdigest())

    @staticmethod
    def _resumed(handle: int, entry: Entry, digest: object, buffer: memoryview) -> int:
        """How many bytes are there already; the digest has read them, and the file stands behind them."""
        have = os.fstat(handle).st_size
        if entry.size is not None and have > entry.size:
            os.ftruncate(handle, 0)
            have = 0
        at = 0
        while at < have and (count := os.readv(handle, [buffer])):
            digest.update(buffer[:count])
            at += count
        return at


def _write(handle: int, piece: memoryview, part: Path) -> None:
    while piece:
        try:
            count = os.write(handle, piece)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(part)) from error
        piece = piece[count:]


def _writing(call: Callable, *arguments: object) -> int:
    """An error of the disk names a file, by which it is told from one of the network."""
    try:
        return call(*arguments)
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(arguments[0])) from error
