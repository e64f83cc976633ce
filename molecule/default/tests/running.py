# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of site.yml that something is done to while it goes on, and releases that differ in one word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from conftest import INVENTORY, PROJECT, Run, shell


def another_release(word: str, **more) -> tuple[str, str]:
    """Words of a command line that want a release of its own. `more` is laid over the profile as well."""
    overrides = {"engine": {"environment": {"TANDEM_REHEARSAL": word}}, **more}
    return "-e", json.dumps({"tandem_profile_overrides": overrides})


class Running:
    """One run of site.yml in a process group of its own."""

    def __init__(self, *words: str):
        self.text = ""
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            ["ansible-playbook", str(PROJECT / "site.yml"), "-i", str(INVENTORY), *words],
            cwd=PROJECT,
            env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def read_until(self, marker: str) -> None:
        """Returns when a line holds the marker; AssertionError where the run ends without it."""
        for line in self._process.stdout:
            self.text += line
            if marker in line:
                return
        raise AssertionError(f"the run ended without {marker!r}: {self.text}")

    def kill(self) -> None:
        """As when the controller loses power: no process of the run is left, none could say good-bye."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.stdout.close()
        self._process.wait()

    def finish(self) -> Run:
        self.text += self._process.stdout.read()
        return Run(self._process.wait(), self.text, time.monotonic() - self._begun)


def released(node: str) -> dict[str, str]:
    """The release that a node runs and the one that it remembers as proven."""
    return {
        "current": shell(node, "basename $(readlink /opt/tandem/current)"),
        "applied": shell(node, "cat /var/lib/tandem/applied"),
    }


def history(node: str, count: int = 1) -> list[tuple[str, str, str]]:
    """(event, release, outcome) of the last lines of a node's history."""
    lines = shell(node, f"tail -n {count} /var/lib/tandem/history.jsonl").splitlines()
    return [(line["event"], line["digest"], line["outcome"]) for line in map(json.loads, lines)]
