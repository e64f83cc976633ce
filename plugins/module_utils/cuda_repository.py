# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's apt repository, for the CUDA toolkit and never for a driver.

The repository has drivers too, and its package cuda-keyring prefers all of it to Ubuntu's (a pin at 600): with that an
ordinary upgrade moves the driver of a Spark. So its files are written here: a key that is known by its fingerprint, a
source, and pins by which apt never takes a driver from it. A mirror has the same layout, and the same label in its
Release file, by which the pins know it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import driver_family
from .apt_transaction import Step
from .debian_packages import Package

LABEL = "NVIDIA CUDA"  # of the Release file
KEYRING = "/etc/apt/keyrings/tandem-cuda.asc"
SOURCES = "/etc/apt/sources.list.d/tandem-cuda.sources"
# The first that names a package wins, and files are read in the order of their names.
PREFERENCES = "/etc/apt/preferences.d/00-tandem-cuda"
WRITTEN = "# Written by tandem.spark (role runtime)."
DRIVERS = (
    "cuda-drivers*",
    "libnvidia-*",
    "linux-*nvidia*",
    "nvidia-compute-utils-*",
    "nvidia-dkms-*",
    "nvidia-driver-*",
    "nvidia-firmware-*",
    "nvidia-kernel-*",
    "nvidia-modprobe",
    "nvidia-open*",
    "nvidia-persistenced*",
    "nvidia-settings",
    "nvidia-utils-*",
    "nvidia-xconfig",
    "xserver-xorg-video-nvidia*",
)
_ONE_LINE = re.compile(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)", re.MULTILINE)
_URIS = re.compile(r"(?im)^URIs:[ \t]*(.+(?:\n[ \t]+.+)*)")


@dataclass(frozen=True)
class Repository:
    """uri: the folder that holds InRelease. key: a file in it, or an address. fingerprint: of that key, 40 digits."""

    uri: str
    key: str
    fingerprint: str

    @property
    def key_address(self) -> str:
        return self.key if "://" in self.key else f"{self.uri.rstrip('/')}/{self.key}"


def problems(repository: Repository) -> list[str]:
    found = []
    if not re.fullmatch(r"(https?|file)://?\S+", repository.uri):
        found.append(f"uri is {repository.uri!r}, wanted is an address of http, https or file")
    if not re.fullmatch(r"[0-9A-F]{40}", repository.fingerprint):
        found.append(f"fingerprint is {repository.fingerprint!r}, wanted are 40 digits in capitals")
    return found


def sources_text(repository: Repository) -> str:
    """apt's source, a flat repository."""
    return f"{WRITTEN}\nTypes: deb\nURIs: {repository.uri.rstrip('/')}/\nSuites: /\nSigned-By: {KEYRING}\n"


def preferences_text() -> str:
    """Pins by which no driver ever comes from this repository, also where somebody else prefers it."""
    return (
        f"{WRITTEN} The driver is the host's, whatever is newer there.\n"
        f"Package: {' '.join(DRIVERS)}\nPin: release l={LABEL}\nPin-Priority: -1\n"
    )


def others(files: Mapping[str, str], repository: Repository) -> list[str]:
    """Files ({path: text}) in which somebody else has set this repository up.

    apt refuses to work where one repository has two sources with different keys.
    """
    wanted = _plain(repository.uri)
    return sorted(
        path for path, text in files.items() if path != SOURCES and wanted in map(_plain, _addresses(text))
    )


def _addresses(text: str) -> list[str]:
    found = _ONE_LINE.findall(text)
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if not re.search(r"(?im)^Enabled:\s*(no|false|0)\s*$", paragraph):
            found += [word for row in _URIS.findall(paragraph) for word in row.split()]
    return found


def _plain(address: str) -> str:
    return re.sub(r"^(https?|file):/*", "", address).rstrip("/").lower()


def moves(steps: Sequence[Step], packages: Mapping[str, Package]) -> list[str]:
    """What a transaction must not do on the way to a toolkit, a sentence each."""
    found = []
    for step in steps:
        held = step.name in packages and packages[step.name].held
        if driver_family.in_family(step.name):
            found.append(
                f"apt would {step.action} {step.name} {step.after}".rstrip() + ", of driver or kernel"
            )
        elif step.action in ("remove", "downgrade"):
            found.append(f"apt would {step.action} {step.name}")
        elif held:
            found.append(f"apt would change {step.name}, which somebody holds")
    return found
