# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change of driver and kernel asks and does on a node: apt, dpkg, GRUB, files. Tests put a pretend one there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence

from . import boot_readiness, commands, driver, driver_family, driver_record, driver_traces, files, grub
from .debian_packages import Available, Package, read_automatic, read_available, read_status
from .driver_hold import Steps
from .kernel_files import Tree

PREFERENCES = "/etc/apt/preferences.d/tandem-driver"
GRUB_DROPIN = "/etc/default/grub.d/zz-tandem.cfg"
GRUB_TEXT = """# Written by tandem.spark (role driver): what boots is the kernel that proved good, not the newest one.
GRUB_DEFAULT=saved
"""
GRUB_TOOLS = ("grub-reboot", "grub-set-default", "grub-editenv", "update-grub")
# A unit of its own: a controller or a connection that goes away must not take dpkg with it.
APT_UNIT = "tandem-driver.service"
APT_LIMIT_S = 3600
APT = (
    "--yes",
    "--option=DPkg::Lock::Timeout=600",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
    "--option=APT::Install-Recommends=false",
)
MOVING = ("--allow-downgrades", "--allow-change-held-packages")


class DriverError(Exception):
    """What was found, what was wanted and what to do."""


class Host:
    """One node, looked at below `root`; commands always run on the node itself."""

    def __init__(self, root: str = "/") -> None:
        self.tree = Tree(root)

    # Looks

    def look(self) -> driver.DriverLook:
        return driver.look(self.tree.root)

    def packages(self) -> dict[str, Package]:
        return read_status(self.tree.text("var/lib/dpkg/status") or "")

    def automatic(self) -> frozenset[str]:
        return read_automatic(self.tree.text("var/lib/apt/extended_states") or "")

    def boot_id(self) -> str | None:
        return self.tree.text("proc/sys/kernel/random/boot_id")

    def unmasked(self) -> list[str]:
        return [unit for unit in driver_traces.automatic(self.tree) if unit == driver_traces.UPGRADE_ONCE]

    def record(self) -> driver_record.Record:
        try:
            return driver_record.read(self.tree.path(driver_record.PATH[1:]))
        except ValueError as error:
            raise DriverError(f"{error}.") from error

    def write_record(self, record: driver_record.Record) -> None:
        driver_record.write(record, self.tree.path(driver_record.PATH[1:]))

    def offer(self) -> dict[str, list[Available]]:
        """All versions that apt knows of the packages of driver and kernel."""
        names = [
            name for name in self._run(["apt-cache", "pkgnames"]).split() if driver_family.in_family(name)
        ]
        return read_available(self._run(["apt-cache", "show", *sorted(names)])) if names else {}

    def free(self, path: str) -> int:
        while not os.path.exists(path):
            path = os.path.dirname(path)
        return shutil.disk_usage(path).free

    def room(self) -> list[str]:
        return boot_readiness.room(self.tree, self.free)

    def audit(self) -> str:
        """What dpkg finds wrong; empty where all is well."""
        return self._run(["dpkg", "--audit"]).strip()

    def grub(self) -> str:
        return boot_readiness.grub_text(self.tree, "grub.cfg")

    def grub_tools_missing(self) -> list[str]:
        return [tool for tool in GRUB_TOOLS if shutil.which(tool, path=commands.PATH) is None]

    def boots_next(self) -> str | None:
        """The kernel that GRUB boots next."""
        entry = grub.next_entry(self.grub(), boot_readiness.grub_text(self.tree, "grubenv"))
        return entry.release if entry else None

    def unready(self, release: str, version: str) -> list[str]:
        return boot_readiness.unready(self.tree, release, version, self.packages(), driver.modinfo)

    def simulate(self, words: Sequence[str], preferences: str) -> str:
        """What `apt-get install` says that it would do, with preferences that are not those of the node."""
        with tempfile.NamedTemporaryFile("w", suffix=".pref") as stream:
            stream.write((self._text("/etc/apt/preferences") or "") + "\n" + preferences)
            stream.flush()
            option = f"--option=Dir::Etc::preferences={stream.name}"
            os.chmod(stream.name, 0o644)  # apt reads it as the user _apt too
            return self._run(["apt-get", "--simulate", option, *APT, *MOVING, "install", *words], 300)

    # Changes

    def update_lists(self) -> None:
        self._run(["apt-get", "--quiet", "--quiet", "update"], 600)

    def apply(self, steps: Steps) -> None:
        for words, names in (
            (("apt-mark", "unhold"), steps.unhold),
            (("apt-mark", "manual"), steps.manual),
            (("apt-mark", "hold"), steps.hold),
            (("apt-mark", "auto"), steps.auto),
            (("systemctl", "mask"), steps.mask),
            (("systemctl", "unmask"), steps.unmask),
        ):
            if names:
                self._run([*words, *names])

    def write_preferences(self, text: str | None) -> bool:
        """Writes apt's pins, or removes them; True where that changed anything."""
        return self._write(PREFERENCES, text)

    def preferences(self) -> str | None:
        return self._text(PREFERENCES)

    def set_up_grub(self, keep: str) -> None:
        """From now on GRUB boots what it is told; that is `keep`, until it is told otherwise."""
        if self._write(GRUB_DROPIN, GRUB_TEXT):
            self._run(["update-grub"], 300)
        self.boot_always(keep)

    def has_grub(self) -> bool:
        """Whether GRUB's default is what it was told here."""
        return self._text(GRUB_DROPIN) is not None

    def give_grub_back(self) -> None:
        if self._write(GRUB_DROPIN, None):
            self._run(["update-grub"], 300)

    def boot_always(self, release: str) -> None:
        self._run(["grub-editenv", "-", "unset", "next_entry"])
        self._run(["grub-set-default", self._way(release)])
        if (found := self.boots_next()) != release:
            raise DriverError(
                f"GRUB was told to boot {release} and would boot {found or 'something unknown'}. Look at "
                "`grub-editenv list` and at GRUB_DEFAULT in /etc/default/grub and /etc/default/grub.d"
            )

    def boot_once(self, release: str) -> None:
        self._run(["grub-reboot", self._way(release)])
        if (found := self.boots_next()) != release:
            raise DriverError(
                f"GRUB was told to boot {release} once and would boot {found or 'something unknown'}. Look at "
                "`grub-editenv list`"
            )

    def install(self, words: Sequence[str]) -> None:
        """The transaction; it goes on where whoever asked for it goes away."""
        self.wait_for_apt()
        self._in_unit(["apt-get", *APT, *MOVING, "install", *words])

    def finish_broken(self) -> None:
        """Sets up what an earlier transaction left unpacked."""
        self.wait_for_apt()
        self._in_unit(["dpkg", "--configure", "--pending", "--force-confdef", "--force-confold"])

    def wait_for_apt(self) -> None:
        """Until a transaction of an earlier run has ended."""
        until = time.monotonic() + APT_LIMIT_S
        while commands.ask(["systemctl", "is-active", APT_UNIT]).out.strip() in ("active", "activating"):
            if time.monotonic() > until:
                raise DriverError(
                    f"{APT_UNIT} of an earlier run still works: look at `journalctl -u {APT_UNIT}`"
                )
            time.sleep(1)

    # Hands

    def _in_unit(self, argv: Sequence[str]) -> None:
        commands.ask(["systemctl", "reset-failed", APT_UNIT])
        environment = (
            "DEBIAN_FRONTEND=noninteractive",
            "NEEDRESTART_MODE=l",
            "LC_ALL=C",
            f"PATH={commands.PATH}",
        )
        settings = [f"--setenv={each}" for each in environment]
        begun = time.time()
        try:
            self._run(
                ["systemd-run", "--quiet", "--wait", f"--unit={APT_UNIT}", *settings, *argv], APT_LIMIT_S
            )
        except DriverError as error:
            said = commands.ask(
                ["journalctl", "--no-pager", "--output=cat", f"--unit={APT_UNIT}", f"--since=@{begun:.0f}"]
            ).out
            last = "\n".join(said.strip().splitlines()[-30:])
            raise DriverError(f"`{' '.join(argv[:1])}` failed: {error}\n{last}") from error

    def _way(self, release: str) -> str:
        way = grub.way_to(self.grub(), release)
        if way is None:
            raise DriverError(
                f"GRUB's menu has no entry for {release}: run update-grub, and see that /boot is mounted"
            )
        return way

    def _text(self, path: str) -> str | None:
        try:
            with open(self.tree.path(path[1:]), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

    def _write(self, path: str, text: str | None) -> bool:
        path = self.tree.path(path[1:])
        wanted = files.Wanted(path, "absent")
        if text is not None:
            wanted = files.Wanted(path, content=text.encode(), mode=0o644)
        found = files.look(path, with_content=True)
        if not files.differences(wanted, found):
            return False
        files.apply(wanted, found)
        return True

    def _run(self, argv: Sequence[str], timeout_s: float = 60) -> str:
        environment = {
            **os.environ,
            "LC_ALL": "C",
            "PATH": commands.PATH,
            "DEBIAN_FRONTEND": "noninteractive",
        }  # one row a line
        try:
            done = subprocess.run(
                list(argv), capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
            )
        except FileNotFoundError:
            raise DriverError(f"{argv[0]} is not on this node; install its package, then run again") from None
        except subprocess.TimeoutExpired:
            raise DriverError(f"`{argv[0]}` did not end within {timeout_s:g} s") from None
        if done.returncode:
            said = "\n".join(filter(None, (done.stderr.strip(), done.stdout.strip()))) or "it says nothing"
            raise DriverError(f"`{' '.join(argv[:3])} ...` ended with {done.returncode}: {said[-2000:]}")
        return done.stdout
