# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others left on a node that bears on its driver: options, NVIDIA's own installer, upgrades, CDI files."""

from __future__ import annotations

import os
import re

from .kernel_files import Tree

CDI_FOLDERS = ("etc/cdi", "var/run/cdi", "run/cdi")
# A package's own options lie elsewhere.
MODPROBE_FOLDERS = ("etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d")
HARMLESS = re.compile(r"NVreg_(PreserveVideoMemoryAllocations|TemporaryFilePath)=\S*")
UPGRADE_ONCE = "nvidia-spark-run-apt-upgrade-once.service"
UNINSTALLER = "usr/bin/nvidia-uninstall"


def overrides(tree: Tree) -> list[str]:
    """Files that may hide memory from CUDA: options of the NVIDIA modules about memory, or named an override."""
    found = []
    for folder in MODPROBE_FOLDERS:
        for name in filter(lambda each: each.endswith(".conf"), tree.names(folder)):
            lines = re.findall(r"(?m)^\s*options\s+nvidia\S*\s+(.*)$", tree.text(folder, name) or "")
            text = HARMLESS.sub("", " ".join(lines))
            if lines and ("override" in name or re.search(r"(?i)mem|heap|carveout", text)):
                found.append(f"/{folder}/{name}")
    return found


def runfile(tree: Tree) -> str | None:
    """The uninstaller that NVIDIA's own installer leaves; None where it is not there."""
    return UNINSTALLER if os.path.exists(tree.path(UNINSTALLER)) else None


def runfile_version(tree: Tree) -> str | None:
    """The version in the log of NVIDIA's own installer; an empty text where it tells none."""
    text = tree.text("var/log/nvidia-installer.log")
    if text is None:
        return None
    found = re.search(r"(?i)(?:driver_version|driver version|NVIDIA-Linux-\w+-)\W*(\d+(?:\.\d+)+)", text)
    return found[1] if found else ""


def automatic(tree: Tree) -> list[str]:
    """What upgrades packages unasked on this node."""
    found = []
    value = "0"
    for name in tree.names(
        "etc/apt/apt.conf.d"
    ):  # the last one wins, as in apt, which reads no other endings
        if "." not in name or name.endswith(".conf"):
            text = re.sub(r"(?m)^\s*(//|#).*$", "", tree.text("etc/apt/apt.conf.d", name) or "")
            given = re.findall(r"(?<![\w-])Unattended-Upgrade\s+\"?(\w+)", text)
            value = given[-1] if given else value
    if value not in ("0", "false", "no") and not _masked(tree, "apt-daily-upgrade.timer"):
        found.append("unattended-upgrades")
    folders = ("usr/lib/systemd/system", "lib/systemd/system")
    if any(UPGRADE_ONCE in tree.names(each) for each in folders) and not _masked(tree, UPGRADE_ONCE):
        found.append(UPGRADE_ONCE)
    return found


def _masked(tree: Tree, unit: str) -> bool:
    try:
        return os.readlink(tree.path("etc/systemd/system", unit)) == os.devnull
    except OSError:
        return False


def cdi(tree: Tree) -> dict[str, tuple[str, ...]]:
    """CDI files of NVIDIA -> the driver versions that they name."""
    found = {}
    for folder in CDI_FOLDERS:
        if folder.startswith("var/run/") and os.path.islink(tree.path("var/run")):
            continue  # it is /run, and the link in a copy would lead out of it
        for name in tree.names(folder):
            text = tree.text(folder, name) or ""
            versions = set(re.findall(r"/lib(?:cuda|nvidia-ml)\.so\.(\d{2,}(?:\.\d+)+)", text))
            if versions:
                found.setdefault(f"/{folder}/{name}", tuple(sorted(versions)))
    return found
