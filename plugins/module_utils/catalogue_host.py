# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a node as such: what could not be looked at, and how it is reached."""

from __future__ import annotations

from .catalogue import Entry

ENTRIES = {
    "host.look.failed": Entry(
        "warning",
        "node",
        "{subject} could not be looked at; it is unknown",
        "Run `{command}` on the node and read what it says",
    ),
    "host.management.unknown": Entry(
        "error",
        "node",
        "It is unknown by which interface this node is managed, so no interface may be changed",
        "Run `ip route` on the node; set ansible_host to the address of its own that Ansible shall connect to",
    ),
    "host.gpu.none": Entry(
        "warning",
        "node",
        "No GPU is visible: {why}",
        "Run `nvidia-smi`; after an update of the driver or kernel, look at `dmesg | grep -i nvrm`",
    ),
    "host.packages.missing": Entry(
        "error",
        "node",
        "Packages that the collection needs are missing: {packages}",
        "apt-get install {packages}",
        fixed_by="node",
    ),
}
