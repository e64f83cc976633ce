# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measured all-reduce: arithmetic, limits, findings, and what refuses to measure. Nothing is measured here."""

from __future__ import annotations

import json
import sys
from unittest.mock import MagicMock

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    collective,
    collective_command,
    collective_run,
    commands,
)
from ansible_collections.tandem.spark.plugins.module_utils.cli import main
from ansible_collections.tandem.spark.plugins.module_utils.collective import (
    CollectiveError,
    Point,
    bus_bandwidth_gbps,
    judge,
    likely_cause,
    memory_problem,
    points_of,
    result_in,
    sizes_of,
)
from ansible_collections.tandem.spark.plugins.module_utils.nccl_log import read_log
from ansible_collections.tandem.spark.plugins.modules import collective_check

GIB = collective.GIB
WISH = collective_run.Wish((8, 4096), 2, "gloo", "tandem", 60, 300)
RESULT = {
    "rank": 0,
    "ranks": 2,
    "backend": "gloo",
    "torch": "2.14.0",
    "points": [{"bytes": 8, "us": 25.04, "runs": 200}, {"bytes": 1 << 28, "us": 14450.06, "runs": 60}],
    "wrong": [],
}


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        (["8", "4K", "1M", "1G"], [8, 4096, 1 << 20, 1 << 30]),
        (["4KiB", "4kB", 4096], [4096]),
        (["1M", "8"], [8, 1 << 20]),
        (list(collective.DEFAULT_SIZES), [8, 4096, 65536, 1 << 20, 1 << 24, 1 << 28]),
    ],
)
def test_sizes(texts, sizes):
    assert sizes_of(texts) == sizes


def test_every_size_that_cannot_be_measured_is_named():
    with pytest.raises(CollectiveError) as error:
        sizes_of(["16G", "x", "9", "0", "-8", "", "1M"])
    said = str(error.value)
    assert "16G is too large: 4G is the limit" in said
    assert [part.split(" ")[0] for part in said.split("; ")[1:]] == ["'x'", "'9'", "'0'", "'-8'", "''"]
    with pytest.raises(CollectiveError, match="empty"):
        sizes_of([])


@pytest.mark.parametrize(
    ("size", "available", "refused"),
    [
        (GIB, 8 * GIB, False),
        (GIB, 6 * GIB, True),
        (4 * GIB, 40 * GIB, False),
        (8, 3 * GIB, True),
        (8, None, True),
    ],
)
def test_a_node_without_room_is_left_alone(size, available, refused):
    assert bool(memory_problem([8, size], available)) is refused


@pytest.mark.parametrize(
    ("size", "microseconds", "ranks", "gbps"),
    [
        # 2(n-1)/n x bytes / time: with two ranks the rate of the data itself.
        (268435456, 14450.1, 2, 148.61),
        (268435456, 14450.1, 4, 222.92),
        (1000, 1.0, 2, 8.0),
        (10**9, 1e6, 8, 14.0),
    ],
)
def test_bus_bandwidth(size, microseconds, ranks, gbps):
    assert bus_bandwidth_gbps(size, microseconds / 1e6, ranks) == pytest.approx(gbps, abs=0.01)


def test_points():
    assert points_of(RESULT) == [Point(8, 25.0, 0.003), Point(1 << 28, 14450.1, 148.614)]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (f"NCCL INFO x\n{collective.RESULT}{json.dumps(RESULT)}\nspark-a:1:1 [0] NCCL INFO y", RESULT),
        (f"glued{collective.RESULT}{json.dumps(RESULT)}", RESULT),
        ("tandem collective: no", None),
        (collective.RESULT + '{"points": [', None),
        (collective.RESULT + "[1]", None),
        ("", None),
    ],
)
def test_the_result_is_found_beside_what_libraries_say(text, result):
    assert result_in(text) == result


GOOD = [Point(8, 25.0, 0.003), Point(1 << 28, 12000.0, 179.0), Point(1 << 30, 51000.0, 168.4)]


@pytest.mark.parametrize(
    ("points", "wrong", "limits", "expected"),
    [
        (GOOD, [], (), []),
        (GOOD, [], (175, 30), []),
        (GOOD, [], (180, 30), ["collective.slow"]),
        (GOOD, [], (175, 24.9), ["collective.latency"]),
        (GOOD, [], (200, 1), ["collective.slow", "collective.latency"]),
        (GOOD, [8], (), ["collective.wrong"]),
    ],
)
def test_limits(points, wrong, limits, expected):
    assert [note.id for note in judge(points, wrong, "ib", *limits)] == expected


@pytest.mark.parametrize(
    ("gbps", "transport", "words"),
    [
        (16.8, "socket", "find out why RDMA does not"),
        (24.3, "ib", "firmware"),
        (111.0, "ib", "both HCAs"),
        (150.0, "ib", "each rail"),
        (2400.0, "p2p", "no link between nodes"),
    ],
)
def test_what_pairs_had_at_such_a_rate(gbps, transport, words):
    assert words in likely_cause(gbps, transport)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ranks", "1", "--backend", "gloo"], "1 ranks are no group"),
        (["--ranks", "2", "--rank", "2", "--backend", "gloo"], "Rank 2 is none of 2 ranks"),
        (["--ranks", "2", "--sizes", "16G"], "too large"),
        (["--ranks", "2"], "has no torch"),
    ],
)
def test_what_the_program_refuses(words, said, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["collective", *words]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("here", "slowest", "runs"),
    [(30e-6, 30e-6, 3333), (30e-6, 50e-6, 2000), (1e-9, 1e-9, 5000), (0.085, 0.085, 3), (4.0, 4.0, 3)],
)
def test_a_batch_is_as_long_on_every_rank(here, slowest, runs, monkeypatch):
    """By the time of the slowest one: a rank that ran more often than the others would wait for ever."""
    monkeypatch.setattr(
        collective_command, "_slowest", lambda _torch, seconds, _device: max(seconds, slowest)
    )
    assert collective_command._runs(None, here, None) == runs


def test_the_middle_batch_counts_after_one_that_warmed_up(monkeypatch):
    """The clocks rise in the first full batch, and one that was disturbed or lucky tells nothing."""
    took = iter([100e-6, 90e-6, *(each * 1e-6 for each in (31, 30, 29, 500, 30, 30, 2, 30, 33))])
    asked = []

    def timed(_torch, _data, runs):
        asked.append(runs)
        return next(took)

    monkeypatch.setattr(collective_command, "_timed", timed)
    monkeypatch.setattr(collective_command, "_slowest", lambda _torch, seconds, _device: seconds)
    torch = MagicMock()
    torch.full.return_value.__eq__ = lambda _data, _wanted: MagicMock(all=lambda: True)
    measured, right = collective_command.point(torch, None, 8, rank=0, ranks=2)
    assert measured == {"bytes": 8, "us": pytest.approx(30), "runs": 1111 * 9}
    assert asked == [3, 1000, *[1111] * 9] and right


def test_the_unit_is_like_the_engines_and_ends_in_time():
    command = collective_run.command(WISH)
    assert {
        "--property=User=tandem",
        "--property=LimitMEMLOCK=infinity",
        "--property=RuntimeMaxSec=300",
        "--property=EnvironmentFile=-/opt/tandem/current/env",
        "--property=EnvironmentFile=/run/tandem/collective.env",
        "--sizes=8,4096",
        "--ranks=2",
        "--join-timeout=60",
    } <= set(command)
    # A later file wins: the rank's own values over the release's.
    files = [word for word in command if "EnvironmentFile" in word]
    assert files[-1].endswith("collective.env")


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node on which everything is as it must be, with the transient unit played."""
    monkeypatch.setattr(collective_run, "ENVIRONMENT", str(tmp_path / "run/collective.env"))
    monkeypatch.setattr(collective_run, "LOG", str(tmp_path / "run/collective.log"))
    monkeypatch.setattr(collective_run, "PYTHON", sys.executable)
    monkeypatch.setattr(collective_run, "available_memory", lambda: 64 * GIB)
    monkeypatch.setattr(collective_run.engine_state, "running", lambda: [])
    monkeypatch.setattr(collective_run.fabric_env, "look_at_machine", lambda root: None)
    monkeypatch.setattr(
        collective_run.fabric_env, "environment", lambda plan, machine: ({"TANDEM_NODE_RANK": "0"}, "", [])
    )

    def play(said: str, rc: int | None = 0):
        def ask(argv, timeout_s):
            if argv[0] == "systemd-run":
                written = (tmp_path / "run/collective.env").read_text()
                assert 'NCCL_DEBUG="INFO"' in written and 'TANDEM_NODE_RANK="0"' in written
                (tmp_path / "run/collective.log").write_text(said)
                return commands.Answer(rc, "")
            asked.append(argv)
            return commands.Answer(0, "")

        asked = []
        monkeypatch.setattr(collective_run.commands, "ask", ask)
        return asked

    return play


def test_a_measurement(node, tmp_path):
    channel = "spark-a:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0"
    node(f"{channel}\n{collective.RESULT}{json.dumps(RESULT)}\n")
    result, log = collective_run.measure({}, WISH)
    assert result == RESULT and log.transport == "ib"
    assert not (tmp_path / "run/collective.env").exists()


@pytest.mark.parametrize(
    ("said", "rc", "expected"),
    [
        ("noise\ntandem collective: The ranks did not all-reduce\n", 1, "The ranks did not all-reduce"),
        ("Traceback\nSegmentation fault\n", 139, "ended with 139"),
        ("", None, "was not begun"),
    ],
)
def test_a_measurement_that_came_to_nothing(node, said, rc, expected):
    asked = node(said, rc)
    with pytest.raises(CollectiveError, match=expected):
        collective_run.measure({}, WISH)
    assert asked == ([["systemctl", "stop", collective_run.UNIT]] if rc is None else [])


def test_everything_that_forbids_it_is_said_at_once(node, monkeypatch):
    def no_rails(plan, machine):
        raise collective_run.fabric_env.FabricEnvError("The rail enp1s0f0np0 has no carrier.")

    monkeypatch.setattr(collective_run.engine_state, "running", lambda: ["tandem-head.service"])
    monkeypatch.setattr(collective_run, "PYTHON", "/nowhere/python")
    monkeypatch.setattr(collective_run, "available_memory", lambda: GIB)
    monkeypatch.setattr(collective_run.fabric_env, "environment", no_rails)
    with pytest.raises(CollectiveError) as error:
        collective_run.measure({}, WISH)
    for words in ("tandem-head.service runs here", "never installed", "GiB of memory are free", "no carrier"):
        assert words in str(error.value)


@pytest.mark.parametrize(
    ("meminfo", "available"),
    [("MemTotal: 9 kB\nMemAvailable:   1024 kB\n", 1 << 20), ("MemTotal: 9 kB\n", None), (None, None)],
)
def test_free_memory(tmp_path, meminfo, available):
    if meminfo:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(meminfo)
    assert collective_run.available_memory(str(tmp_path)) == available


@pytest.mark.parametrize(
    ("rails", "backend", "transport"),
    [
        ([{"hca": "rocep1s0f0"}], "nccl", "ib"),
        ([{"hca": None}], "nccl", "socket"),
        ([{"hca": "rocep1s0f0"}], "gloo", None),
    ],
)
def test_what_must_have_carried_it(rails, backend, transport):
    assert collective_run.wanted_transport({"fabric": {"rails": rails}}, backend) == transport


PLAN = {"ranks": 2, "rank": 0, "fabric": {"rails": [{"hca": "rocep1s0f0"}]}}
IB_LINES = [
    "spark-a:1:1 [0] NCCL INFO NCCL version 2.30.7+cuda13.2",
    "spark-a:1:1 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]; OOB enp1s0f0np0:192.168.177.1<0>",
    "spark-a:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0",
]


@pytest.mark.parametrize(
    ("lines", "options", "transport", "ok", "expected"),
    [
        (IB_LINES, {}, "ib", True, []),
        (IB_LINES, {"minimum": "2.30.8"}, "ib", False, ["nccl.version.old"]),
        (IB_LINES, {"min_busbw_gbps": 175.0}, "ib", False, ["collective.slow"]),
        (IB_LINES[:2], {}, "none", False, ["nccl.transport.other", "nccl.transport.unseen"]),
        (IB_LINES, {"transport": "socket"}, "ib", False, ["nccl.transport.other"]),
        ([], {"backend": "gloo"}, "socket", True, []),
    ],
)
def test_what_the_module_returns(monkeypatch, lines, options, transport, ok, expected):
    monkeypatch.setattr(collective_run, "measure", lambda plan, wish: (RESULT, read_log(lines)))
    defaults = {name: spec.get("default") for name, spec in collective_check.ARGUMENTS.items()}
    told = collective_check.measured({**defaults, **options}, PLAN)
    assert set(told) == set(collective_check.NOTHING)
    assert (told["transport"], told["ok"], [note["id"] for note in told["findings"]]) == (
        transport,
        ok,
        expected,
    )
    assert told["points"][0] == {"bytes": 8, "latency_us": 25.0, "busbw_gbps": 0.003}
    assert told["nccl"] == ("2.30.7" if lines else None)


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"ranks": "two", "rank": 0, "fabric": {"rails": []}}', "no", None]
)
def test_a_plan_that_is_none(tmp_path, content):
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CollectiveError, match=r"site.yml"):
        collective_run.read_plan(str(path))
