# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands whose output is only read. Argument lists, never a shell; English output; a limit in time."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Answer:
    """rc is None where the command is missing or ran out of time."""

    rc: int | None
    out: str

    @property
    def ok(self) -> bool:
        return self.rc == 0


def _quietly() -> dict[str, Any]:
    return {
        "stdin": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, "LC_ALL": "C", "PATH": PATH},
    }


def there(program: str) -> bool:
    """Is there such a program where commands are looked for?"""
    return shutil.which(program, path=PATH) is not None


def ask(argv: Sequence[str], timeout_s: float = 5, with_errors: bool = False) -> Answer:
    """with_errors: what it prints as errors is a part of the answer."""
    options = {**_quietly(), "stdout": subprocess.PIPE}
    if with_errors:
        options["stderr"] = subprocess.STDOUT
    try:
        done = subprocess.run(list(argv), timeout=timeout_s, check=False, **options)
    except (OSError, subprocess.TimeoutExpired):
        return Answer(None, "")
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"))


def ask_first(argv: Sequence[str], count: int, timeout_s: float = 5) -> list[str]:
    """The first `count` lines that a command prints; fewer where it ends, or its time does. Then it is ended."""
    try:
        process = subprocess.Popen(list(argv), stdout=subprocess.PIPE, **_quietly())
    except OSError:
        return []
    limit = threading.Timer(timeout_s, process.kill)
    limit.daemon = True
    limit.start()
    try:
        with process.stdout as output:
            lines = [line.decode("utf-8", "replace").rstrip("\n") for line in islice(output, count)]
    finally:
        limit.cancel()
        process.kill()
        process.wait()
    return lines


def ask_all(commands: Sequence[Sequence[str]], timeout_s: float = 5) -> list[Answer]:
    """Several at the same time; answers in the order of the commands."""
    if not commands:
        return []
    # Not above: with logging it takes more than a MiB, and the guard, which never asks for several, lives in 25.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=min(16, len(commands))) as pool:
        return list(pool.map(lambda argv: ask(argv, timeout_s), commands))
