# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands and eyes of every scenario's tests: the lab's own commands, and the playbooks as a user runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
LAB_PROGRAM = PROJECT / "molecule" / "lab" / "lab.py"
INVENTORY = Path(
    os.environ.get("LAB_DIR", "/var/lib/tandem-lab"), os.environ.get("LAB", "tandem"), "inventory"
)
NODES = ("spark-a", "spark-b")
API = "http://192.168.50.11:8888"
JOURNALS = "journalctl --no-pager -o cat -n 80 -u 'tandem-*'"
# Molecule asks for colours, which would stand between the words that the tests look for.
os.environ.update(ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")


def lab(*words: str, check: bool = True) -> str:
    """Runs a command of the lab and returns what it printed."""
    done = subprocess.run(
        [sys.executable, str(LAB_PROGRAM), *words],
        stdin=subprocess.DEVNULL,  # an ssh that is killed leaves a shared one without blocking, which Ansible refuses
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(
            f"lab.py {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
    return done.stdout


def shell(node: str, script: str, check: bool = True) -> str:
    """Runs a shell script inside a node, without any network, and returns what it printed."""
    return lab("exec", node, "--", "sh", "-c", script, check=check).strip()


def shows(script: str) -> Callable:
    """A `pytest_runtest_makereport` for a conftest: a failure shows what the script prints on every node."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        if report.when == "call" and report.failed:
            for node in NODES:
                report.sections.append((f"traces of {node}", shell(node, script, check=False)))
        return report

    return pytest_runtest_makereport


@dataclass(frozen=True)
class Run:
    """One run of Ansible: `changed` and `payloads` by host."""

    code: int
    text: str
    seconds: float

    @property
    def changed(self) -> dict[str, int]:
        recap = self.text.split("PLAY RECAP")[-1]
        return {
            host: int(count) for host, count in re.findall(r"^(\S+)\s+:.*?changed=(\d+)", recap, re.MULTILINE)
        }

    @property
    def payloads(self) -> dict[str, int]:
        counts = self.text.split("MODULE PAYLOADS")[-1]
        return {host: int(count) for host, count in re.findall(r"^(\S+) : (\d+)$", counts, re.MULTILINE)}


def ansible(program: str, *words: str) -> Run:
    """Runs one of Ansible's programs as a user does, with the payloads counted."""
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": str(PROJECT / "molecule" / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "module_payloads",
    }
    begun = time.monotonic()
    done = subprocess.run(
        [program, "-i", str(INVENTORY), *words],
        cwd=PROJECT,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return Run(done.returncode, done.stdout, time.monotonic() - begun)


def play(playbook: str, *words: str) -> Run:
    """Runs a playbook of the project."""
    return ansible("ansible-playbook", str(PROJECT / playbook), *words)


def ask(question: str = "What is 17 x 23?", timeout_s: int = 60) -> str | None:
    """Asks the API from the management network; None where nothing came back."""
    body = {
        "model": "deepseek-v4-flash",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 32,
        "chat_template_kwargs": {"thinking": False},
    }
    asked = ["curl", "-s", "-m", str(timeout_s), f"{API}/v1/chat/completions"]
    asked += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    text = lab("client", "--", *asked, check=False)
    try:
        return json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return None


def wait_for(what: str, probe, limit_s: float = 240, pause_s: float = 2):
    """Polls until `probe` gives something true and returns that; AssertionError past the limit."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        found = probe()
        if found:
            return found
        time.sleep(pause_s)
    raise AssertionError(f"{what}: not within {limit_s:.0f} s")
