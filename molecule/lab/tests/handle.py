# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab as its user sees it: by the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from settings import HERE, Lab
from system import wait_until


class Handle:
    def __init__(self, name: str):
        self.lab = Lab(name, Path(os.environ.get("LAB_DIR", "/var/lib/tandem-lab")))
        self.environment = {**os.environ, "LAB": name, "LAB_DIR": str(self.lab.home)}

    def start(self, *words: str) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, HERE / "lab.py", *words], env=self.environment)

    def run(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, HERE / "lab.py", *words], env=self.environment, capture_output=True, text=True
        )

    def __call__(self, *words: str) -> str:
        """Output of a command that has to succeed."""
        result = self.run(*words)
        assert result.returncode == 0, f"lab.py {' '.join(words)}: {result.stdout}{result.stderr}"
        return result.stdout

    def sh(self, node: str, script: str) -> str:
        return self("exec", node, "--", "sh", "-c", script).strip()

    def fails(self, node: str, script: str) -> bool:
        return self.run("exec", node, "--", "sh", "-c", script).returncode != 0

    def read(self, node: str, path: str) -> str:
        return self.sh(node, f"cat {path}")

    def eventually(self, node: str, path: str, wanted: str) -> None:
        """The file's content becomes what is wanted: the lab's RDMA devices follow events."""
        wait_until(lambda: self.read(node, path) == wanted, 10, f"{wanted!r} in {path} of {node}")

    def ssh(self, node: str, command: str, check: bool = True) -> str:
        config = self.lab.directory / "ssh_config"
        words = ["ssh", "-F", config, "-o", "BatchMode=yes", node, command]
        return subprocess.run(words, capture_output=True, text=True, check=check).stdout.strip()
