# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages are driver and kernel, which of them are held, and which autoremove must not take."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from .debian_packages import Package

# All that moves with the driver: named by NVIDIA, or by the kernel that carries its modules.
DRIVER = re.compile(
    r"(lib)?nvidia-(?!container|nsight|spark|fs)\S+|xserver-xorg-video-nvidia\S*|cuda-drivers\S*"
)
KERNEL = re.compile(r"linux-\S*nvidia\S*|linux-(image|headers|modules|modules-extra|tools)-\d\S*")
# Metapackages of a kernel flavour; the series of Ubuntu ends their names.
KERNEL_META = re.compile(r"linux-\S*nvidia\S*-\d\d\.\d\d\S*")
# An upgrade of one of these moves the driver or the kernel.
MOVERS = re.compile(
    rf"nvidia-driver-\d+(-server)?(-open)?|nvidia-open(-\d+)?|cuda-drivers(-\d+)?|{KERNEL_META.pattern}"
)
# These carry the driver's version; the modules of a kernel and metapackages of a branch do not.
VERSIONED = re.compile(
    r"nvidia-(driver|kernel-common|kernel-source|dkms|utils|compute-utils)-\d+\S*"
    r"|libnvidia-(compute|common|gl|cfg1|decode|encode|extra|fbc1)-\d+\S*|xserver-xorg-video-nvidia-\d+\S*"
)
OTA_META = re.compile(r"dgx-\S*-ota-update-meta")
# What DGX OS brings besides; its packages are marked as automatically installed.
PLATFORM = re.compile(r"dgx-\S+|(lib)?nvidia-\S+|cuda-drivers\S*|doca-\S+|mlnx-\S+|mft(-\S+)?")
_RELEASE = re.compile(r"linux-\S*?-(\d+\.\d+\.\d+-\d+-[a-z][\w.+-]*)")
_MODULES = re.compile(r"linux-modules-nvidia-(\d\S*?)-(?:\d+\.\d+\.\d+-\d+-\S+|nvidia\S*)")


def release_of(name: str) -> str | None:
    """linux-image-6.17.0-1014-nvidia -> 6.17.0-1014-nvidia; None where the name tells no kernel."""
    found = _RELEASE.fullmatch(name)
    return found[1] if found else None


def flavour_of_modules(name: str) -> str | None:
    """linux-modules-nvidia-580-open-6.17.0-1014-nvidia -> 580-open; None for any other package."""
    found = _MODULES.fullmatch(name)
    return found[1] if found else None


def versions(packages: Mapping[str, Package]) -> dict[str, list[str]]:
    """The versions that the driver's packages have, each with the packages; one where all is well."""
    found: dict[str, list[str]] = {}
    for name, each in packages.items():
        if each.installed and VERSIONED.fullmatch(name):
            found.setdefault(each.upstream, []).append(name)
    return found


def in_family(name: str) -> bool:
    """Is this a package of driver or kernel, or one that says which of them there should be?"""
    return bool(
        name == "dgx-release" or DRIVER.fullmatch(name) or KERNEL.fullmatch(name) or OTA_META.fullmatch(name)
    )


def to_hold(
    packages: Mapping[str, Package], drivers: Collection[str], releases: Collection[str]
) -> list[str]:
    """The installed packages without which neither driver nor kernel can move.

    `drivers` are the versions that the driver's packages have, `releases` the kernels that run now and boot next.
    """
    return sorted(
        name
        for name, each in packages.items()
        if each.installed
        and (
            KERNEL_META.fullmatch(name)
            or release_of(name) in releases
            or (DRIVER.fullmatch(name) and each.upstream in drivers)
        )
    )


def to_protect(
    packages: Mapping[str, Package], automatic: Collection[str], held: Collection[str]
) -> list[str]:
    """Installed packages that autoremove may take and must not.

    Kernels beside those that are held stay with autoremove, or /boot fills up.
    """
    return sorted(
        name
        for name, each in packages.items()
        if each.installed
        and name in automatic
        and (name in held or PLATFORM.fullmatch(name) and not release_of(name))
    )
