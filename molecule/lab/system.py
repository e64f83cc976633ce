# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs, processes, mounts and namespaces of the machine that the lab runs on."""

from __future__ import annotations

import ctypes
import fcntl
import os
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


def end_processes(namespace: str) -> None:
    """Kill whatever was started in a network namespace, and what that starts meanwhile."""

    def none_left() -> bool:
        pids = run(["ip", "netns", "pids", namespace]).split()
        for pid in pids:
            kill(int(pid))
        return not pids

    if namespace_exists(namespace):
        wait_until(none_left, 10, f"the end of all processes in {namespace}")


def delete_namespace(name: str) -> None:
    end_processes(name)
    if namespace_exists(name):
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


def replace_file(path: Path, text: str) -> None:
    """Write a file so that it is never seen half written, whoever is interrupted."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    os.replace(draft, path)


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


def find_process(arguments: Sequence[str]) -> int | None:
    """The process whose command line ends with these arguments."""
    ending = ("\0".join(["", *arguments]) + "\0").encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if (process / "cmdline").read_bytes().endswith(ending):
                return int(process.name)
    return None


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


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
    run(["rm", "-rf", "--one-file-system", path])
