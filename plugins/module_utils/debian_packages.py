# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dpkg and apt tell of packages: installed, held, removed, available; how versions and dependencies compare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cmp_to_key

from .kernel_files import is_number

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
        return upstream(self.version)


@dataclass(frozen=True)
class Available:
    """One version of a package that apt can install."""

    name: str
    version: str
    depends: str = ""

    @property
    def upstream(self) -> str:
        return upstream(self.version)


def upstream(version: str) -> str:
    """The version without epoch and the packager's revision."""
    version = version.partition(":")[2] or version
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


def read_available(text: str) -> dict[str, list[Available]]:
    """What `apt-cache show` prints -> the versions of each package, the newest first, each once."""
    found: dict[str, dict[str, Available]] = {}
    for paragraph in re.split(r"\n\s*\n", text):
        values = dict(re.findall(r"(?m)^(Package|Version|Depends): *(.*)$", paragraph))
        name, version = (values.get(key, "").strip() for key in ("Package", "Version"))
        if name and version:
            found.setdefault(name, {}).setdefault(
                version, Available(name, version, values.get("Depends", ""))
            )
    return {
        name: sorted(versions.values(), key=lambda each: version_key(each.version), reverse=True)
        for name, versions in found.items()
    }


def read_automatic(text: str) -> frozenset[str]:
    """apt's extended_states -> the packages that autoremove takes once nothing needs them."""
    found = set()
    for paragraph in re.split(r"\n\s*\n", text):
        values = dict(re.findall(r"(?m)^(Package|Auto-Installed): *(\S+)", paragraph))
        if values.get("Auto-Installed") == "1" and "Package" in values:
            found.add(values["Package"])
    return frozenset(found)


def _order(character: str) -> int:
    """A tilde sorts before the end, the end before letters, letters before all else (Debian policy 5.6.12)."""
    return (
        -1 if character == "~" else 0 if not character else ord(character) + 256 * (not character.isalpha())
    )


def _compare_parts(one: str, other: str) -> int:
    while one or other:
        words = [re.match(r"[^0-9]*", part)[0] for part in (one, other)]
        for index in range(max(map(len, words))):
            left, right = (_order(word[index : index + 1]) for word in words)
            if left != right:
                return -1 if left < right else 1
        one, other = (part[len(word) :] for part, word in zip((one, other), words, strict=True))
        numbers = [re.match(r"[0-9]*", part)[0] for part in (one, other)]
        # By length, then by digits: a number of thousands of digits is none to Python.
        left, right = ((len(digits), digits) for digits in (number.lstrip("0") for number in numbers))
        if left != right:
            return -1 if left < right else 1
        one, other = (part[len(number) :] for part, number in zip((one, other), numbers, strict=True))
    return 0


def compare(one: str, other: str) -> int:
    """Below, equal to or above zero, as the first version is older, the same or newer (Debian policy 5.6.12)."""
    split = []
    for version in (one, other):
        epoch, colon, rest = version.partition(":")
        if not (colon and is_number(epoch)):
            epoch, rest = "0", version
        main, dash, revision = rest.rpartition("-")
        split.append((int(epoch), main if dash else rest, revision if dash else "0"))
    (epoch_one, *parts_one), (epoch_other, *parts_other) = split
    if epoch_one != epoch_other:
        return epoch_one - epoch_other
    return next((sign for sign in map(_compare_parts, parts_one, parts_other) if sign), 0)


version_key = cmp_to_key(compare)
_RELATIONS = {
    "<<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    "=": lambda sign: sign == 0,
    ">=": lambda sign: sign >= 0,
    ">>": lambda sign: sign > 0,
}


def dependencies(depends: str) -> Iterator[list[tuple[str, str, str]]]:
    """Each clause as its alternatives: (name, relation, version); both texts are empty where any version will do."""
    for clause in filter(None, map(str.strip, depends.split(","))):
        found = [
            re.fullmatch(r"([^\s:(]+)(?::\w+)?\s*(?:\((<<|<=|=|>=|>>)\s*([^)\s]+)\s*\))?.*", each.strip())
            for each in clause.split("|")
        ]
        yield [(match[1], match[2] or "", match[3] or "") for match in found if match]


def contradicted(depends: str, versions: Mapping[str, str]) -> list[str]:
    """The clauses that cannot hold with these versions; what is not among them may be anything."""
    found = []
    for alternatives in dependencies(depends):
        named = [each for each in alternatives if each[0] in versions]
        holds = [
            not relation or _RELATIONS[relation](compare(versions[name], version))
            for name, relation, version in named
        ]
        if named and len(named) == len(alternatives) and not any(holds):
            found.append(" | ".join(f"{name} ({relation} {version})" for name, relation, version in named))
    return found
