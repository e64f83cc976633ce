# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs, processes, mounts and namespaces of the machine that the lab runs on."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from settings import LabError

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000


def run(command: Sequence[str | Path], **options) -> str:
    """Standard output of a program that has to succeed."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        words = " ".join(str(word) for word in command)
        raise LabError(f"{words} ended with {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def ip(namespace: str, *lines: str) -> None:
    """Several `ip` commands inside one network namespace, in one go."""
    run(["ip", "-n", namespace, "-batch", "-"], input="\n".join(lines) + "\n")


def namespace_exists(name: str) -> bool:
    return (NAMESPACES / name).exists()


def within(namespace: str, *command: str | Path) -> list[str]:
    """The command line that runs a program in a network namespace."""
    return ["nsenter", f"--net={NAMESPACES / namespace}", *map(str, command)]


def end_namespace(name: str) -> None:
    """Delete a network namespace, after the processes that were started in it."""
    if namespace_exists(name):
        for pid in run(["ip", "netns", "pids", name]).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        run(["ip", "netns", "delete", name])


@contextmanager
def inside_network(name: str) -> Iterator[None]:
    """This thread's sockets belong to another network namespace meanwhile (os.setns is Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as here, open(NAMESPACES / name) as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise LabError(f"cannot enter network namespace {name}: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            libc.setns(here.fileno(), CLONE_NEWNET)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """One at a time; whoever comes second waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait_until(done: Callable[[], bool], timeout_s: float, what: str, interval_s: float = 0.05) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout_s:.0f} s in vain: {what}")
        time.sleep(interval_s)


def start_time(pid: int) -> str | None:
    """Clock ticks from boot to this process's start, or None. With the pid it names one process for good."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] == "Z" else after_name[19]


def remember_process(pid_file: Path, pid: int) -> None:
    pid_file.write_text(f"{pid} {start_time(pid)}\n")


def remembered_process(pid_file: Path) -> int | None:
    """The process that `remember_process` wrote down, if it still runs; never another one with its number."""
    try:
        pid, started = pid_file.read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if start_time(int(pid)) == started else None


def kill_remembered(pid_file: Path) -> None:
    pid = remembered_process(pid_file)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: remembered_process(pid_file) is None, 10, f"the end of process {pid}")
    pid_file.unlink(missing_ok=True)


def kill_cgroup(cgroup: Path) -> None:
    """End everything in a cgroup at once and remove it."""
    if not cgroup.exists():
        return
    (cgroup / "cgroup.kill").write_text("1")
    wait_until(lambda: "populated 0" in (cgroup / "cgroup.events").read_text(), 20, f"an empty {cgroup}")
    for directory, _, _ in os.walk(cgroup, topdown=False):
        os.rmdir(directory)


def mounts_below(path: Path) -> list[Path]:
    """Mount points at or below `path`, innermost first."""
    points = [Path(line.split()[1].encode().decode("unicode_escape")) for line in open("/proc/self/mounts")]
    return [point for point in reversed(points) if point == path or path in point.parents]


def remove_tree(path: Path) -> None:
    """Remove a folder, after what is mounted in it: never anything on the other side of a mount."""
    for point in mounts_below(path):
        run(["umount", point])
    if path.exists():
        shutil.rmtree(path)
