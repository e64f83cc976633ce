# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of a lock list on the controller: downloaded once with pip, for the nodes' machine and Python.

pip and not uv: pip reads the controller's own configuration, where an index or a folder with a CPU build may stand.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils.runtime import sha256_of

COMPLETE = "complete.json"


class WheelhouseError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Target:
    """What the wheels are for. `glibc` is the nodes' C library, such as "2.36".

    placed: wheels that lie on the controller already, such as those that were built from source.
    """

    lock: Path
    python: str
    machine: str
    glibc: str
    extra_indexes: tuple[str, ...] = ()
    made_here: Path | None = None
    placed: tuple[Path, ...] = ()

    @property
    def key(self) -> str:
        """Twelve hex digits that stand for the lock list, the machine and the Python."""
        try:
            content = self.lock.read_bytes()
        except OSError as error:
            raise WheelhouseError(
                f"The lock list {self.lock} on the controller cannot be read: {error.strerror}. Name one that is there."
            ) from error
        text = f"{self.machine} {self.python}\n".encode() + content
        return hashlib.sha256(text).hexdigest()[:12]


def platform_tags(machine: str, glibc: str) -> list[str]:
    """pip's platform tags for a node, newest first. pip matches them exactly, so all of them are named."""
    if not re.fullmatch(r"2\.\d+", glibc):
        raise WheelhouseError(
            f"The node's C library is {glibc or 'none that is known'}, wanted is glibc 2.x, which wheels are made for. "
            "Use a distribution with glibc, such as DGX OS, Ubuntu or Debian."
        )
    newest = int(glibc.split(".")[1])
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    return [
        *tags,
        f"manylinux2014_{machine}",
        f"manylinux2010_{machine}",
        f"manylinux1_{machine}",
        f"linux_{machine}",
    ]


def pip_command(target: Target, folder: Path, indexes: tuple[str, ...]) -> list[str]:
    """The command line that downloads every wheel of the list into `folder`."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "download",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--progress-bar=off",
        "--dest",
        str(folder),
        "--find-links",
        str(folder),
        "--requirement",
        str(target.lock),
        "--python-version",
        target.python,
        "--implementation",
        "cp",
    ]
    for tag in platform_tags(target.machine, target.glibc):
        command += ["--platform", tag]
    for index in indexes:
        command += ["--extra-index-url", index]
    return command


def _download(command: list[str], wanted: int, say: Callable[[str], None]) -> str | None:
    """Runs pip and reports each tenth of the wheels. Returns its last words where it failed."""
    words: list[str] = []
    seen = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout:
            words = [*words[-19:], line.strip()]
            if line.startswith("Collecting "):
                seen += 1
                if seen % max(1, wanted // 10) == 0:
                    say(f"wheelhouse: {seen} of {wanted} wheels")
    return None if pip.returncode == 0 else "\n".join(words)


def _make_here(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise WheelhouseError(
            f"`{' '.join(command)}` ended with {done.returncode}, so a wheel that no index has could not be made. "
            f"Its last words:\n{done.stdout.strip()[-2000:]}"
        )


def _place(wheel: Path, target: Path) -> None:
    """Without taking room twice, where one file system has both."""
    target.unlink(missing_ok=True)
    try:
        os.link(wheel, target)
    except OSError:
        shutil.copyfile(wheel, target)


def fill(target: Target, cache: Path, say: Callable[[str], None]) -> tuple[Path, dict[str, str]]:
    """The folder of the wheels and {file name: sha256}; downloads what is missing.

    Two runs at once wait for each other. What an interrupted run brought is kept.
    Raises WheelhouseError with pip's last words.
    """
    folder = cache / target.key
    folder.mkdir(parents=True, exist_ok=True)
    with (cache / f"{target.key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / COMPLETE
        if complete.exists():
            return folder, json.loads(complete.read_text())
        wanted = sum(1 for line in target.lock.read_text().splitlines() if "==" in line)
        say(f"wheelhouse: downloading the {wanted} wheels of {target.lock.name} to {folder}")
        if target.made_here:
            _make_here([sys.executable, str(target.made_here), str(folder)])
        for wheel in target.placed:
            _place(wheel, folder / wheel.name)
        # The controller's own indexes first: an extra index that cannot be reached costs a time-out for every wheel.
        words = _download(pip_command(target, folder, ()), wanted, say)
        if words is not None and target.extra_indexes:
            say(f"wheelhouse: asking {', '.join(target.extra_indexes)} too")
            words = _download(pip_command(target, folder, target.extra_indexes), wanted, say)
        if words is not None:
            raise WheelhouseError(
                f"pip could not download every wheel of {target.lock} for {target.machine}, Python {target.python}. "
                f"Its last words:\n{words}\nCheck the controller's network and `{sys.executable} -m pip --version`, "
                "and run again: what is there stays."
            )
        wheels = {wheel.name: sha256_of(wheel) for wheel in sorted(folder.glob("*.whl"))}
        partial = complete.with_suffix(".part")
        partial.write_text(json.dumps(wheels, indent=1))
        os.replace(partial, complete)
    return folder, wheels
