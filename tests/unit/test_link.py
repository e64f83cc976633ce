# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of a link: perftest's tables, the walk of two ranks, what is concluded, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    commands,
    link,
    link_run,
    perftest,
    rails_peers,
)
from ansible_collections.tandem.spark.plugins.module_utils.ibv import read_devices
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from ansible_collections.tandem.spark.plugins.module_utils.link import Limits, Pcie, Point, State
from ansible_collections.tandem.spark.plugins.module_utils.perftest import End, PerftestError
from ansible_collections.tandem.spark.plugins.modules import link_check
from sysfs_tree import write_tree

RULE = "-" * 87
HEAD = f"""{RULE}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rocep1s0f0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: ON
 ibv_wr* API     : ON
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
 Max inline data : 0[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
{RULE}
 local address: LID 0000 QPN 0x0049 PSN 0x2ea2ab RKey 0x182e00 VAddr 0x00ffff8c4b0000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:177:01
 remote address: LID 0000 QPN 0x0049 PSN 0xc5f0d9 RKey 0x182f00 VAddr 0x00ffffa1ef0000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:177:02
{RULE}
"""
BW_COLUMNS = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
LAT_COLUMNS = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]   99.9% percentile[usec] \n"
)
BW = f"{HEAD}{BW_COLUMNS} 65536      370900           0.00               97.21  \t\t   0.185413\n{RULE}\n"
LAT_ROW = " 8       500          1.92           9.11         2.04     \t       2.10        \t0.25   \t\t3.02   9.11\n"
LAT = HEAD + LAT_COLUMNS + LAT_ROW
WARNED = "Conflicting CPU frequency values detected: 3900.000000 != 2808.000000. CPU Frequency is not max.\n"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (BW, (65536, 97.21, None, 4096, 3)),
        (LAT, (8, None, 2.04, 4096, 3)),
        # The deviation of few rounds is no number, and not asked for.
        (LAT.replace("0.25", "-nan"), (8, None, 2.04, 4096, 3)),
        (BW.replace(BW_COLUMNS, BW_COLUMNS + WARNED), (65536, 97.21, None, 4096, 3)),
        # perftest 24 counts the CPU too, if asked.
        (
            " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps] CPU_Util[%]\n 8 5 1.0 0.9 0.1 12.5\n",
            (8, 0.9, None, None, None),
        ),
    ],
)  # one row a line
def test_a_table_is_read(output, expected):
    result = perftest.parse(output)
    assert (result.bytes, result.gbps, result.latency_us, result.mtu, result.gid_index) == expected


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "it printed nothing"),
        (HEAD, "it printed no result; its last line: ----"),
        (HEAD + BW_COLUMNS, "it printed no result"),
        (BW.replace("97.21", "-nan"), r"BW average\[Gb/sec\] is -nan"),
        (BW.replace("97.21", "inf"), "is inf"),
        (BW.replace("97.21", "0.00"), "is 0.00"),
        (HEAD + BW_COLUMNS + " 65536      370900\n", "is missing"),
        (BW.replace("[Gb/sec]", "[MB/sec]"), "neither bandwidth in Gb/sec"),
        (" IB device rocep9 not found\n Unable to find the Infiniband/RoCE device\n", "no such RDMA device"),
        (
            " Failed to modify QP 73 to RTR\n Unable to Connect the HCA's through the link\n",
            "no way from this GID",
        ),
        (
            " Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n",
            "no way from",
        ),
        (
            HEAD + " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n",
            "were not acknowledged",
        ),
        ("Couldn't allocate MR\nFailed to create MR\n", "ulimit -l"),
        ("Couldn't listen to port 18600\n", "its port is taken"),
        ("Couldn't connect to 192.168.177.2:18600\nUnable to open file descriptor\n", "last line: Unable"),
    ],
)  # one row a line
def test_what_is_no_result_is_told_in_words(output, said):
    with pytest.raises(PerftestError, match=said):
        perftest.parse(output)


def test_a_command_ends_by_itself_and_is_shown_as_it_is_typed():
    end = End("mlx5_0:2", 5, 18601, "192.168.177.2")
    argv = perftest.command("ib_write_bw", end, 65536, 2, 32)
    assert argv[:3] == ["timeout", "--kill-after=5", "32"]
    typed = perftest.words(argv)
    assert typed == ("ib_write_bw -F -d mlx5_0 -i 2 -x 5 -p 18601 -D 2 -s 65536 --report_gbits 192.168.177.2")
    server = perftest.command("ib_send_lat", replace(end, hca="rxe0", server=None), 65536, 2, 32)
    assert perftest.words(server) == "ib_send_lat -F -d rxe0 -i 1 -x 5 -p 18601 -n 500 -s 8"


# What a rail says of itself

GEN5 = Pcie(32.0, 4, 32.0, 4)
GOOD = State("enp1s0f0np0", "rocep1s0f0", True, 9000, 4096, "200 Gb/sec (4X HDR)", 200.0, GEN5)
TWIN = replace(GOOD, netdev="enP2p1s0f0np0", hca="roceP2p1s0f0")
LIMITS = Limits(85, 150, 22)


def ids(notes):
    return [note.id for note in notes]


@pytest.mark.parametrize(
    ("speed", "width", "gbps"), [(32.0, 4, 126), (32.0, 2, 63), (16.0, 4, 63), (5.0, 1, 4), (2.5, 8, 16)]
)
def test_what_lanes_carry(speed, width, gbps):
    assert round(Pcie(speed, width, None, None).gbps) == gbps


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"pcie": None}, []),
        ({"pcie": Pcie(32.0, 4, None, None)}, []),
        ({"pcie": Pcie(32.0, 2, 32.0, 4)}, ["link.pcie.reduced", "link.pcie.narrow"]),
        ({"pcie": Pcie(32.0, 2, 32.0, 2)}, ["link.pcie.narrow"]),
        ({"pcie": Pcie(32.0, 8, 32.0, 16)}, ["link.pcie.reduced"]),
        ({"rate": "40 Gb/sec (4X QDR)", "rate_gbps": 40.0}, ["link.rate.low"]),
        ({"active_mtu": 1024, "mtu": 1500}, ["fabric.mtu.small"]),
        ({"active_mtu": None}, ["fabric.mtu.unknown"]),
        ({"hca": None, "active_mtu": None, "rate": None, "rate_gbps": None}, []),
    ],
)
def test_a_rail_is_judged_by_what_it_says(change, expected):
    assert ids(link.judge_states([replace(GOOD, **change)], LIMITS)) == expected


def test_states_are_read_from_sysfs(tmp_path):
    sysfs = write_tree(tmp_path, "rocep1s0f0 enp1s0f0np0\n  3 192.168.177.1 v2\n")
    function = tmp_path / "class/net/enp1s0f0np0/device"
    function.mkdir()
    for name, text in (
        ("current_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "2"),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("max_link_width", "4"),
    ):
        (function / name).write_text(f"{text}\n")
    devices = read_devices(str(sysfs), {("rocep1s0f0", 1): 1024}).devices
    (state, other) = link.states(Tree(str(sysfs)), devices, [("enp1s0f0np0", "rocep1s0f0"), ("eno9", None)])
    assert state.pcie == Pcie(32.0, 2, 32.0, 4)
    assert (state.rate, state.active_mtu, state.carrier) == ("200 Gb/sec (4X HDR)", 1024, True)
    assert other == State("eno9", None, None, None, None, None, None, None)


@pytest.mark.parametrize("text", ["Unknown", "", "x", "0"])
def test_lanes_that_are_not_told_are_unknown(tmp_path, text):
    function = tmp_path / "class/net/p/device"
    function.mkdir(parents=True)
    (function / "current_link_speed").write_text("32.0 GT/s PCIe")
    (function / "current_link_width").write_text(text)
    assert link.pcie_of(Tree(str(tmp_path)), "p") is None


def test_counters_of_trouble_are_the_ones_that_grew(tmp_path):
    folder = tmp_path / "class/infiniband/rocep1s0f0/ports/1/hw_counters"
    folder.mkdir(parents=True)
    (folder / "out_of_sequence").write_text("7\n")
    (folder / "sent_pkts").write_text("1000\n")
    told = "NIC statistics:\n     rx_packets: 5\n     rx_prio3_pause: 12\n     rx_prio3_pause_duration: 99\n"
    told += "     rx_pause_ctrl_phy: 4\n"
    before = link.counters(Tree(str(tmp_path)), "rocep1s0f0", told)
    assert before == {"out_of_sequence": 7, "rx_prio3_pause": 12, "rx_pause_ctrl_phy": 4}
    after = {**before, "out_of_sequence": 9, "np_cnp_sent": 3}
    assert link.growth(before, after) == {"out_of_sequence": 2}


# What was measured


def bandwidth(gbps, *hcas):
    return Point("ib_write_bw", "192.168.177.2", hcas or ("rocep1s0f0",), 65536, gbps, None, 4096)


@pytest.mark.parametrize(
    ("gbps", "change", "grown", "words"),
    [
        # Link, lanes and counters are clean, and it carries 13: only the measurement can say degraded.
        (13.23, {}, {}, "degraded NIC"),
        (12.86, {"active_mtu": 1024}, {}, "degraded NIC"),
        (13.23, {"pcie": Pcie(2.5, 4, 32.0, 4)}, {}, "PCIe 2.5 GT/s x4, 8 Gb/s at most"),
        (60.0, {"pcie": Pcie(32.0, 2, 32.0, 2)}, {}, "PCIe 32 GT/s x2, 63 Gb/s at most"),
        (80.0, {"active_mtu": 1024}, {}, "RDMA MTU is 1024"),
        (40.0, {}, {"out_of_sequence": 812}, "lost or came out of order (out_of_sequence +812)"),
        (40.0, {}, {"rx_prio3_pause": 9}, "asks to wait (rx_prio3_pause +9)"),
        (40.0, {}, {"out_of_buffer": 2}, "asks to wait"),
        (40.0, {}, {}, "nothing that the rail shows"),
        (3.0, {}, {}, "nothing that the rail shows"),
    ],
)  # one row a line
def test_a_slow_rail_is_told_with_the_reason(gbps, change, grown, words):
    (note,) = link.judge_points([bandwidth(gbps)], [replace(GOOD, **change)], {"rocep1s0f0": grown}, LIMITS)
    assert note.id == "link.bandwidth.low" and note.severity == "error"
    assert words in note.summary
    assert (
        f"carries {gbps:g} Gb/s to 192.168.177.2 where 85 are wanted, on a link of 200 Gb/sec" in note.summary
    )
    assert note.remedy


@pytest.mark.parametrize(
    ("points", "expected", "remedy"),
    [
        (
            [
                bandwidth(97.2),
                bandwidth(96.9, "roceP2p1s0f0"),
                bandwidth(187.0, "rocep1s0f0", "roceP2p1s0f0"),
            ],
            [],
            "",
        ),
        (
            [bandwidth(97.2), bandwidth(96.9, "roceP2p1s0f0"), bandwidth(98.1, "rocep1s0f0", "roceP2p1s0f0")],
            ["link.bandwidth.together"],
            "they share something",
        ),
        (
            [bandwidth(97.2), bandwidth(13.2, "roceP2p1s0f0"), bandwidth(109, "rocep1s0f0", "roceP2p1s0f0")],
            ["link.bandwidth.low", "link.bandwidth.together"],
            "slow alone first",
        ),
        ([Point("ib_send_lat", "192.168.177.2", ("rocep1s0f0",), 8, None, 2.04)], [], ""),
        (
            [Point("ib_send_lat", "192.168.177.2", ("rocep1s0f0",), 8, None, 212.0)],
            ["link.latency.high"],
            "clocks",
        ),
        ([], [], ""),
    ],
)  # one row a line
def test_points_are_judged(points, expected, remedy):
    notes = link.judge_points(points, [GOOD, TWIN], {}, LIMITS)
    assert ids(notes) == expected
    assert not notes or remedy in notes[-1].remedy
    assert link.judge_points(points, [GOOD, TWIN], {}, Limits()) == []


# The walk


def test_both_ends_walk_through_the_same_tests():
    head, worker = list(link_run.tests(0, 2, 2)), list(link_run.tests(1, 2, 2))
    assert [(t.number, t.program, t.rails) for t in head] == [(t.number, t.program, t.rails) for t in worker]
    assert all(ours.sends is not theirs.sends for ours, theirs in zip(head, worker, strict=True))
    assert [t.rails for t in head if t.sends] == [(0,), (1,), (0, 1), (0,), (1,)]
    assert len(list(link_run.tests(0, 2, 1))) == 4


def test_a_head_of_four_measures_each_worker_and_no_number_comes_twice():
    head = list(link_run.tests(0, 4, 2))
    assert len({test.number for test in head}) == len(head) == 30
    for rank in (1, 2, 3):
        with_head = [(t.number, t.rails) for t in head if t.peer_rank == rank]
        assert with_head == [(t.number, t.rails) for t in link_run.tests(rank, 4, 2)]


RAILS = (("enp1s0f0np0", "rocep1s0f0", 177), ("enP2p1s0f0np0", "roceP2p1s0f0", 178))
PLAN = {
    "rank": 0,
    "ranks": 2,
    "fabric": {
        "mtu": 9000,
        "rails": [
            {"netdev": netdev, "hca": hca, "address": f"192.168.{net}.1/29", "peers": [f"192.168.{net}.2"]}
            for netdev, hca, net in RAILS
        ],
    },
}
TREE = """
rocep1s0f0 enp1s0f0np0
  2 192.168.177.1 v1
  3 192.168.177.1 v2
roceP2p1s0f0 enP2p1s0f0np0
  4 192.168.178.1 v1
  5 192.168.178.1 v2
"""
WISH = link_run.Wish(LIMITS, True, 65536, 2, 3, 1)


class Node:
    """A node of files, with a perftest that answers what the test says."""

    def __init__(self, monkeypatch, tmp_path):
        self.programs = {"ib_write_bw": (0, BW), "ib_send_lat": (0, LAT)}
        self.asked = []
        self.now = 0.0
        self.running = []
        self.plan = PLAN
        self.monkeypatch = monkeypatch
        sysfs = str(write_tree(tmp_path / "sys", TREE))
        monkeypatch.setattr(link_run.fabric_look, "LIVE_SYSFS", sysfs)
        monkeypatch.setattr(link_run.engine_state, "running", lambda: self.running)
        monkeypatch.setattr(link_run, "read_plan", lambda: self.plan)
        monkeypatch.setattr(link_run.perftest, "missing", lambda: [])
        monkeypatch.setattr(rails_peers, "look", lambda host, rails, timeout_s: [])
        monkeypatch.setattr(link_run.commands, "ask", self.ask)
        monkeypatch.setattr(link_run.time, "sleep", self.sleep)
        monkeypatch.setattr(link_run.time, "monotonic", lambda: self.now)

    def sleep(self, seconds):
        self.now += seconds

    def ask(self, argv, timeout_s=5, with_errors=False):
        if argv[0] != "timeout":
            return commands.Answer(None, "")
        self.asked.append(perftest.words(argv))
        answer = self.programs[argv[3]]
        return commands.Answer(*(answer(argv) if callable(answer) else answer))


@pytest.fixture
def node(monkeypatch, tmp_path):
    return Node(monkeypatch, tmp_path)


def test_every_rail_alone_all_at_once_and_the_latency(node):
    seen = link_run.check(WISH)
    assert [(point.test, point.hcas, point.gbps) for point in seen["points"]] == [
        ("ib_write_bw", ("rocep1s0f0",), 97.21),
        ("ib_write_bw", ("roceP2p1s0f0",), 97.21),
        ("ib_write_bw", ("rocep1s0f0", "roceP2p1s0f0"), 194.42),
        ("ib_send_lat", ("rocep1s0f0",), None),
        ("ib_send_lat", ("roceP2p1s0f0",), None),
    ]
    assert seen["findings"] == []
    # Each HCA with its own index, though no index is right for both.
    assert {words.split(" -x ")[1].split()[0] for words in node.asked if "-d rocep1s0f0" in words} == {"3"}
    assert {words.split(" -x ")[1].split()[0] for words in node.asked if "-d roceP2p1s0f0" in words} == {"5"}
    assert [rail["gid_index"] for rail in seen["rails"]] == [3, 5]


def test_a_failed_test_is_told_once_for_each_and_the_others_go_on(node):
    def one_bad(argv):
        return (1, HEAD + " Failed to modify QP 7 to RTR\n") if "roceP2p1s0f0" in argv else (0, BW)

    node.programs["ib_write_bw"] = one_bad
    seen = link_run.check(WISH)
    assert [point.hcas for point in seen["points"] if point.test == "ib_write_bw"] == [("rocep1s0f0",)]
    assert set(ids(seen["findings"])) == {"link.measure.failed"}
    assert "no way from this GID" in seen["findings"][0].summary


def test_a_sender_without_an_output_is_a_finding_and_no_crash(node):
    node.programs["ib_write_bw"] = (0, "garbage\n")
    seen = link_run.check(WISH)
    # What the receiving end prints is not asked for.
    assert ids(seen["findings"]) == ["link.measure.failed"] * 4
    assert [point.test for point in seen["points"]] == ["ib_send_lat"] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_peer_that_does_not_take_part_ends_it_in_time(node, rank):
    nobody = "Couldn't connect to 192.168.177.2:18600\n Unable to init the socket connection\n"
    node.programs["ib_write_bw"] = lambda argv: (1, nobody) if argv[-1].startswith("192.") else (124, "")
    node.plan = {**PLAN, "rank": rank}
    seen = link_run.check(WISH)
    assert ids(seen["findings"]) == ["link.peer.absent"]
    assert seen["points"] == [] and node.now < WISH.join_timeout_s + 1


def test_what_forbids_a_measurement_is_told_without_one(node, monkeypatch):
    """A rank that cannot be measured must be known before its peer waits for it."""
    fit = replace(WISH, measure=False, fit=True)
    assert [link_run.check(fit)[name] for name in ("points", "findings")] == [[], []]
    assert not [argv for argv in node.asked if link_run.BANDWIDTH in argv]
    monkeypatch.setattr(link_run.perftest, "missing", lambda: ["ib_write_bw"])
    assert [note.id for note in link_run.check(fit)["findings"]] == ["link.perftest.missing"]
    assert link_run.check(replace(fit, fit=False))["findings"] == []
    node.running = ["tandem-head.service"]
    told = [note.id for note in link_run.check(fit)["findings"]]
    assert sorted(told) == ["link.perftest.missing", "link.rank.runs"]


def test_without_perftest_there_is_one_finding(node, monkeypatch):
    monkeypatch.setattr(link_run.perftest, "missing", lambda: ["ib_write_bw", "ib_send_lat"])
    seen = link_run.check(WISH)
    assert ids(seen["findings"]) == ["link.perftest.missing"] and not node.asked
    assert "apt-get install perftest" in seen["findings"][0].remedy


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (TREE.replace("192.168.178.1 v2", "10.0.0.1 v2"), "link.peer.unmeasured"),
        ("", "link.peer.unmeasured"),
    ],
)
def test_a_rail_that_is_not_fit_is_named_and_nothing_is_measured(node, tmp_path, tree, expected):
    node.monkeypatch.setattr(link_run.fabric_look, "LIVE_SYSFS", str(write_tree(tmp_path / "other", tree)))
    seen = link_run.check(WISH)
    assert expected in ids(seen["findings"]) and seen["points"] == [] and not node.asked


def test_a_peer_without_full_packets_is_told_and_nothing_is_measured(node, monkeypatch):
    note = link_run.finding("fabric.peer.path_mtu", peer="192.168.177.2", netdev="p", mtu=9000, payload=8972)
    monkeypatch.setattr(rails_peers, "look", lambda host, rails, timeout_s: [note])
    seen = link_run.check(WISH)
    assert ids(seen["findings"]) == ["fabric.peer.path_mtu"] and not node.asked


def test_refused_while_a_rank_runs_but_looked_at(node):
    node.running = ["tandem-head.service"]
    with pytest.raises(link_run.LinkError, match="tandem-head.service runs here"):
        link_run.check(WISH)
    seen = link_run.check(replace(WISH, measure=False))
    assert len(seen["rails"]) == 2 and seen["points"] == [] and not node.asked


@pytest.mark.parametrize(
    "plan", [{}, {"fabric": {}}, {**PLAN, "fabric": {"mtu": 9, "rails": PLAN["fabric"]["rails"]}}]
)
def test_a_plan_that_is_none_is_one_message(node, plan):
    node.plan = plan
    with pytest.raises(link_run.LinkError, match=r"[Ww]rite it anew with site.yml"):
        link_run.check(WISH)


@pytest.mark.parametrize(
    ("change", "count"),
    [({}, 0), ({"size": 16 << 20}, 1), ({"size": 0, "seconds": 31, "join_timeout_s": 0}, 3)],
)
def test_sizes_are_capped_and_all_problems_are_named(change, count):
    wish = replace(WISH, **change)
    assert len(link_run.problems(wish)) == count
    if count:
        with pytest.raises(link_run.LinkError, match="size is"):
            link_run.check(wish)


# The module


def answer(check_mode=False, **options):
    defaults = {name: spec.get("default") for name, spec in link_check.ARGUMENTS.items()}
    return link_check.answer({**defaults, "join_timeout": 3, **options}, check_mode)


def test_what_the_module_returns(node):
    told = answer(min_rail_gbps=98)
    assert told["ok"] is False and len(told["points"]) == 5 and told["points"][0]["hcas"] == ["rocep1s0f0"]
    assert [note["id"] for note in told["findings"]] == ["link.bandwidth.low"] * 2
    told = answer()
    assert told["ok"] is True and told["findings"] == []
    json.dumps(told)


def test_the_module_in_check_mode_measures_nothing(node):
    told = answer(check_mode=True)
    assert told["points"] == [] and not node.asked and len(told["rails"]) == 2


def test_what_a_program_says_as_an_error_is_heard_where_it_is_asked_for():
    said = ["sh", "-c", "echo Failed to modify QP >&2; exit 1"]
    assert commands.ask(said, with_errors=True) == commands.Answer(1, "Failed to modify QP\n")
    assert commands.ask(said) == commands.Answer(1, "")
