# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk and the kernel that every virtual machine boots from, built once per content of vm_image/."""

from __future__ import annotations

import shutil
from pathlib import Path

import image
import settings
from settings import Lab
from system import remove_tree, run

RECIPE = settings.HERE / "vm_image"
DISK, KERNEL, INITRD = "disk.ext4", "vmlinuz", "initrd"
SIZE = "3G"  # sparse; 0.9 GB are in use, the rest is room for what a node writes


def build(lab: Lab) -> Path:
    """The image's folder; built if no lab needed it before, at a cost of two minutes and 1 GB."""
    return image.kept(lab, RECIPE, make)


def digest() -> str:
    return image.digest(RECIPE)


def make(folder: Path) -> None:
    """A tree, its kernel beside it, and a file system of it: no partitions, no boot loader, no loop device."""
    root = folder / "root"
    root.mkdir()
    image.bootstrap(root, RECIPE, [f"--essential-hook={RECIPE / 'initramfs.sh'}"])
    for name, pattern in ((KERNEL, "vmlinuz-*"), (INITRD, "initrd.img-*")):
        (found,) = (root / "boot").glob(pattern)
        shutil.copyfile(found, folder / name)
    run(["mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", root, folder / DISK, SIZE])
    remove_tree(root)
