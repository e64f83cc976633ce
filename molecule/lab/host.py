# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Can this machine run a lab? What is missing is said in one line, with the way to get it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from settings import Lab, LabError
from system import run

DISK_GIB = 20  # image 0.7, wheelhouse 1, an engine of 3.5 on each of two nodes, and room to work
DOCKER_DISK_GIB = 45  # and an image of an engine in the registry, in pieces and in Docker, on two nodes
MEMORY_GIB = 10  # two ranks of the rehearsal's engine take 6
PROGRAMS = {  # program: Debian package
    "ethtool": "ethtool",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nsenter": "util-linux",
    "socat": "socat",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
}
VM_PROGRAMS = {"mke2fs": "e2fsprogs", "qemu-img": "qemu-utils", "qemu-system-x86_64": "qemu-system-x86"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # Ubuntu has it in a package only


@dataclass(frozen=True)
class Needs:
    """What a lab asks of the machine. programs: Debian packages by program; installed_by: the way to get them."""

    programs: Mapping[str, str]
    disk_gib: float
    memory_gib: float
    installed_by: str


NODES = Needs(PROGRAMS, DISK_GIB, MEMORY_GIB, "'lab.py prepare' or 'make rehearse'")
DOCKER_NODES = Needs(PROGRAMS, DOCKER_DISK_GIB, MEMORY_GIB, "'lab.py prepare' or 'make rehearse'")
# The image, its tree while it is built, and two guests of 1 GiB with what emulates them.
VMS = Needs({**PROGRAMS, **VM_PROGRAMS}, 5, 4, "'vms.py prepare' or 'make rdma'")


def missing_packages(needs: Needs = NODES) -> list[str]:
    packages = {package for program, package in needs.programs.items() if shutil.which(program) is None}
    return sorted(packages | ({"debian-archive-keyring"} if not KEYRING.exists() else set()))


def prepare(lab: Lab, needs: Needs = NODES) -> None:
    """Install what is missing, or say what cannot be helped."""
    require_root()
    if packages := missing_packages(needs):
        if shutil.which("apt-get") is None:
            raise LabError(f"no apt-get, and missing {' '.join(packages)}: use Debian or Ubuntu")
        print(f"installing {' '.join(packages)}", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "-qq", "update"], env=environment)
        run(["apt-get", "-qq", "install", "--no-install-recommends", *packages], env=environment)
    check(lab, needs)


def check(lab: Lab, needs: Needs = NODES) -> None:
    """Raise LabError with everything that is missing, in one line."""
    require_root()
    if complaints := [complaint for complaint in complaints_about(lab, needs) if complaint]:
        raise LabError("this machine cannot run a lab: " + "; ".join(complaints))


def require_root() -> None:
    if os.geteuid():
        raise LabError("not root: a lab makes network namespaces and mounts; run it as root, or with sudo")


def complaints_about(lab: Lab, needs: Needs) -> list[str]:
    packages = missing_packages(needs)
    return [
        f"missing {' '.join(packages)}: {needs.installed_by} installs them" if packages else "",
        ""
        if can_unshare()
        else "no new network and mount namespaces: in a container, run it with --privileged",
        "" if has_cgroup2() else "no cgroup2: boot a kernel of 5.14 or later that has it",
        shortage(
            "disk",
            needs.disk_gib,
            free_disk(lab.home),
            f"free some on the file system of {lab.home}, or set LAB_DIR",
        ),
        shortage("memory", needs.memory_gib, available_memory(), "stop something, or use a larger machine"),
    ]


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode == 0


def has_cgroup2() -> bool:
    return any(line.split()[-1] == "cgroup2" for line in open("/proc/filesystems"))


def shortage(what: str, wanted_gib: float, found_gib: float, remedy: str) -> str:
    return f"{found_gib:.1f} GiB of {what}, wanted {wanted_gib}: {remedy}" if found_gib < wanted_gib else ""


def free_disk(path: Path) -> float:
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free / 2**30


def available_memory() -> float:
    fields = dict(line.split(":") for line in open("/proc/meminfo"))
    return int(fields["MemAvailable"].split()[0]) / 2**20
