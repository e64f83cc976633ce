# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands whose output is only read. Argument lists, never a shell; English output; a limit in time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Answer:
    """rc is None where the command is missing or ran out of time."""

    rc: int | None
    out: str

    @property
    def ok(self) -> bool:
        return self.rc == 0


def ask(argv: Sequence[str], timeout_s: float = 5) -> Answer:
    environment = {**os.environ, "LC_ALL": "C", "PATH": PATH}
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Answer(None, "")
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"))


def ask_all(commands: Sequence[Sequence[str]], timeout_s: float = 5) -> list[Answer]:
    """Several at the same time; answers in the order of the commands."""
    if not commands:
        return []
    with ThreadPoolExecutor(max_workers=min(16, len(commands))) as pool:
        return list(pool.map(lambda argv: ask(argv, timeout_s), commands))
