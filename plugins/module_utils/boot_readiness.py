# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Will a kernel boot with a driver: image, initramfs, module, signature, a way in GRUB; and is there room for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from . import grub
from .debian_packages import Package
from .kernel_files import Tree
from .kernel_modules import folder_of, nvidia_module

GIB = 1 << 30
ROOT_FREE = 4 * GIB  # a driver unpacks to about one, its packages lie beside it, and so do a kernel's modules
BOOT_FREE = GIB // 4  # and never less than two kernels with their initramfs take
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIGNED = b"~Module signature appended~\n"
_SMALLEST = 1 << 10  # an initramfs that was cut off when /boot was full is empty or nearly so


def secure_boot(tree: Tree) -> bool | None:
    """Does the firmware take signed modules only? None where that cannot be read."""
    try:
        with open(tree.path(SECURE_BOOT), "rb") as stream:
            value = stream.read()
    except FileNotFoundError:
        return False  # no such variable: the firmware does not know it, or there is no EFI
    except OSError:
        return None
    return value[-1] == 1 if len(value) == 5 else None


def signed(path: str, modinfo: Callable[[str], str]) -> bool | None:
    """Is a module signed? None where nothing tells it; modinfo gives the text for a path, empty if it cannot."""
    try:
        if path.endswith(".ko"):
            with open(path, "rb") as stream:
                stream.seek(-min(len(SIGNED), os.path.getsize(path)), os.SEEK_END)
                return stream.read() == SIGNED
    except OSError:
        return None
    said = modinfo(path)
    return bool(re.search(r"(?m)^(signer|sig_id):\s*\S", said)) if said else None


def unready(
    tree: Tree, release: str, driver: str, packages: Mapping[str, Package], modinfo: Callable[[str], str]
) -> list[str]:
    """Why the kernel would not come up with the driver, a sentence each; empty where it should."""
    found = [*_files(tree, release), *_module(tree, release, driver, packages, modinfo)]
    if grub.way_to(grub_text(tree, "grub.cfg"), release) is None:
        found.append(f"GRUB's menu has no entry for {release}: run update-grub")
    return found


def _files(tree: Tree, release: str) -> Iterator[str]:
    for name, command in (
        (f"vmlinuz-{release}", f"apt-get install --reinstall linux-image-{release}"),
        (f"initrd.img-{release}", f"update-initramfs -c -k {release}"),
    ):
        try:
            size = os.path.getsize(tree.path("boot", name))
        except OSError:
            size = -1
        if size < _SMALLEST:
            state = "is not there" if size < 0 else f"has only {size} bytes"
            yield f"/boot/{name} {state}: run `{command}`, and see that /boot is mounted and not full"


def _module(
    tree: Tree, release: str, driver: str, packages: Mapping[str, Package], modinfo: Callable[[str], str]
) -> Iterator[str]:
    module = nvidia_module(tree, release, packages, modinfo)
    if module is None or module.missing:
        yield f"{release} has no NVIDIA module: after a boot there would be no GPU"
        return
    if module.version != driver:
        yield f"{module.path} of {release} is of driver {module.version or 'unknown'}, wanted is {driver}"
    guarded = secure_boot(tree)
    if guarded is False:
        return
    is_signed = signed(tree.path(folder_of(tree, release), module.path), modinfo)
    if is_signed is not True:
        how = "is not signed" if is_signed is False else "does not tell whether it is signed"
        why = "takes signed modules only" if guarded else "may take signed modules only"
        yield f"{module.path} of {release} {how}, and the firmware {why}: the kernel would refuse it"


def room(tree: Tree, free: Callable[[str], int]) -> list[str]:
    """What there is too little room for; `free` gives the bytes that are free for root at a path."""
    sizes: dict[str, int] = {}
    for name in tree.names("boot"):
        kind = name.partition("-")[0]
        if kind in ("vmlinuz", "initrd.img") and os.path.isfile(tree.path("boot", name)):
            sizes[kind] = max(sizes.get(kind, 0), os.path.getsize(tree.path("boot", name)))
    wanted = {"/boot": max(BOOT_FREE, 2 * sum(sizes.values())), "/": ROOT_FREE}
    found = []
    for path, least in wanted.items():
        there = free(tree.path(path.lstrip("/")))
        if there < least:
            remedy = (
                "apt-get autoremove takes old kernels" if path == "/boot" else "apt-get clean is a beginning"
            )
            found.append(
                f"{path} has {there / GIB:.2f} GiB free, wanted are {least / GIB:.2f} before a change: {remedy}"
            )
    return found


def grub_text(tree: Tree, name: str) -> str:
    """One of GRUB's files, empty where there is none."""
    return tree.text("boot/grub", name) or tree.text("boot/grub2", name) or ""
