# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL says in a log. The lines are the format strings of NCCL 2.27 to 2.30 filled in."""

# ruff: noqa: E501 - log lines are as long as they are

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import nccl_faults
from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE
from ansible_collections.tandem.spark.plugins.module_utils.nccl_log import (
    MAX_ERRORS,
    lines_of,
    read_log,
)
from ansible_collections.tandem.spark.plugins.module_utils.nccl_notes import judge
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import version_number

A, B = "spark-a:501:501 [0] NCCL INFO ", "spark-b:602:602 [0] NCCL INFO "
QP = "Call to ibv_modify_qp failed with"
VERSION = "NCCL version 2.30.7+cuda13.2"
IB = "NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enp1s0f0np0:192.168.177.1<0>"
IB_RAILS = (
    "NET/IB : Using [0]rocep1s0f0:1:0:1/RoCE [1]roceP2p1s0f0:1::2/RoCE [RO]; OOB enp1s0f0np0:192.168.177.1<0>"
)
NO_IB = ["NET/IB : No device found.", "NET/IB : Using [RO]; OOB enp1s0f0np0:192.168.177.1<0>"]
NO_IB_2 = [*NO_IB, "Failed to initialize NET plugin IB"]
SOCKET = [
    "NET/Socket : Using [0]enp1s0f0np0:192.168.177.1<0> [1]lo6:fe80::1%lo<0>",
    "Initialized NET plugin Socket",
]
START = "[Rank 0] ncclCommInitRank comm 0x4f00 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId f01000 commId 0x77 - Init START"
START_27 = START.removeprefix("[Rank 0] ")
SPLIT = "ncclCommSplit comm 0x4f00 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId f01000 parent 0x1 splitCount 1 color 2 key 0- Init START"
COMPLETE = "ncclCommInitRank comm 0x4f00 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId f01000 commId 0x77 - Init COMPLETE"
RINGS = "Connected all rings, use ring PXN 0 GDR 0"


def via(*names: str) -> list[str]:
    return [
        *(f"Channel {n:02d}/0 : 1[0] -> 0[0] [receive] via {name}" for n, name in enumerate(names)),
        *(f"Channel {n:02d}/0 : 0[0] -> 1[0] [send] via {name}" for n, name in enumerate(names)),
    ]


TWO_RAILS = via("NET/IB/0", "NET/IB/1")
GOOD = [VERSION, IB, "Initialized NET plugin IB", START, *TWO_RAILS, RINGS, COMPLETE]


def say(*texts: str, who: str = A) -> list[str]:
    return [who + text for text in texts]


def ids(lines, **options) -> list[str]:
    return sorted(note.id for note in judge(read_log(lines), **options))


@pytest.mark.parametrize(
    ("lines", "transport", "gdr"),
    [
        (GOOD, "ib", False),
        ([VERSION, IB_RAILS, *via("NET/IB/0(1)/GDRDMA", "NET/IB/1/GDRDMA(PCI)/Shared")], "ib", True),
        ([IB, *via("NET/IBext_v11/0")], "ib", False),
        ([*NO_IB_2, *SOCKET, *via("NET/Socket/0"), RINGS], "socket", False),
        ([*NO_IB_2, *SOCKET], "socket", None),
        (
            [
                *SOCKET,
                "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
                "Connected all rings, use ring PXN 0 GDR 1",
            ],
            "p2p",
            True,
        ),
        (["Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"], "shm", None),
        (["Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]", *TWO_RAILS], "mixed", False),
        ([*TWO_RAILS, *via("NET/Socket/0")], "mixed", False),
        ([IB, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f0'", RINGS], "none", False),
        ([*NO_IB], "none", None),
        (["Channel 00/08 : 0 1", "Using network IB"], "none", None),
        (via("NET/FastFabric/0"), "none", False),
        ([], "none", None),
    ],
)  # one row a line
def test_the_channels_say_what_carries_the_traffic(lines, transport, gdr):
    log = read_log(say(*lines))
    assert (log.transport, log.gdr) == (transport, gdr)


def test_a_whole_start():
    told = read_log(say(*GOOD)).as_dict()
    assert (told["version"], told["cuda"], told["plugin"], told["errors"]) == ("2.30.7", "13.2", None, [])
    assert told["devices"] == [
        {
            "kind": "ib",
            "index": n,
            "name": name,
            "port": 1,
            "link": "RoCE",
            "address": None,
            "host": "spark-a",
            "pid": 501,
            "channels": 2,
        }
        for n, name in enumerate(("rocep1s0f0", "roceP2p1s0f0"))
    ]
    assert told["processes"] == [
        {
            "host": "spark-a",
            "pid": 501,
            "rank": 0,
            "ranks": 2,
            "version": "2.30.7",
            "transport": "ib",
            "channels": 4,
        }
    ]
    assert ids(say(*GOOD), minimum="2.30.4", wanted="ib") == []


@pytest.mark.parametrize(
    "dress",
    [
        lambda line: line,
        lambda line: line.removeprefix(A),
        lambda line: line.removeprefix("spark-a:501:501 [0] "),
        lambda line: f"(Worker_TP0 pid=501) {line}",
        lambda line: (
            f"\x1b[36m(RayWorkerWrapper pid=501, ip=192.168.177.1)\x1b[0m {line} [repeated 2x across cluster]"
        ),
        lambda line: f"Nov 29 10:00:01 spark-a vllm[501]: {line}\r",
        lambda line: f"2026-11-29T10:00:01.123456789Z stdout F {line}",
        lambda line: f"[2026-11-29 10:00:01] {line}",
    ],
)
def test_the_prefixes_of_others(dress):
    log = read_log([dress(line) for line in say(*GOOD)])
    assert (log.version, log.transport, [each["name"] for each in log.devices]) == (
        "2.30.7",
        "ib",
        ["rocep1s0f0", "roceP2p1s0f0"],
    )
    assert not log.errors and len(log.processes) == 1


def test_several_ranks_in_one_log_also_within_one_line():
    mixed = [line for pair in zip(say(*GOOD), say(*GOOD, who=B), strict=True) for line in pair]
    glued = ["".join(pair) for pair in zip(say(*GOOD), say(*GOOD, who=B), strict=True)]
    for lines in (mixed, glued):
        log = read_log([A + VERSION, B + VERSION, *lines])
        assert [(each.host, each.pid, sum(each.channels.values())) for each in log.processes] == [
            ("spark-a", 501, 4),
            ("spark-b", 602, 4),
        ]
        assert (log.transport, len(log.devices)) == ("ib", 4)


FULL_27 = "ncclCommInitRankConfig comm 0x4f00 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId f01000 commId 0x77"
DEVICE = (
    "NET/IB: [0] mlx5_0:uverbs0:1/RoCE provider=Mlx5 speed=200000 context=0x77 pciPath=/sys/devices/pci0 ar=0"
)
VIRTUAL = "NET/IB : Made virtual device [0] name=rocep1s0f0 speed=200000 ndevs=1"


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        (
            "2.27.7",
            [
                DEVICE,
                VIRTUAL,
                "Initialized NET plugin IB",
                f"{FULL_27} - Init START",
                *TWO_RAILS,
                RINGS,
                f"{FULL_27} - Init COMPLETE",
            ],
        ),
        (
            "2.28.9",
            [
                DEVICE,
                VIRTUAL,
                "Initialized NET plugin IB",
                "Assigned NET plugin IB to comm",
                f"{FULL_27} - Init START",
                *TWO_RAILS,
                RINGS,
                f"{FULL_27} - Init COMPLETE",
            ],
        ),
        (
            "2.29.7",
            [
                DEVICE,
                VIRTUAL,
                "Assigned NET plugin IB to comm",
                f"[Rank 0] {FULL_27} - Init START",
                *TWO_RAILS,
                RINGS,
                f"{FULL_27} - Init COMPLETE",
            ],
        ),
        (
            "2.30.4",
            [
                f"{DEVICE} oooRqSize=0",
                VIRTUAL,
                "Assigned NET plugin IB to comm",
                f"[Rank 0] {FULL_27} - Init START",
                *via("NET/IB/0(0)", "NET/IB/1(1)"),
                RINGS,
                f"{FULL_27} - Init COMPLETE",
            ],
        ),
        (
            "2.30.7",
            [
                f"{DEVICE} oooRqSize=0",
                f"{VIRTUAL} rail=0 plane=0",
                "Assigned NET plugin IB to comm",
                f"[Rank 0] {FULL_27} - Init START",
                *TWO_RAILS,
                RINGS,
                f"{FULL_27} - Init COMPLETE",
            ],
        ),
    ],
)  # one row a line
def test_a_start_reads_the_same_in_every_release(version, lines):
    log = read_log(say(f"NCCL version {version}+cuda13.2", IB, *lines))
    assert (log.version, log.transport, log.gdr, log.plugin, log.errors) == (version, "ib", False, None, [])
    assert [(each["name"], each["channels"]) for each in log.as_dict()["devices"]] == [
        ("rocep1s0f0", 2),
        ("roceP2p1s0f0", 2),
    ]
    assert judge(log, None, "ib") == []


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("(Worker pid=13) INFO 11-29 10:00:15 [pynccl.py:148] vLLM is using nccl==2.28.9", "2.28.9"),
        ("NCCL version 2.27.7+cuda12.9", "2.27.7"),
        ("# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803", "2.28.3"),
        ("NCCL version 2.30.8rc1+cuda13.2", "2.30.8rc1"),
        ("spark-a:9:9 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so", None),
    ],
)
def test_versions(line, version):
    assert read_log([line]).version == version


def test_versions_are_compared_as_numbers():
    assert version_number("2.30.4") > version_number("2.9.99") > version_number("2.9rc1") > version_number("")


def test_two_versions_in_one_process_and_between_ranks():
    vllm = "(Worker pid=501) INFO 11-29 10:00:15 [pynccl.py:148] vLLM is using nccl==2.28.9"
    log = read_log([vllm, *say(*GOOD)])
    assert log.version == "2.28.9" and len(log.processes) == 1
    assert "nccl.version.mixed" in ids([vllm, *say(*GOOD)])
    assert "nccl.version.mixed" in ids([*say(*GOOD), B + "NCCL version 2.30.4+cuda13.2"])
    assert "nccl.version.old" in ids([vllm, *say(*GOOD)], minimum="2.30.4")


PRELOAD = "ERROR: ld.so: object '/opt/x/libnccl.so.2' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored."
WARN = "spark-a:501:777 [0] misc/ibvwrap.cc:309 NCCL WARN "


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (PRELOAD, "nccl.preload.ignored"),
        (
            WARN + "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            "nccl.memory.registration",
        ),
        (
            WARN
            + "Call to ibv_modify_qp failed with 22 Invalid argument, on dev rocep1s0f0:1, curr state INIT, next state RTR, local GID index 3, local GID ::, remote GID ::",
            "nccl.qp.gid_own",
        ),
        # Case 001: our index is empty, or the peer's.
        (
            WARN
            + f"{QP} 61 No data available, on dev p:1, curr state INIT, next state RTR, local GID ::, remote GID ::ffff:192.168.178.2",
            "nccl.qp.gid_own",
        ),
        (
            WARN
            + f"{QP} 22 Invalid argument, on dev p:1, curr state INIT, next state RTR, local GID ::ffff:192.168.177.2, remote GID ::",
            "nccl.qp.gid_peer",
        ),
        (
            WARN
            + f"{QP} 101 Network is unreachable, on dev p:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.168.177.2, remote GID ::ffff:10.0.0.1",
            "nccl.qp.gid",
        ),
        (
            WARN
            + f"{QP} 110 Connection timed out, on dev p:1, curr state INIT, next state RTR, local GID ::ffff:192.168.177.2, remote GID ::ffff:169.254.60.1",
            "nccl.qp.timeout",
        ),
        (WARN + "Call to ibv_modify_qp failed with 61 No data available, on dev rocep1s0f0:1", "nccl.qp.gid"),
        ("ibv_modify_qp failed: Network unreachable", "nccl.qp.gid"),
        (
            WARN + "Call to ibv_modify_qp failed with 110 Connection timed out, on dev rocep1s0f0:1",
            "nccl.qp.timeout",
        ),
        (
            WARN
            + "NET/IB: Got completion from peer 192.168.177.2<41000> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
            "nccl.qp.timeout",
        ),
        (
            WARN
            + "NET/IB: Got completion from peer 192.168.177.2<41000> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129",
            "nccl.qp.timeout",
        ),
        (
            WARN + "NET/IB: Got completion from peer 192.168.177.2<41000> with status=5 opcode=12 len=0",
            "nccl.warning",
        ),
        (
            WARN + "Mismatched NCCL version detected : rank 0 version 22809 rank 1 version 23004",
            "nccl.version.mismatch",
        ),
        (WARN + "Fusing NET devices from different NUMA domains is not supported.", "nccl.fusing.numa"),
        (WARN + "Failed to initialize any NET plugin", "nccl.net.none"),
        (WARN + "Error: network UCX not found.", "nccl.network.unknown"),
        (WARN + "Bootstrap : no socket interface found", "nccl.bootstrap.interface"),
        (
            WARN
            + "Error while creating shared memory segment /dev/shm/nccl-7v3 (size 33030528), error: No space left on device (28)",
            "nccl.memory.shared",
        ),
        (
            WARN
            + "socketPollConnect: connect to 192.168.177.2<41000> returned No route to host, exceeded error retry count",
            "nccl.peer.unreachable",
        ),
        (WARN + "socketProgress: Connection closed by remote peer spark-b<41000>", "nccl.peer.closed"),
        (WARN + "Cuda failure 'out of memory'", "nccl.cuda"),
        (WARN + "NET/IB : rocep1s0f0:1 Got non-fatal async event: port error(10)", "nccl.device.event"),
        (
            "DP group leader: node_rank=0, node_rank_within_dp=0, master_addr=192.168.177.1, mq_connect_ip=10.0.5.7 (local), world_size=2, local_world_size=1",
            "nccl.queue.other_network",
        ),
        (
            "[rank0]:[E1129 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
            "nccl.watchdog",
        ),
        (WARN + "something that nobody has met", "nccl.warning"),
        (
            WARN.replace("[0] misc/ibvwrap.cc:309 ", "[0] misc/ibvwrap.cc:309 (pid_t) ") + "new form",
            "nccl.warning",
        ),
    ],
)  # one row a line
def test_errors_and_what_they_mean(line, expected):
    log = read_log([line, line])
    assert [(fault.id, fault.count) for fault in log.errors] == [(expected, 2)]
    (note,) = [note for note in judge(log) if note.id == expected]
    assert note.evidence in line and note.remedy
    assert log.as_dict()["errors"][0]["remedy"] == note.remedy


@pytest.mark.parametrize(
    "line",
    [
        "node_rank=0, master_addr=192.168.177.1, mq_connect_ip=192.168.177.1 (local), world_size=2",
        "node_rank=0, master_addr=169.254.7.1, mq_connect_ip=169.254.7.1 (local), world_size=2",
        "node_rank=0, master_addr=127.0.0.1, mq_connect_ip=10.0.5.7 (local), world_size=1, local_world_size=1",
        "node_rank=0, master_addr=192.168.177.1, mq_connect_ip=10.0.5.7 (local), world_size=1",
    ],
)
def test_a_message_queue_in_its_place(line):
    assert read_log([line]).errors == []


def test_the_path_of_an_ignored_preload_is_told():
    (note,) = judge(read_log([PRELOAD]))
    assert "/opt/x/libnccl.so.2" in note.summary and "cannot open shared object file" in note.summary


def test_what_is_tried_again_is_no_error():
    line = "Call to ibv_modify_qp failed with 110 Connection timed out, on dev rocep1s0f0:1, retrying 1/34 after 100 msec of sleep"
    assert read_log(say(line)).errors == []


def test_every_fault_is_in_the_catalogue():
    assert {finding_id for finding_id, _pattern in nccl_faults.FAULTS} <= set(CATALOGUE)


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [
        ([*NO_IB_2, *SOCKET, *via("NET/Socket/0")], {}, ["nccl.ib.no_device", "nccl.transport.socket"]),
        (
            [*NO_IB_2, *SOCKET, *via("NET/Socket/0")],
            {"wanted": "ib"},
            ["nccl.ib.no_device", "nccl.transport.other"],
        ),
        (
            ["NCCL_IB_DISABLE set by environment to 1.", *SOCKET, *via("NET/Socket/0")],
            {"wanted": "socket"},
            ["nccl.ib.disabled"],
        ),
        (["NCCL_IB_DISABLE set by environment to 0.", IB, *TWO_RAILS], {"wanted": "ib"}, []),
        ([IB, *via("NET/IB/0", "NET/IB/0")], {}, ["nccl.device.unused"]),
        ([IB], {"wanted": "ib"}, ["nccl.transport.other", "nccl.transport.unseen"]),
        (
            [IB, "NET/IB: Subnet-aware routing: overriding dev 2 with dev 0", *TWO_RAILS],
            {},
            ["nccl.device.overridden"],
        ),
        (
            [
                "NET/Plugin: Loaded net plugin FastFabric (v10)",
                "Assigned NET plugin FastFabric to comm",
                START,
                COMPLETE,
            ],
            {},
            ["nccl.plugin.took_over"],
        ),
        (["NET/Plugin: Loaded net plugin FastFabric (v10)", START], {}, ["nccl.plugin.stuck"]),
        (
            [
                "NET/Plugin: Loaded net plugin FastFabric (v12)",
                "Assigned NET plugin IB to comm",
                START_27,
                COMPLETE,
            ],
            {},
            [],
        ),
        ([START_27], {}, ["nccl.init.unfinished"]),
        ([SPLIT], {}, ["nccl.init.unfinished"]),
        ([VERSION], {"minimum": "2.30.8"}, ["nccl.version.old"]),
    ],
)  # one row a line
def test_findings(lines, options, expected):
    assert ids(say(*lines), **options) == expected


def test_the_newest_start_counts():
    boot = "(APIServer pid=11) INFO 11-29 10:00:01 [api_utils.py:286] non-default args: {'model_tag': 'x'}"
    old = say(*NO_IB_2, *SOCKET, *via("NET/Socket/0"), "x") + [WARN + "Cuda failure 'unknown error'"]
    assert read_log([boot, *old]).transport == "socket"
    assert ids([boot, *old, boot, *say(*GOOD)]) == []
    # ld.so speaks before the first line of the program that it loads.
    assert ids([boot, *old, PRELOAD, boot, *say(*GOOD)]) == ["nccl.preload.ignored"]


def test_bad_bytes_and_endless_lines(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(
        b"\xff\xfe\x00" * 50_000 + b"\n" + b"NCCL " * 100_000 + b"\n" + (A + TWO_RAILS[0]).encode()
    )
    assert read_log(lines_of(str(file))).transport == "ib"


def test_a_flood_of_warnings_is_cut():
    log = read_log(f"{WARN}warning number {n}" for n in range(10 * MAX_ERRORS))
    assert len(log.errors) == MAX_ERRORS
