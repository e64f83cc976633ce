# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SHA-256 of many files at once, with the rate and the time left told on the way.

One thread for each core: hashlib lets go of the interpreter while it hashes, so they run side by side.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from .progress import GIB, at_the_end, on_the_way

SAY_EVERY_S = 5.0
CHUNK_BYTES = 1 << 20
WINDOW_BYTES = 8 << 20
_MADV_POPULATE_READ = 22  # linux/mman.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class TooSlow(Exception):
    """What was hashed when the time ran out."""


def hash_files(
    folder: Path,
    wanted: Mapping[str, str],
    say: Callable[[str], None],
    limit_s: float = float("inf"),
    threads: int | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """({file: hex digits}, {file: why it could not be read}) of files in `folder`.

    wanted: {file: "sha256" or "git"}; "git" is the SHA-1 that git gives a file's content. Raises TooSlow.
    """
    sizes = {name: _size(folder / name) for name in wanted}
    read = dict.fromkeys(wanted, 0)
    stop = threading.Event()

    def one(name: str) -> str:
        return _hash(folder / name, wanted[name], sizes[name], stop, lambda count: read.update({name: count}))

    start = time.monotonic()
    # The largest first, so that no thread is left alone with one at the end.
    order = sorted(wanted, key=lambda name: (-sizes[name], name))
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        jobs = {name: pool.submit(one, name) for name in order}
        while wait(jobs.values(), timeout=SAY_EVERY_S).not_done:
            seconds = time.monotonic() - start
            say(on_the_way("hashed", sum(read.values()), sum(sizes.values()), seconds))
            if seconds > limit_s:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise TooSlow(
                    f"{sum(read.values()) / GIB:.2f} of {sum(sizes.values()) / GIB:.2f} GiB were hashed in "
                    f"{seconds:.0f} s, wanted was all of it"
                )
    seconds = time.monotonic() - start
    if wanted:
        say(at_the_end("hashed", len(wanted), sum(read.values()), seconds))
    digests, unread = {}, {}
    for name, job in jobs.items():
        error = job.exception()
        if isinstance(error, OSError):
            unread[name] = error.strerror or str(error)
        else:
            digests[name] = job.result()
    return digests, unread


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def new_digest(kind: str, size: int) -> Any:
    """The empty hash of a kind; git begins with the size of the content."""
    if kind == "sha256":
        return hashlib.sha256()
    return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)


def _hash(path: Path, kind: str, size: int, stop: threading.Event, count: Callable[[int], None]) -> str:
    digest = new_digest(kind, size)
    with open(path, "rb", buffering=0) as stream:
        done = _mapped(stream, digest, stop, count)
        buffer = bytearray(CHUNK_BYTES)
        view = memoryview(buffer)
        stream.seek(done)
        while not stop.is_set() and (length := stream.readinto(buffer)):
            digest.update(view[:length])
            done += length
            count(done)
        # What was read once shall not take the memory that the engine needs; on a Spark it is the GPU's too.
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()


def _mapped(stream: Any, digest: Any, stop: threading.Event, count: Callable[[int], None]) -> int:
    """Hashes a file where the kernel has it, which saves a tenth of the time; returns how far that went.

    A page that the disk does not give would end the process, so each window is asked for first by a call that only
    fails. What is left then, or on a kernel before 5.14, is for an ordinary read, whose error has a name.
    """
    size = os.fstat(stream.fileno()).st_size
    if size < WINDOW_BYTES:
        return 0
    with mmap.mmap(
        stream.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
    ) as pages:
        window = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(window)
        view = memoryview(pages)
        try:
            for at in range(0, size, WINDOW_BYTES):
                length = min(WINDOW_BYTES, size - at)
                os.posix_fadvise(stream.fileno(), at + length, 2 * WINDOW_BYTES, os.POSIX_FADV_WILLNEED)
                # Not mmap's own madvise, which keeps the interpreter for as long as the disk takes.
                asked = _LIBC.madvise(
                    ctypes.c_void_p(address + at), ctypes.c_size_t(length), _MADV_POPULATE_READ
                )
                if stop.is_set() or asked:
                    return at
                digest.update(view[at : at + length])
                count(at + length)
            return size
        finally:
            view.release()
            del window
