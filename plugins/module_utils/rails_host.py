# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rails do to a node: files, commands, the lock, the clock. Tests replace it by a pretend node."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import glob

from . import commands, files
from .findings import Finding, finding
from .rails_plan import Link, RailsError, Route, read_links, read_routes

STATE_DIR = "/run/tandem"
BACKUP_DIR = "/var/lib/tandem/backup"


def foreign_file(path: str, netdev: str, effect: str) -> Finding:
    """A file of somebody else that configures a rail; it is backed up before the first change."""
    values = {"path": path, "netdev": netdev, "effect": effect, "backup": BACKUP_DIR}
    return finding("fabric.rail.foreign_file", evidence=path, **values)


def _missing(argv: Sequence[str]) -> RailsError:
    return RailsError(f"{argv[0]} could not be run on this node: install its package, then run again")


class Host:
    """One node. root: where its file system is seen; commands always run on the node itself."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    # Commands

    def run(self, argv: Sequence[str], must: bool = True, timeout_s: float = 60) -> str:
        """Run a command and return its output; RailsError where it fails and `must`."""
        environment = {**os.environ, "LC_ALL": "C", "PATH": commands.PATH}
        try:
            done = subprocess.run(
                list(argv), capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
            )
        except FileNotFoundError:
            raise _missing(argv) from None
        except subprocess.TimeoutExpired:
            raise RailsError(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from None
        if must and done.returncode:
            said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            raise RailsError(f"`{' '.join(argv)}` failed: {said}")
        return done.stdout if not done.returncode else ""

    def which_pass(self, argvs: Sequence[Sequence[str]]) -> list[bool]:
        """Run commands side by side; True for each that exits 0."""
        answers = commands.ask_all(argvs)
        for argv, answer in zip(argvs, answers, strict=True):
            if answer.rc is None:
                raise _missing(argv)
        return [answer.ok for answer in answers]

    def links(self) -> dict[str, Link]:
        return read_links(self.run(["ip", "-j", "address", "show"]))

    def routes(self) -> list[Route]:
        return read_routes(self.run(["ip", "-j", "-4", "route", "show"]))

    # Files

    def read(self, path: str) -> str | None:
        """The text of a file, None where there is none; RailsError where it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise RailsError(
                f"{path} could not be read ({error.strerror}): look at it with `ls -ld`"
            ) from error

    def find(self, pattern: str) -> list[str]:
        """Paths that match, as the node names them, sorted."""
        cut = len(self.root.rstrip("/"))
        return sorted(found[cut:] for found in glob(self.path(pattern), recursive=True))

    def write(self, path: str, text: str | None, mode: int = 0o644) -> bool:
        """Make a file hold this text (None: be absent); True if it changed anything."""
        wanted = files.Wanted(self.path(path), "absent")
        if text is not None:
            wanted = files.Wanted(self.path(path), content=text.encode(), mode=mode)
        try:
            found = files.look(wanted.path, with_content=True)
            if not files.differences(wanted, found):
                return False
            files.apply(wanted, found)
        except files.FilesError as error:
            raise RailsError(str(error)) from error
        return True

    def write_all(self, texts: Mapping[str, str | None], mode: int = 0o644) -> bool:
        """Write several files; True if any changed."""
        changed = [self.write(path, text, mode) for path, text in texts.items()]
        return any(changed)

    def back_up(self, paths: Sequence[str]) -> None:
        """Keep a copy of each file as it was first found."""
        for path in paths:
            kept = BACKUP_DIR + path
            text = self.read(path)
            if text is not None and self.read(kept) is None:
                self.write(kept, text, mode=self.mode(path))

    def mode(self, path: str) -> int:
        """The permissions of a file; whoever reads it must be able to after it was put back."""
        return stat.S_IMODE(os.stat(self.path(path)).st_mode)

    def backups(self) -> dict[str, str]:
        """{path: the copy of it that is kept} of every file of others that lay in the way."""
        copies = [path for path in self.find(f"{BACKUP_DIR}/**") if os.path.isfile(self.path(path))]
        return {copy[len(BACKUP_DIR) :]: copy for copy in copies}

    # The lock and the clock

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One change at a time: the timer's revert and a run of Ansible never cross."""
        os.makedirs(self.path(STATE_DIR), mode=0o755, exist_ok=True)
        with open(self.path(f"{STATE_DIR}/fabric.lock"), "w", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def now(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
