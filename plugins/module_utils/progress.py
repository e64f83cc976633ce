# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said on the way of long work: kept for the result, and written at once to a file that somebody follows."""

from __future__ import annotations

GIB = 1 << 30


class Progress:
    """Takes lines. lines: all that were said."""

    def __init__(self, path: str | None = None):
        self.lines: list[str] = []
        self._path = path

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if self._path:
            with open(self._path, "a", encoding="utf-8") as stream:
                stream.write(f"{line}\n")


def on_the_way(what: str, done: int, total: int, seconds: float, before: int = 0) -> str:
    """How far a work of `total` bytes is, its rate and the time left; `before`: what an earlier run had done of it."""
    rate = (done - before) / seconds if seconds else 0.0
    left = f"{(total - done) / rate:.0f} s left" if rate > 0 else "no byte yet"
    return f"{what} {done / GIB:.1f} of {total / GIB:.1f} GiB, {rate / GIB:.2f} GiB/s, {left}"


def at_the_end(what: str, files: int, total: int, seconds: float) -> str:
    rate = f", {total / GIB / seconds:.2f} GiB/s" if seconds else ""
    return f"{what} {files} files, {total / GIB:.2f} GiB, in {seconds:.1f} s{rate}"
