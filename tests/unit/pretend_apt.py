# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pretend node whose apt, dpkg and GRUB change files below a folder, and that can be booted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils import driver_family, driver_pin
from ansible_collections.tandem.spark.plugins.module_utils.debian_packages import Available, Package
from ansible_collections.tandem.spark.plugins.module_utils.driver_host import DriverError, Host
from pretend_driver import OPEN, Spark, grub_config, grub_environment, write_modules
from sysfs_tree import put

WANTED = {"i": "install", "h": "hold", "r": "deinstall"}
STATES = {"i": "installed", "U": "unpacked", "c": "config-files"}


class PretendNode(Host):
    """packages: as dpkg has them. offers: what apt knows. dies: apt is killed after so many packages."""

    def __init__(
        self, root: Path, packages: Mapping[str, Package], offers: Mapping[str, Sequence[Available]]
    ) -> None:
        super().__init__(str(root))
        self.root, self.there, self.offers = root, dict(packages), offers
        self.free_bytes, self.dies, self.ran = 1 << 40, None, []
        Spark().write(root)
        put(root / "proc/sys/kernel/random/boot_id", "boot 1")
        self._save()

    # What Host asks of the machine beside commands

    def free(self, path: str) -> int:
        return self.free_bytes

    def grub_tools_missing(self) -> list[str]:
        return []

    def wait_for_apt(self) -> None:
        pass

    # The machine

    def boot(self, panics: bool = False, driver: bool = True) -> None:
        """As GRUB, the kernel and modprobe do it; a kernel that panics is followed by the default."""
        for _attempt in range(2 if panics else 1):
            release = self.boots_next()
            self._set("next_entry", None)
        put(self.root / "proc/sys/kernel/osrelease", release)
        loaded = self.root / "proc/driver/nvidia/version"
        loaded.unlink(missing_ok=True)
        if driver:
            put(loaded, OPEN.format(self._driver(release)))
        put(self.root / "proc/sys/kernel/random/boot_id", f"boot {len(self.ran)}")

    def _driver(self, release: str) -> str | None:
        for name, each in self.there.items():
            if driver_family.flavour_of_modules(name) and driver_family.release_of(name) == release:
                return driver_pin.driver_of(each)
        return None

    def _run(self, argv: Sequence[str], timeout_s: float = 60) -> str:
        self.ran.append(list(argv))
        if argv[0] == "systemd-run":
            argv = argv[argv.index("apt-get" if "apt-get" in argv else "dpkg") :]
        answer = getattr(self, f"_{argv[0].replace('-', '_')}")(list(argv[1:])) or ""
        self._save()
        return answer

    def _apt_cache(self, words: list[str]) -> str:
        if words == ["pkgnames"]:
            return "\n".join([*self.offers, "bash"])
        known = [each for name in words[1:] for each in self.offers[name]]
        return "\n\n".join(
            f"Package: {each.name}\nVersion: {each.version}\nDepends: {each.depends}" for each in known
        )

    def _apt_get(self, words: list[str]) -> str:
        wanted, lines = words[words.index("install") + 1 :], []
        for count, word in enumerate(wanted):
            name, _equals, version = word.partition("=")
            if not version:
                lines.append(f"Remv {name[:-1]} [x]")
            elif name not in self.there or self.there[name].version != version:
                before = f" [{self.there[name].version}]" if name in self.there else ""
                lines.append(f"Inst {name}{before} ({version} lab:lab [all])")
            if "--simulate" not in words:
                self._take(name, version, unpacked=self.dies is not None and count >= self.dies - 1)
                if self.dies is not None and count >= self.dies - 1:
                    self.dies = None
                    raise DriverError("apt-get was killed")
        return "\n".join(lines)

    def _take(self, name: str, version: str, unpacked: bool) -> None:
        if not version:
            self.there.pop(name[:-1], None)
            return
        depends = next(each.depends for each in self.offers[name] if each.version == version)
        self.there[name] = Package(name, version, "iU" if unpacked else "ii", depends)

    def _dpkg(self, words: list[str]) -> str:
        broken = [name for name, each in self.there.items() if each.broken]
        if words == ["--audit"]:
            return "\n".join(broken)
        for name in broken:
            each = self.there[name]
            self.there[name] = Package(name, each.version, "ii", each.depends)
        return ""

    def _update_grub(self, _words: list[str]) -> None:
        pass

    def _grub_editenv(self, words: list[str]) -> None:
        self._set(words[2], None)

    def _grub_set_default(self, words: list[str]) -> None:
        self._set("saved_entry", words[0])

    def _grub_reboot(self, words: list[str]) -> None:
        self._set("next_entry", words[0])

    def _set(self, name: str, value: str | None) -> None:
        self.values = {**getattr(self, "values", {}), name: value}
        put(
            self.root / "boot/grub/grubenv",
            grub_environment(**{key: each for key, each in self.values.items() if each}),
        )

    def _save(self) -> None:
        """What packages bring: their entries, kernels with their modules, GRUB's menu, the libraries."""
        paragraphs = [
            f"Package: {name}\nStatus: {WANTED[each.state[0]]} ok {STATES[each.state[1]]}\nVersion: {each.version}"
            + (f"\nDepends: {each.depends}" if each.depends else "")
            for name, each in self.there.items()
        ]
        put(self.root / "var/lib/dpkg/status", "\n\n".join(paragraphs))
        releases = [
            name.removeprefix("linux-image-") for name in self.there if name.startswith("linux-image-6")
        ]
        for release in releases:
            for name in ("vmlinuz", "initrd.img"):
                put(self.root / f"boot/{name}-{release}", "x" * 2048)
            if version := self._driver(release):
                write_modules(self.root, release, version)
        saved = (self.root / "etc/default/grub.d/zz-tandem.cfg").exists()
        config = grub_config(*sorted(releases, reverse=True), default="${saved_entry}" if saved else "0")
        config = config.replace("set next_entry=\n", "set next_entry=\n   save_env next_entry\n")
        put(self.root / "boot/grub/grub.cfg", config)
        folder = self.root / "usr/lib/aarch64-linux-gnu"
        for file in folder.glob("lib*"):
            file.unlink()
        library = folder / f"libnvidia-ml.so.{self.there['libnvidia-compute-580'].upstream}"
        put(library, "")
        (folder / "libnvidia-ml.so.1").symlink_to(library.name)
