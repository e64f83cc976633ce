# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dpkg's status file: what is installed, what is held, and what left only its configuration behind."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WANTED = {"install": "i", "hold": "h", "deinstall": "r", "purge": "p", "unknown": "u"}
_STATES = {
    "installed": "i",
    "config-files": "c",
    "not-installed": "n",
    "half-installed": "H",
    "unpacked": "U",
    "half-configured": "F",
    "triggers-awaited": "W",
    "triggers-pending": "t",
}


@dataclass(frozen=True)
class Package:
    """state as the first column of `dpkg --list`: ii installed, hi installed and held, rc removed."""

    name: str
    version: str
    state: str
    depends: str = ""

    @property
    def installed(self) -> bool:
        return self.state[1] in "iWt"

    @property
    def held(self) -> bool:
        return self.installed and self.state[0] == "h"

    @property
    def broken(self) -> bool:
        return self.state[1] in "HUF"

    @property
    def upstream(self) -> str:
        """1:580.142-0ubuntu0.24.04.1 -> 580.142"""
        version = self.version.partition(":")[2] or self.version
        return version.rpartition("-")[0] or version


def read_status(text: str) -> dict[str, Package]:
    """Packages by name; a paragraph that is cut off or makes no sense is left out."""
    found = {}
    for paragraph in re.split(r"\n\s*\n", text):
        values = dict(re.findall(r"(?m)^(Package|Status|Version|Depends): *(.*)$", paragraph))
        words = values.get("Status", "").split()
        if len(words) != 3 or words[0] not in _WANTED or words[2] not in _STATES or "Package" not in values:
            continue
        state = _WANTED[words[0]] + _STATES[words[2]]
        name = values["Package"].strip()
        found[name] = Package(name, values.get("Version", "").strip(), state, values.get("Depends", ""))
    return found
