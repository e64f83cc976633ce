#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power supply of one node: runs it, and starts it anew whenever it asks for a reboot.

    power.py LAB_DIR LAB NODE

Ends when the node is shut down; to end both, see node.power_off.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cable
import settings
from settings import Lab, Node
from system import kill_cgroup, within

REBOOT = 133  # systemd-nspawn's exit status for "start me again"


def main() -> None:
    home, lab, name = sys.argv[1:]
    node = Lab(lab, Path(home)).node(name)
    status = REBOOT
    while status == REBOOT:
        cable.connect(node)
        status = boot(node)
        kill_cgroup(node.cgroup)
        cable.disconnect(node)


def boot(node: Node) -> int:
    """Exit status of systemd-nspawn, which lasts as long as the node is up."""
    layers = ":".join(node.lab.description()["layers"])
    environment = {
        "NODE": node.name,
        "LAYERS": layers,
        "DIRECTORY": str(node.directory),
        "CGROUP": node.cgroup.name,
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    }
    private = ["unshare", "--mount", "--propagation", "private", settings.HERE / "boot.sh"]
    return subprocess.run(within(node.namespace, *private), env=environment).returncode


if __name__ == "__main__":
    main()
