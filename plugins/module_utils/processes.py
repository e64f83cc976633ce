# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a process is: its name, its systemd unit, its user."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from .containers import own_unit
from .kernel_files import Tree


@dataclass(frozen=True)
class Owner:
    """One process. unit is the innermost systemd unit of its cgroup, or the rank's unit whose container it is in.

    None is unknown or none.
    """

    pid: int
    name: str | None
    unit: str | None
    user: str | None


def unit_of(cgroup: str) -> str | None:
    """/proc/PID/cgroup -> the unit: the last .service or .scope in the path of the systemd hierarchy."""
    for line in cgroup.splitlines():
        hierarchy, colons, path = line.partition("::") if "::" in line else line.rpartition(":")
        if hierarchy == "0" or "name=systemd" in line:
            units = [part for part in path.split("/") if part.endswith((".service", ".scope"))]
            if units:
                return units[-1]
    return None


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def owner(tree: Tree, pid: int) -> Owner | None:
    """None where the process is gone. tree: a procfs."""
    try:
        uid = os.stat(tree.path(str(pid))).st_uid
    except OSError:
        return None
    cgroup = tree.text(str(pid), "cgroup") or ""
    unit = own_unit(os.path.dirname(tree.root.rstrip("/")), cgroup) or unit_of(cgroup)
    return Owner(pid, tree.text(str(pid), "comm"), unit, user_name(uid))


def ssh_connection(tree: Tree, pid: int) -> tuple[str, str] | None:
    """(client, own address) of the ssh session that a process descends from, or None.

    sudo takes SSH_CONNECTION out of the environment, so the ancestors are asked.
    """
    for _generation in range(64):
        environment = tree.text(str(pid), "environ") or ""
        for item in environment.split("\0"):
            words = item.removeprefix("SSH_CONNECTION=").split()
            if item.startswith("SSH_CONNECTION=") and len(words) == 4:
                return words[0].partition("%")[0], words[2].partition("%")[0]
        status = tree.text(str(pid), "status") or ""
        parents = [line.split()[1] for line in status.splitlines() if line.startswith("PPid:\t")]
        if not parents or parents[0] in ("0", "1"):
            return None
        pid = int(parents[0])
    return None
