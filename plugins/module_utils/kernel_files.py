# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading small kernel files (sysfs, procfs) of which any may be missing or refuse to be read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

# dev_valid_name() of the kernel: at most 15 bytes, no slash, colon or white space, not . or ..
INTERFACE_NAME = re.compile(r"(?!\.{1,2}$)[!-.0-9;-~]{1,15}")


# More digits than any number here has; Python's int() refuses texts of some thousands.
_DIGITS = 18


def is_number(text: str) -> bool:
    """Whether int() takes the text as it stands: ASCII digits alone, and not without end."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


@dataclass
class Tree:
    """A folder of kernel files; paths are relative to `root`.

    A file that is not there is absent (None). One that is there and cannot be read is unknown: also None,
    and its path is kept in `unreadable` so that the caller can say so.
    """

    root: str
    unreadable: list[str] = field(default_factory=list)

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def text(self, *parts: str) -> str | None:
        """The file's text without surrounding white space, None where absent, unreadable or empty."""
        path = self.path(*parts)
        try:
            with open(path, "rb") as stream:
                return stream.read().decode("utf-8", "replace").strip() or None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            self.unreadable.append(path)
            return None

    def number(self, *parts: str) -> int | None:
        text = self.text(*parts)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            self.unreadable.append(self.path(*parts))
            return None

    def interface(self, *parts: str) -> str | None:
        """The name of a network interface that a file holds; anything that cannot be one is unreadable."""
        text = self.text(*parts)
        if text is not None and not INTERFACE_NAME.fullmatch(text):
            self.unreadable.append(self.path(*parts))
            return None
        return text

    def names(self, *parts: str) -> list[str]:
        """Entries of a folder, sorted; empty where it is absent or cannot be listed."""
        path = self.path(*parts)
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            self.unreadable.append(path)
            return []
