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
    "host.look.broken": Entry(
        "warning",
        "node",
        "The part {subset} of this node could not be looked at; it is unknown",
        "Report it with the evidence: what is on a node must never stop a look at it",
    ),
    "host.node.unreachable": Entry(
        "error",
        "node",
        "This node cannot be reached: {why}",
        "Try `ssh {address}` as the user that Ansible takes. It may be off, have another address, or be out of memory: "
        "then wait 25 minutes before a power cycle",
    ),
    "host.node.stuck": Entry(
        "error",
        "node",
        "This node takes a connection and says nothing on it: {why}",
        "It ran out of memory, or hangs as a whole; that ping answers is no health. Wait 25 minutes before a power "
        "cycle, since most that ran out of memory come back. Afterwards `journalctl -k -b -1` and "
        "/var/lib/systemd/pstore tell of it; nothing in either is what the silent wedge leaves, seen with "
        "580.173.02, 595.84 and 595.91 on single units. Set clock caps again, which do not survive it",
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193; NVIDIA/open-gpu-kernel-modules#1358",
    ),
    "host.kernel.panicked": Entry(
        "info",
        "node",
        "The firmware kept what a kernel said in its last moment: {files}",
        "Read it before it is overwritten, and compare its time with what happened. After a panic of 6.17.0-1008 the "
        "GPU stays away until the power cord was pulled",
        source="forums.developer.nvidia.com, thread 366026",
    ),
    "host.node.failed": Entry(
        "error",
        "node",
        "This node was reached and could not be looked at: {why}",
        "It needs Python 3.11 or newer and a user that may become root: `ansible {host} -m ansible.builtin.ping -b` "
        "says more",
    ),
    "host.firmware.unequal": Entry(
        "warning",
        "group",
        "The firmware of {what} is not the same on all ranks: {versions}",
        "Bring them to one version with the maker's own tool (`fwupdmgr get-updates` shows what there is)",
        source="Reederey87/dgx-spark-2x-deepseek-v4-flash: 3 GB/s over RDMA with unequal firmware, 22 GB/s with equal",
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
    "host.pcie.fatal": Entry(
        "error",
        "node",
        "PCIe lost a device in this boot, which took what used it along",
        "See with `lspci` and `ibv_devices` whether it is there. Where the network card is gone or came back, stop the "
        "engine on all ranks and reboot this node: starting the engine again helps nothing. If it comes again, take "
        "the power away for a minute and compare firmware",
        source="field reports of two-Spark owners: both functions of a card gone, and an API that hung with them",
        lasts="boot",
    ),
}
