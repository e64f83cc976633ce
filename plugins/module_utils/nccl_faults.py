# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a log in which NCCL, or what carries it, tells of trouble, and the finding that explains each.

Source: the messages of NVIDIA/nccl 2.27 to 2.30, torch's watchdog, glibc's ld.so.
"""

from __future__ import annotations

import re

# Specific causes before the general ones: of several in one line the first in this order is told.
# Not here, because good runs print them: "No device found" and "Failed to initialize NET plugin IB" beside sockets.
FAULTS = tuple(
    (finding_id, re.compile(pattern))
    for finding_id, pattern in (
        ("nccl.memory.registration", r"ibv_reg_\w+ failed(?: with error)?:? Cannot allocate memory"),
        # NCCL prints errno and text of ibv_modify_qp: 110 the peer is silent; 22, 61, 101, 113 are a GID without way.
        ("nccl.qp.timeout", r"ibv_modify_qp failed(?: with|:) (?:error )?(?:110 )?Connection timed out"),
        # A GID of :: is an empty index: this rank's own, or the one that its peer told of itself.
        ("nccl.qp.gid_own", r"ibv_modify_qp failed.*local GID ::(?![0-9A-Fa-f])"),
        ("nccl.qp.gid_peer", r"ibv_modify_qp failed.*remote GID ::(?![0-9A-Fa-f])"),
        ("nccl.qp.gid", r"ibv_modify_qp failed"),
        # IBV_WC_RETRY_EXC_ERR is 12, IBV_WC_RNR_RETRY_EXC_ERR 13; before 2.28 the number stands alone.
        ("nccl.qp.timeout", r"Got completion .*status=(?:\(?[\w ]+\)?)?\(?1[23]\b"),
        ("nccl.device.event", r"NET/IB.*[Gg]ot (?:non-)?fatal async event|NET/IB.*Got async event"),
        ("nccl.version.mismatch", r"Mismatched NCCL version detected|NCCL version mismatch with remote peer"),
        ("nccl.fusing.numa", r"Fusing NET devices from different NUMA domains"),
        ("nccl.net.none", r"Failed to initialize any NET plugin"),
        ("nccl.network.unknown", r"Error: network \S+ not found"),
        (
            "nccl.bootstrap.interface",
            r"[Nn]o (?:socket interface|usable listening interface|interface) found",
        ),
        (
            "nccl.memory.shared",
            r"shared memory (?:segment|file) \S+.*(?:error|size)|failed to extend /dev/shm",
        ),
        (
            "nccl.peer.unreachable",
            r"NCCL WARN .*(?:No route to host|Connection refused|Connection timed out)",
        ),
        ("nccl.peer.closed", r"Connection closed by remote peer|NCCL WARN .*Connection reset by peer"),
        ("nccl.cuda", r"NCCL WARN .*Cuda failure"),
        # vLLM's line of the head; one node alone needs no queue on a rail. Networks are told apart by the first three
        # octets, since no prefix is known here.
        (
            "nccl.queue.other_network",
            r"master_addr=(?!127\.)(\d+\.\d+\.\d+)\.\d+, mq_connect_ip=(?!\1\.)[\d.]+ \(local\)(?!.* world_size=1\b)",
        ),
        ("nccl.watchdog", r"Watchdog caught collective operation timeout"),
        ("nccl.warning", r"NCCL WARN "),
    )
)


def fault_in(line: str) -> str | None:
    """The finding that a line tells of, None for a harmless line."""
    return next((finding_id for finding_id, pattern in FAULTS if pattern.search(line)), None)
