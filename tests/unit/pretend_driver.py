# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pretend node's driver and kernel as files below a folder: a healthy one, of which a test changes one thing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sysfs_tree import put

KERNEL = "6.17.0-1014-nvidia"
DRIVER = "580.142"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {}  Release Build  (builder@host)"
CLOSED = "NVRM version: NVIDIA UNIX aarch64 Kernel Module  {}  Tue Jan  6 10:00:00 UTC 2026"
MODULES = "linux-modules-nvidia-580-open"
METAS = ("linux-image-nvidia-hwe-24.04", f"{MODULES}-nvidia-hwe-24.04")

MEMINFO = """MemTotal:       127535104 kB
MemFree:        92274688 kB
CmaTotal:       {} kB
CmaFree:        {} kB
HugePages_Total:       0
Hugepagesize:       2048 kB"""

HEADER = """if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   set boot_once=true
else
   set default="@default@"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
  fi
}
"""
ENTRY = """menuentry 'DGX OS GNU/Linux@title@' --class dgx $menuentry_id_option 'gnulinux-@id@' {
\tlinux\t/boot/vmlinuz-@release@ root=UUID=0e1d ro @options@
\tinitrd\t/boot/initrd.img-@release@
}
"""


def grub_config(*releases: str, default: str = "0", options: str = "quiet") -> str:
    """The newest kernel first, as update-grub writes it: alone, and with the others in a submenu."""

    def entry(title: str, name: str, release: str) -> str:
        text = ENTRY.replace("@title@", title).replace("@id@", name)
        return text.replace("@release@", release).replace("@options@", options)

    others = "".join(entry(f", with Linux {each}", f"{each}-advanced", each) for each in releases)
    submenu = "submenu 'Advanced options for DGX OS GNU/Linux' $menuentry_id_option 'gnulinux-advanced' {\n"
    menu = entry("", "simple", releases[0]) + submenu + others + "}\n"
    return HEADER.replace("@default@", default) + menu


def grub_environment(**values: str) -> str:
    text = "# GRUB Environment Block\n" + "".join(f"{name}={value}\n" for name, value in values.items())
    return text + "#" * (1024 - len(text))


def package(name: str, version: str, status: str = "install ok installed", depends: str = "") -> str:
    wanted = f"Depends: {depends}\n" if depends else ""
    return f"Package: {name}\nStatus: {status}\nArchitecture: arm64\nVersion: {version}\n{wanted}Description: x\n y\n"


@dataclass
class Spark:
    """What a node has. kernels: release -> the version of its NVIDIA module, None where it has none."""

    loaded: str | None = DRIVER
    version_text: str = OPEN
    userspace: str | None = DRIVER
    installed: str = DRIVER
    running: str = KERNEL
    kernels: dict[str, str | None] = field(default_factory=lambda: {KERNEL: DRIVER})
    held: bool = True
    options: str = "quiet"
    cma_kib: tuple[int, int] = (32768, 30000)
    packages: tuple[str, ...] = ()
    grub: str | None = None
    more: dict[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> str:
        put(root / "proc/sys/kernel/osrelease", self.running)
        put(root / "proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{self.running} {self.options}")
        put(root / "proc/meminfo", MEMINFO.format(*self.cma_kib))
        put(root / "sys/kernel/kexec_crash_size", "0")
        put(root / "boot/grub/grubenv", grub_environment())
        put(root / "boot/grub/grub.cfg", self.grub or grub_config(*self.kernels, options=self.options))
        put(root / "var/lib/dpkg/status", "\n".join(self._packages()))
        if self.loaded:
            put(root / "proc/driver/nvidia/version", self.version_text.format(self.loaded))
        if self.userspace:
            library = root / "usr/lib/aarch64-linux-gnu" / f"libnvidia-ml.so.{self.userspace}"
            put(library, "")
            (library.parent / "libnvidia-ml.so.1").symlink_to(library.name)
        for release, version in self.kernels.items():
            put(root / f"boot/vmlinuz-{release}", "")
            write_modules(root, release, version)
        for path, text in self.more.items():
            put(root / path, text)
        return str(root)

    def _packages(self) -> list[str]:
        status = "hold ok installed" if self.held else "install ok installed"
        version = f"{self.installed}-0ubuntu0.24.04.1"
        yours = (
            "nvidia-driver-580-open",
            "nvidia-kernel-common-580",
            "libnvidia-compute-580",
            "nvidia-utils-580",
        )
        modules = [
            package(f"{MODULES}-{release}", "1", depends=f"nvidia-kernel-common-580 (>= {driver})")
            for release, driver in self.kernels.items()
            if driver
        ]
        return [
            package("bash", "5.2.21-2ubuntu4"),
            *(package(name, version, status) for name in yours),
            *(package(name, "6.17.0-1014.14", status) for name in METAS),
            package("nvidia-driver-570-server", "570.86.15-0ubuntu1", "deinstall ok config-files"),
            *modules,
            *self.packages,
        ]


def write_modules(
    root: Path, release: str, version: str | None, path: str = "kernel/nvidia-580-open/nvidia.ko"
) -> None:
    folder = root / "lib/modules" / release
    listed = "kernel/drivers/net/veth.ko:\n"
    if version:
        module = folder / path
        module.parent.mkdir(parents=True, exist_ok=True)
        told = f"license=Dual MIT/GPL\0version={version}\0supported=external\0".encode()
        compressed = path.endswith(".zst")  # what is compressed tells nothing to who cannot unpack it
        module.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20) if compressed else b"\x7fELF" + bytes(64) + told)
        listed += f"{path}: kernel/drivers/video.ko\n"
    put(folder / "modules.dep", listed)
