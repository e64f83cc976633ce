# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said on the way of long work: kept for the result, and written at once to a file that somebody follows."""

from __future__ import annotations


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
