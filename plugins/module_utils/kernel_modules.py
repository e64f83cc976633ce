# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a kernel, running or not, have an NVIDIA module, of which version and licence?"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .debian_packages import Package
from .kernel_files import Tree

RELEASE = re.compile(r"\d[\w.+~-]*")
_FILE = re.compile(r"(?:\S*/)?nvidia\.ko(?:\.(?:zst|xz|gz))?")
_COMPRESSED = (b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"\x1f\x8b")  # zstd, xz, gzip


@dataclass(frozen=True)
class NvidiaModule:
    """The module that modprobe would load; version and open_flavour are None where nothing tells them.

    missing: modprobe does not find it, because the file or (listed is false) its line in modules.dep is not there.
    package: the one that brings the modules, if any does.
    """

    path: str
    version: str | None
    open_flavour: bool | None
    missing: bool = False
    listed: bool = True
    package: str | None = None


def folder_of(tree: Tree, release: str) -> str:
    top = "lib/modules" if os.path.isdir(tree.path("lib/modules")) else "usr/lib/modules"
    return f"{top}/{release}"


def kernels(tree: Tree) -> list[str]:
    """The kernels that have a folder of modules."""
    return [name for name in tree.names(os.path.dirname(folder_of(tree, "x"))) if RELEASE.fullmatch(name)]


def modules_told(tree: Tree, release: str) -> bool:
    """False where modules.dep is there and says nothing, so that it is unknown what modprobe would find."""
    path = folder_of(tree, release), "modules.dep"
    return tree.text(*path) is not None or not os.path.exists(tree.path(*path))


def nvidia_module(
    tree: Tree, release: str, packages: Mapping[str, Package], modinfo: Callable[[str], str]
) -> NvidiaModule | None:
    """The kernel's NVIDIA module; None where it has none. modinfo gives the text for a path, empty if it cannot."""
    folder = folder_of(tree, release)
    listed = tree.text(folder, "modules.dep")
    if listed is None:
        paths = _on_disk(tree, folder)
    else:
        paths = [line.partition(":")[0] for line in listed.splitlines() if ":" in line]
        paths = [path for path in paths if _FILE.fullmatch(path) and "\0" not in path]
        if not paths and (lost := _on_disk(tree, folder)):
            return NvidiaModule(lost[0], None, None, missing=True, listed=False)
    if not paths:
        return None
    path = min(paths, key=lambda each: (not each.startswith("updates/"), each))  # depmod's own order
    package = _package(release, packages)
    if not os.path.isfile(tree.path(folder, path)):
        return NvidiaModule(path, None, None, missing=True, package=package)
    version, licence = _tells(tree, tree.path(folder, path), modinfo)
    if path.startswith("updates/") and not path.endswith(".ko"):
        version = version or _dkms_version(tree, release)
    elif package and not path.endswith(".ko"):
        version = version or _wanted_by(packages[package])
        licence = licence or ("Dual MIT/GPL" if "-open-" in package else "NVIDIA")
    return NvidiaModule(path, version, _is_open(licence), package=package)


def _on_disk(tree: Tree, folder: str) -> list[str]:
    top = tree.path(folder)
    found = (os.path.join(where, name) for where, _folders, names in os.walk(top) for name in names)
    return [os.path.relpath(path, top) for path in found if _FILE.fullmatch(os.path.basename(path))]


def _tells(tree: Tree, path: str, modinfo: Callable[[str], str]) -> tuple[str | None, str | None]:
    """Version and licence that the file itself tells; only one that is not compressed can be read here."""
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if path.endswith(".ko"):
                version = re.search(rb"(?<![!-~])version=(\d[\d.]*\d)\0", content)
                licence = re.search(rb"(?<![!-~])license=([ -~]{1,80})\0", content)
            elif content[:6].startswith(_COMPRESSED):
                said = modinfo(path).encode()
                version = re.search(rb"(?m)^version:\s+(\d\S*)", said)
                licence = re.search(rb"(?m)^license:\s+(\S.*)$", said)
            else:
                raise ValueError("neither an object file nor compressed")
            if path.endswith(".ko") and not version:
                raise ValueError("an NVIDIA module always tells its version")
            return tuple(match and match[1].decode("utf-8", "replace") for match in (version, licence))
    except (OSError, ValueError):  # ValueError: also an empty file, which cannot be mapped
        tree.unreadable.append(path)
        return None, None


def _is_open(licence: str | None) -> bool | None:
    return None if not licence else "GPL" in licence or "MIT" in licence


def _dkms_version(tree: Tree, release: str) -> str | None:
    versions = [name for name in tree.names("var/lib/dkms/nvidia") if name[:1].isdigit()]
    built = [name for name in versions if os.path.isdir(tree.path("var/lib/dkms/nvidia", name, release))]
    return built[0] if len(built) == 1 else None


def _package(release: str, packages: Mapping[str, Package]) -> str | None:
    pattern = re.compile(rf"linux-modules-nvidia-\d[\w-]*-{re.escape(release)}")
    return next((name for name, each in packages.items() if each.installed and pattern.fullmatch(name)), None)


def _wanted_by(package: Package) -> str | None:
    """linux-modules-nvidia-* do not carry the driver's version, but want its common files at that very version."""
    found = re.search(r"nvidia-kernel-common-[\w-]+ \(>= (\d+(?:\.\d+)+)", package.depends)
    return found[1] if found else None
