# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver and kernel of a node: what is loaded, what is installed, and what the next boot will bring.

Files are read below `root`, so that a copy of a node can be looked at as well; commands are asked only where root is
/. What could not be read is None. driver_judgement says what to think of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import commands, driver_family, driver_traces, engine_state, grub
from .boot_readiness import grub_text
from .debian_packages import Package, read_status
from .kernel_files import Tree
from .kernel_log import KernelLog, read_kernel_log
from .kernel_modules import RELEASE, NvidiaModule, kernels, modules_told, nvidia_module

LIBRARIES = ("usr/lib/aarch64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib")
LOADED = ("proc/driver/nvidia/version", "sys/module/nvidia")  # there as soon as a module is loaded
# In this order: the first that is installed tells the driver's version and flavour.
_DRIVER_PACKAGES = (
    r"nvidia-driver-\d+(-server)?(-open)?",
    r"nvidia-open(-\d+)?|nvidia-driver",
    r"nvidia-dkms-\S+|nvidia-kernel-dkms|nvidia-kernel-open-dkms",
    r"nvidia-kernel-common-\S+",
)
_KIB_PER_GIB = 1 << 20


@dataclass(frozen=True)
class Kho:
    """CMA as /proc/meminfo tells it, and whether the kernel's handover over kexec is switched off."""

    cma_total_gib: float | None
    cma_free_gib: float | None
    disabled: bool | None
    disabled_next_boot: bool | None

    @property
    def takes_memory(self) -> bool | None:
        """More CMA free than there is at all: the tell-tale of memory that the handover took."""
        if self.cma_total_gib is None or self.cma_free_gib is None:
            return None
        return self.cma_free_gib > self.cma_total_gib


@dataclass(frozen=True)
class DriverLook:
    """versions are texts such as 580.142; packages are those of driver and kernel, removed ones (rc) too."""

    loaded: str | None
    loaded_unknown: bool
    userspace: str | None
    installed: str | None
    flavour: str | None
    running: str | None
    running_options: tuple[str, ...] | None
    next_boot: str | None
    next_boot_options: tuple[str, ...]
    next_boot_lacks: tuple[str, ...] | None
    modules_known: bool
    module: NvidiaModule | None
    kernels: tuple[str, ...]
    packages: Mapping[str, Package] | None
    kho: Kho
    mem_total_gib: float | None
    crash_kernel_bytes: int | None
    overrides: tuple[str, ...]
    runfile: str | None
    runfile_log: str | None
    automatic: tuple[str, ...]
    cdi: Mapping[str, tuple[str, ...]]
    log: KernelLog | None
    unreadable: tuple[str, ...] = field(default=())

    @property
    def modules_present(self) -> bool | None:
        """None where the next boot's kernel or its modules are unknown."""
        if not self.modules_known:
            return None
        return self.module is not None and not self.module.missing

    @property
    def movers(self) -> list[Package]:
        return [
            each
            for each in (self.packages or {}).values()
            if each.installed and driver_family.MOVERS.fullmatch(each.name)
        ]

    @property
    def anything(self) -> bool:
        """Is there any NVIDIA driver, loaded, installed or in part?"""
        return bool(
            self.loaded
            or self.loaded_unknown
            or self.userspace
            or self.installed
            or self.module
            or self.runfile
        )

    def as_dict(self) -> dict[str, Any]:
        """What the module driver_info returns besides its judgement."""
        packages = (
            None if self.packages is None else sorted(self.packages.values(), key=lambda each: each.name)
        )
        return {
            "driver": {
                "loaded": self.loaded,
                "userspace": self.userspace,
                "installed": self.installed,
                "flavour": self.flavour if self.anything else "none",
                "next_boot": self.module.version if self.module else None,
            },
            "kernel": {
                "running": self.running,
                "next_boot": self.next_boot,
                "modules_present": self.modules_present,
            },
            "holds": [each.name for each in packages or () if each.held],
            "packages": packages
            and [{"name": each.name, "version": each.version, "state": each.state} for each in packages],
            "kho": {**asdict(self.kho), "takes_memory": self.kho.takes_memory},
            "xids": self.log.xids if self.log else None,
        }


def look(root: str = "/", kernel_log: str | None = None) -> DriverLook:
    """One look below root; kernel_log is the text of this boot's kernel log, asked of a live node if not given."""
    tree = Tree(root)
    live = os.path.realpath(root) == "/"
    status = tree.text("var/lib/dpkg/status")
    installed_here = read_status(status or "")
    packages = _family(installed_here) if installed_here else None  # no list of no package at all is unknown
    options = _words(tree.text("proc/cmdline"))
    entry = grub.next_entry(grub_text(tree, "grub.cfg"), grub_text(tree, "grubenv"))
    next_boot = entry.release if entry and RELEASE.fullmatch(entry.release) else None
    known, images = kernels(tree), tree.names("boot")
    module = (
        nvidia_module(tree, next_boot, packages or {}, modinfo if live else _cannot) if next_boot else None
    )
    installed, packaged_flavour = _installed(packages or {})
    total, kho = _memory(tree, options, entry.options if next_boot else None)
    loaded = engine_state.driver_version(Path(root)) or _version(tree.text("sys/module/nvidia/version"))
    loaded_unknown = not loaded and any(os.path.exists(tree.path(path)) for path in LOADED)
    log = kernel_log if kernel_log is not None else _journal() if live else None
    return DriverLook(
        loaded=loaded,
        loaded_unknown=loaded_unknown,
        userspace=_userspace(tree),
        installed=installed,
        flavour=_loaded_flavour(tree) or packaged_flavour,
        running=tree.text("proc/sys/kernel/osrelease"),
        running_options=options,
        next_boot=next_boot,
        next_boot_options=entry.options if next_boot else (),
        next_boot_lacks=_lacks(tree, next_boot, images) if next_boot and images else None,
        modules_known=bool(next_boot and known) and modules_told(tree, next_boot),
        module=module,
        kernels=tuple(known),
        packages=packages,
        kho=kho,
        mem_total_gib=total,
        crash_kernel_bytes=tree.number("sys/kernel/kexec_crash_size"),
        overrides=tuple(driver_traces.overrides(tree)),
        runfile=driver_traces.runfile(tree),
        runfile_log=driver_traces.runfile_version(tree),
        automatic=tuple(driver_traces.automatic(tree)),
        cdi=driver_traces.cdi(tree),
        log=None if log is None else read_kernel_log(log),
        unreadable=tuple(dict.fromkeys(tree.unreadable)),
    )


def _lacks(tree: Tree, release: str, images: list[str]) -> tuple[str, ...]:
    """What of a kernel is not in /boot; of its initrd only where others have one, since a kernel may do without."""
    kernel, initrd = f"vmlinuz-{release}", f"initrd.img-{release}"
    wanted = [kernel] if kernel not in images else []
    if any(name.startswith("initrd.img-") for name in images) and not _has_content(tree, initrd):
        wanted.append(initrd)
    return tuple(f"/boot/{name}" for name in wanted)


def _has_content(tree: Tree, name: str) -> bool:
    """A full /boot leaves an empty file."""
    try:
        return os.path.getsize(tree.path("boot", name)) > 0
    except OSError:
        return False


def _version(text: str | None) -> str | None:
    found = re.match(r"\d+(?:\.\d+)+$", text or "")
    return found[0] if found else None


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(text.split())


def _family(packages: Mapping[str, Package]) -> dict[str, Package]:
    return {name: each for name, each in packages.items() if driver_family.in_family(name)}


def _loaded_flavour(tree: Tree) -> str | None:
    text = tree.text("proc/driver/nvidia/version") or ""
    if "Kernel Module" not in text:
        return None
    return "open" if "Open Kernel Module" in text else "closed"


def _installed(packages: Mapping[str, Package]) -> tuple[str | None, str | None]:
    """Version and flavour that the packages tell; the flavour is none where there is no driver at all."""
    for pattern in _DRIVER_PACKAGES:
        found = [each for each in packages.values() if each.installed and re.fullmatch(pattern, each.name)]
        if found:
            newest = max(found, key=lambda each: [int(part) for part in re.findall(r"\d+", each.upstream)])
            names = " ".join(name for name, each in packages.items() if each.installed)
            is_open = "open" in newest.name or ("common" in newest.name and "-open" in names)
            return newest.upstream, "open" if is_open else "closed"
    return None, None


def _userspace(tree: Tree) -> str | None:
    """The version of the libraries that programs load, from the name of NVML's or CUDA's file."""
    for folder in LIBRARIES:
        for library in ("libnvidia-ml.so", "libcuda.so"):
            try:
                target = os.path.basename(os.readlink(tree.path(folder, f"{library}.1")))
            except OSError:
                target = ""
            wanted = _version(target.removeprefix(f"{library}."))
            names = [target] if wanted else tree.names(folder)
            versions = {name.removeprefix(f"{library}.") for name in names if name.startswith(f"{library}.")}
            found = [version for version in versions if _version(version)]
            if len(found) == 1:
                return found[0]
    return None


def _memory(
    tree: Tree, options: Iterable[str] | None, next_options: Iterable[str] | None
) -> tuple[float | None, Kho]:
    text = tree.text("proc/meminfo") or ""
    kib = {name: int(value) for name, value in re.findall(r"(?m)^(\w+):\s+(\d{1,15}) kB", text)}
    total, cma_total, cma_free = (
        round(kib[name] / _KIB_PER_GIB, 2) if name in kib else None
        for name in ("MemTotal", "CmaTotal", "CmaFree")
    )
    off, next_off = (None if words is None else "kho=off" in words for words in (options, next_options))
    if (
        "HugePages_Total" in text or "Hugepagesize" in kib
    ):  # these come after CMA: the text is not cut off before it
        cma_total, cma_free = cma_total or 0.0, cma_free or 0.0  # a kernel without CMA has no lines for it
    return total, Kho(cma_total, cma_free, off, next_off)


def _journal() -> str | None:
    argv = ["journalctl", "--dmesg", "--boot", "--no-pager", "--output=cat", "--grep=NVRM|DOE|AER|mlx5"]
    answer = commands.ask(argv, timeout_s=15)
    # journalctl ends with 1 where no line matches; that is an answer too, but not without any journal.
    return answer.out if answer.rc in (0, 1) else None


def modinfo(path: str) -> str:
    """What modinfo prints of a module; empty where it cannot be asked."""
    return commands.ask(["modinfo", path]).out


def _cannot(_path: str) -> str:
    return ""
