# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands and eyes of the tests: the lab's own commands, and site.yml as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
LAB_PROGRAM = PROJECT / "molecule" / "lab" / "lab.py"
INVENTORY = Path(
    os.environ.get("LAB_DIR", "/var/lib/tandem-lab"), os.environ.get("LAB", "tandem"), "inventory"
)
NODES = ("spark-a", "spark-b")
UNITS = {"spark-a": "tandem-head.service", "spark-b": "tandem-worker.service"}
# Molecule asks for colours, which would stand between the words that the tests look for.
os.environ.update(ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")
API = "http://192.168.50.11:8888"
# What a run of site.yml could change: every file that is not the engine's own or a log, with its content's traces.
STATE = r"""
find /etc /opt/tandem /usr/local /var/lib/tandem /run/tandem /run/netplan /run/systemd/network \
     -path /opt/tandem/runtime -prune -o -name __pycache__ -prune \
     -o ! -type d -printf '%p %T@ %s %m %u %l\n' 2>/dev/null | sort
ls -d /opt/tandem/runtime/*
ip -br addr; ip -o link | sed 's/qlen.*//'
systemctl show -p Id,InvocationID,ActiveEnterTimestampMonotonic tandem-head tandem-worker systemd-networkd
"""


def lab(*words: str, check: bool = True) -> str:
    """Runs a command of the lab and returns what it printed."""
    done = subprocess.run(
        [sys.executable, str(LAB_PROGRAM), *words], capture_output=True, text=True, check=False
    )
    if check and done.returncode:
        raise AssertionError(
            f"lab.py {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
    return done.stdout


def shell(node: str, script: str, check: bool = True) -> str:
    """Runs a shell script inside a node, without any network, and returns what it printed."""
    return lab("exec", node, "--", "sh", "-c", script, check=check).strip()


def state(node: str) -> str:
    """Everything about a node that a run could change, as text."""
    return shell(node, STATE, check=False)


@dataclass(frozen=True)
class Run:
    """One run of site.yml: `changed` and `payloads` by host."""

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


def site(*words: str) -> Run:
    """Runs site.yml as a user does, with the payloads counted."""
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": str(PROJECT / "molecule" / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "module_payloads",
    }
    begun = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", str(PROJECT / "site.yml"), "-i", str(INVENTORY), *words],
        cwd=PROJECT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return Run(done.returncode, done.stdout, time.monotonic() - begun)


def ask(question: str = "What is 17 x 23?", timeout_s: int = 60) -> str | None:
    """Asks the API from the management network; None where nothing came back."""
    body = json.dumps(
        {
            "model": "deepseek-v4-flash",
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 32,
            "chat_template_kwargs": {"thinking": False},
        }
    )
    text = lab(
        "client",
        "--",
        "curl",
        "-s",
        "-m",
        str(timeout_s),
        f"{API}/v1/chat/completions",
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
        check=False,
    )
    try:
        return json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return None


def wait_for(what: str, probe, limit_s: float = 240):
    """Polls until `probe` gives something true and returns that; AssertionError past the limit."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        found = probe()
        if found:
            return found
        time.sleep(2)
    raise AssertionError(f"{what}: not within {limit_s:.0f} s")


def journal(node: str) -> str:
    return shell(node, f"journalctl --no-pager -o cat -n 60 -u {UNITS[node]}", check=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows the journal of the units, which is where the reason is."""
    report = yield
    if report.when == "call" and report.failed:
        for node in NODES:
            report.sections.append((f"journal of {UNITS[node]} on {node}", journal(node)))
    return report
