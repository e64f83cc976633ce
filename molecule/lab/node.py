# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node: what it is given at its creation, its power switch, and ways in."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import access
import cable
import management
import settings
from settings import LabError, Node
from system import end_processes, find_process, inside_network, kill, kill_cgroup, wait_until

# Boot takes one or two seconds; a machine that builds other things at the same time needs patience.
BOOT_TIMEOUT_S = 60
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
    "TERM": "linux",
}


def create(node: Node, network: str) -> None:
    """Lay out the node's own files over the image, as the factory leaves them."""
    for folder in ("upper", "work", "root"):
        (node.directory / folder).mkdir(parents=True)
    upper = node.directory / "upper"
    shutil.copytree(settings.HERE / "fixtures" / "root", upper, symlinks=True, dirs_exist_ok=True)
    write(upper / "etc/hostname", f"{node.name}\n")
    write(upper / "etc/machine-id", f"{uuid.uuid4().hex}\n")
    names = "".join(f"{other.address} {other.name}\n" for other in node.lab.nodes())
    write(upper / "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n::1 localhost\n{names}")
    management.configure(node, network, upper)
    access.install(node, upper)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def power_on(node: Node) -> None:
    if is_on(node):
        return
    power_off(node)  # an end that nobody tidied up
    with open(node.console, "ab") as console:
        subprocess.Popen(
            [sys.executable, settings.HERE / "power.py", *node.supply],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
        )
    # A new process shows its command line a moment after its start.
    what = f"a power supply for {node.name}; its console is in {node.console}"
    wait_until(lambda: is_on(node), 10, what, interval_s=0.001)


def power_off(node: Node) -> None:
    """Pull the plug: no process gets to say good-bye, no partner hears of it."""
    cable.cut_power(node)
    wait_until(lambda: is_dead(node), 10, f"the end of the power supply of {node.name}")
    kill_cgroup(node.cgroup)
    end_processes(node.namespace)  # who was still on the way into the cgroup
    kill_cgroup(node.cgroup)
    cable.disconnect(node)


def is_dead(node: Node) -> bool:
    """No supply is left; if there was one, it is killed."""
    if pid := find_process(node.supply):
        kill(pid)
    return pid is None


def is_on(node: Node) -> bool:
    return find_process(node.supply) is not None


def wait_for_ssh(node: Node, timeout_s: float = BOOT_TIMEOUT_S) -> None:
    """Until sshd says its name: an open port alone may be systemd's, or nobody's."""

    def answers() -> bool:
        if not is_on(node):
            raise LabError(f"{node.name} went off while it booted; its console is in {node.console}")
        return greets(node.address)

    with inside_network(node.lab.client):
        wait_until(answers, timeout_s, f"ssh of {node.name}; its console is in {node.console}")


def greets(address: str, timeout_s: float = 0.5) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=timeout_s) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def reboot(node: Node) -> None:
    """As 'systemctl reboot' in the node does, and wait until it is back."""
    before = init(node)
    execute(node, ["systemctl", "reboot"], capture_output=True)  # often cut off before it hears an answer
    wait_until(lambda: init(node) not in (None, before), BOOT_TIMEOUT_S, f"{node.name} booting again")
    wait_for_ssh(node)


def init(node: Node) -> int | None:
    """The host's number for the node's process 1: number 1 of a process namespace right below the host's."""
    pids: list[str] = []
    for file in node.cgroup.rglob("cgroup.procs"):
        with suppress(OSError):  # a group that ends at this moment says "no such device"
            pids += file.read_text().split()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            numbers = Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].splitlines()[0].split()
            if len(numbers) == 2 and numbers[1] == "1":
                return int(pid)
    return None


def execute(node: Node, command: list[str], **options) -> subprocess.CompletedProcess:
    """Run a command in the node, by its namespaces: works without a network."""
    leader = init(node)
    if leader is None:
        raise LabError(f"{node.name} is off: 'lab.py on {node.name}' starts it")
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
    inside = ["nsenter", f"--target={leader}", *namespaces, "--root", "--wd"]
    return subprocess.run([*inside, *command], env=ENVIRONMENT, text=True, **options)
