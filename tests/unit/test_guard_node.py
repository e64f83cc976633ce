# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guard's rules are fed with: unit, holds, plan and answers; and what becomes of their actions."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils import cli, commands, guard_hold, guard_unit
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import Progress
from ansible_collections.tandem.spark.plugins.module_utils.guard_head import Head
from ansible_collections.tandem.spark.plugins.module_utils.guard_life import Answer
from ansible_collections.tandem.spark.plugins.module_utils.guard_node import (
    Guard,
    available_gib,
    facts,
    remembered,
)
from ansible_collections.tandem.spark.plugins.module_utils.guard_probe import Prober
from ansible_collections.tandem.spark.plugins.module_utils.guard_rules import Limits, Report, Unit
from ansible_collections.tandem.spark.plugins.module_utils.guard_setup import GuardError, Setup, read_setup

RELEASE = "0123456789abcdef"
PLAN = {
    "group": "tandem",
    "rank": 0,
    "hosts": ["spark-a"],
    "master_addr": "127.0.0.1",
    "api": {"port": 9, "model": "lab"},
}


def prove(root: Path, release: str = RELEASE) -> None:
    """As a roll-out leaves it: what is linked in was proven."""
    (root / "opt/tandem").mkdir(parents=True, exist_ok=True)
    link = root / "opt/tandem/current"
    if not link.is_symlink():
        link.symlink_to(f"releases/{release}")
    applied = root / guard_hold.APPLIED
    applied.parent.mkdir(parents=True, exist_ok=True)
    applied.write_text(f"{release}\n")


def shown(active, sub="", job="0", invocation="i1"):
    return {"ActiveState": active, "SubState": sub, "Job": job, "InvocationID": invocation}


@pytest.mark.parametrize(
    ("said", "unit"),
    [
        (shown("active", "running"), Unit("active", "i1")),
        (shown("reloading"), Unit("active", "i1")),
        (shown("activating", "start-pre"), Unit("preparing", "i1")),
        (shown("activating", "start"), Unit("preparing", "i1")),
        (shown("activating", "auto-restart"), Unit("restarting", "i1")),
        (shown("activating", "auto-restart-queued"), Unit("restarting", "i1")),
        (shown("deactivating", "stop-sigterm", "77"), Unit("stopping", "i1")),
        (shown("deactivating", "stop-sigterm"), Unit("ending", "i1")),
        (shown("inactive", "dead", invocation=""), Unit("down")),
        (shown("failed", "failed"), Unit("down")),
        (shown("inactive", "dead", "12", ""), Unit("queued")),
        (shown("maintenance"), Unit()),
        ({}, Unit()),
    ],
)
def test_what_systemd_says(said, unit):
    text = "".join(f"{name}={value}\n" for name, value in said.items())
    assert guard_unit.unit_of(guard_unit.parse(text)) == unit


class Systemctl:
    """Stands in for commands.ask: answers `show` with one unit, and remembers what else it is asked."""

    def __init__(self, said):
        self.said, self.asked, self.looks = said, [], 0
        self.answer = commands.Answer(0, "")

    def __call__(self, argv, timeout_s=5, with_errors=False):
        if argv[1] != "show":
            self.asked.append(argv[1:])
            return self.answer
        self.looks += 1
        if self.said is None:
            return commands.Answer(None, "")
        return commands.Answer(0, "".join(f"{name}={value}\n" for name, value in self.said.items()))


@pytest.fixture
def systemctl(monkeypatch):
    fake = Systemctl({**shown("active"), "ControlGroup": "/system.slice/u"})
    monkeypatch.setattr(commands, "ask", fake)
    return fake


def a_running_unit(root: Path) -> guard_unit.LocalUnit:
    (root / "run/systemd/units").mkdir(parents=True)
    (root / "run/systemd/units/invocation:u").symlink_to("i1")
    (root / "sys/fs/cgroup/system.slice/u").mkdir(parents=True)
    (root / "sys/fs/cgroup/system.slice/u/cgroup.procs").write_text("10\n11\n")
    return guard_unit.LocalUnit("u", root)


def test_a_steady_unit_is_not_asked_for_each_second(tmp_path, systemctl):
    unit = a_running_unit(tmp_path)
    assert [unit.look(now) for now in range(100, 107)] == [Unit("active", "i1")] * 7
    assert systemctl.looks == 3  # once, once more with the processes known, and after five seconds


@pytest.mark.parametrize("change", ["a process died", "started anew", "gone"])
def test_a_change_is_seen_at_once(tmp_path, systemctl, change):
    unit = a_running_unit(tmp_path)
    unit.look(100), unit.look(101)
    systemctl.said = shown("activating", "auto-restart")
    link = tmp_path / "run/systemd/units/invocation:u"
    if change == "a process died":
        (tmp_path / "sys/fs/cgroup/system.slice/u/cgroup.procs").write_text("10\n")
    else:
        link.unlink()
        if change == "started anew":
            link.symlink_to("i2")
    assert unit.look(102).state == "restarting"


def test_without_these_files_systemd_is_asked_each_time(tmp_path, systemctl):
    unit = guard_unit.LocalUnit("u", tmp_path)
    for now in (100, 101, 102):
        unit.look(now)
    assert systemctl.looks == 3
    systemctl.said = None
    assert unit.look(103) == Unit("unknown")


def test_what_is_done_to_a_unit(tmp_path, systemctl):
    said = []
    unit = guard_unit.LocalUnit("u", tmp_path, said.append)
    unit.start(), unit.stop(hard=False), unit.stop(hard=True)
    assert systemctl.asked == [
        ["reset-failed", "u"],
        ["start", "--no-block", "u"],
        ["stop", "--no-block", "u"],
        ["kill", "--signal=SIGKILL", "u"],
        ["stop", "--no-block", "u"],
    ]
    systemctl.answer = commands.Answer(5, "Unit u not found.\n")
    unit.start()
    assert said == ["`systemctl start --no-block u` ended with 5: Unit u not found."]


# Holds.


def test_a_hold_ends_with_its_time_or_the_boot(tmp_path):
    guard_hold.take(tmp_path, "rollout", 60, now=1000)
    guard_hold.take(tmp_path, "operator", None, now=1000)
    assert [(hold.owner, hold.left_s) for hold in guard_hold.holds(tmp_path, 1010)] == [
        ("rollout", 50),
        ("operator", None),
    ]
    assert [hold.owner for hold in guard_hold.holds(tmp_path, 1061)] == ["operator"]
    guard_hold.take(tmp_path, "rollout", 60, now=1061)
    assert len(guard_hold.holds(tmp_path, 1100)) == 2, "taken again, it has a new time"
    shutil.rmtree(tmp_path / "run")
    assert [hold.owner for hold in guard_hold.holds(tmp_path, 5)] == ["operator"], "whoever took it is gone"
    assert guard_hold.drop(tmp_path, "operator") and not guard_hold.drop(tmp_path, "operator")
    assert guard_hold.holds(tmp_path, 5) == []


def test_an_owner_has_one_hold(tmp_path):
    for seconds in (60, None, 60):
        guard_hold.take(tmp_path, "stop", seconds, now=1000)
        assert [hold.left_s for hold in guard_hold.holds(tmp_path, 1000)] == [seconds]


def test_what_was_not_proven_holds(tmp_path):
    assert guard_hold.holder(tmp_path) == guard_hold.NOTHING_PROVEN
    prove(tmp_path)
    assert guard_hold.holder(tmp_path) is None
    guard_hold.take(tmp_path, "someone", None)
    guard_hold.take(tmp_path, "rollout", 60)
    guard_hold.take(tmp_path, "stop", None)
    assert guard_hold.drop_playbooks(tmp_path) == ["rollout", "stop"]
    assert guard_hold.holder(tmp_path) == "someone", "whoever is no playbook drops it by hand"
    guard_hold.drop(tmp_path, "someone")
    prove(tmp_path, "another")
    assert guard_hold.holder(tmp_path) == guard_hold.OTHER_RELEASE


@pytest.mark.parametrize("text", ["", "{", "[]", '{"until_s": true}', '{"until_s": "soon"}'])
def test_a_hold_that_cannot_be_read_holds(tmp_path, text):
    path = tmp_path / guard_hold.ENDLESS / "someone.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert [(hold.owner, hold.left_s) for hold in guard_hold.holds(tmp_path)] == [("someone", None)]


@pytest.mark.parametrize("until", [1e300, 1000 + 8 * 86400])
def test_a_time_that_nobody_can_have_meant_holds_nothing(tmp_path, until):
    path = tmp_path / guard_hold.ENDLESS / "someone.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"until_s": until}))
    assert guard_hold.holds(tmp_path, 1000) == []


@pytest.mark.parametrize(
    "words", [["--hold", "../../etc/x"], ["--hold", "A b"], ["--hold", "op", "--for", "-1"], ["--drop", "/"]]
)
def test_a_hold_that_is_none(tmp_path, capsys, words):
    assert cli.main(["guard", "--root", str(tmp_path), *words]) == 1
    assert "tandem guard: " in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


def test_holds_and_again_by_command(tmp_path, capsys):
    (tmp_path / "run/tandem").mkdir(parents=True)

    def tandem(*words):
        assert cli.main(["guard", "--root", str(tmp_path), *words]) == 0
        return capsys.readouterr().out.strip()

    assert tandem("--hold", "operator", "--for", "600") == "held by operator"
    assert [hold.owner for hold in guard_hold.holds(tmp_path)] == ["operator"]
    assert (tandem("--drop", "operator"), tandem("--drop", "operator")) == (
        "dropped",
        "there was no such hold",
    )
    tandem("--again")
    assert (tmp_path / "run/tandem/guard.again").exists()


# The plan.


def test_a_plan_is_enough():
    setup = read_setup(
        {**PLAN, "rank": 1, "hosts": ["a", "b"], "guard": {"port": 7, "limits": {"lost_s": 9}}}, "plan"
    )
    assert (setup.unit, setup.speech, setup.ranks, setup.limits.lost_s) == (
        "tandem-worker.service",
        ("127.0.0.1", 7),
        2,
        9,
    )


def test_all_that_is_wrong_with_a_plan_is_said_at_once():
    guard = {"port": 0, "http_port": True, "http_host": "here", "limits": {"lost_s": "long", "patience": 3}}
    with pytest.raises(GuardError) as error:
        read_setup({"hosts": [], "rank": 5, "master_addr": None, "guard": guard}, "/etc/tandem/plan.json")
    said = str(error.value)
    wrong = (
        "hosts is []",
        "master_addr",
        "guard.port",
        "http_port",
        "http_host",
        "lost_s is 'long'",
        "patience is unknown",
    )
    assert all(word in said for word in wrong) and len(said.splitlines()) == len(wrong)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (None, "no plan"),
        ({**PLAN, "rank": 1}, "rank is 1"),
        ({**PLAN, "guard": []}, "wanted a map"),
        ({**PLAN, "guard": {"limits": 3}}, "wanted a map"),
    ],
)
def test_a_plan_that_is_none(plan, said):
    with pytest.raises(GuardError, match=said):
        read_setup(plan, "plan")


def test_the_command_says_what_it_lacks(tmp_path, capsys):
    where = [
        "--root",
        str(tmp_path),
        "--plan",
        str(tmp_path / "plan.json"),
        "--secret-file",
        str(tmp_path / "secret"),
    ]
    assert cli.main(["guard", *where]) == 1
    assert "no plan to read" in capsys.readouterr().err
    (tmp_path / "plan.json").write_text(json.dumps({**PLAN, "hosts": ["a", "b"]}))
    assert cli.main(["guard", *where]) == 1
    assert "wanted the guards' secret" in capsys.readouterr().err


# What the engine is asked.


def right(request, _stop):
    from ansible_collections.tandem.spark.plugins.module_utils.arithmetic import product_asked

    return s.says(f"The answer is {product_asked(request['messages'][0]['content'])}.")


def refusal(status):
    body = json.dumps({"error": {"message": "no"}}).encode()
    return lambda _request, _stop: s.response(body, status=status, kind="application/json")


def asked(prober: Prober, ticket: int = 3) -> Answer:
    prober.ask(ticket)
    return prober._answers.get(timeout=20)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (right, "right"),
        (lambda request, _stop: s.says("It is 7."), "wrong"),
        (
            lambda request, _stop: s.says("".join(f"{n}. " for n in range(1, 60)), reason="length"),
            "degenerate",
        ),
        (lambda request, _stop: s.says("", reasoning="hm", reason="length"), "inconclusive"),
        (refusal("401 Unauthorized"), "unclear"),
        (refusal("404 Not Found"), "unclear"),
        (refusal("429 Too Many Requests"), "unclear"),
        (refusal("500 Internal Server Error"), "unreachable"),
        (refusal("503 Service Unavailable"), "unreachable"),
        (s.silent, "late"),
    ],
)
def test_what_an_answer_tells(answer, outcome):
    with s.ChatServer(answer) as server:
        prober = Prober(lambda: (Endpoint(server.url, "lab"), (10, 99)), 1.5 if answer is s.silent else 20)
        told = asked(prober)
    assert (told.ticket, told.outcome) == (3, outcome), told
    assert prober.answer() is None, "once"


def test_nobody_listens_and_nobody_knows_where():
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert asked(Prober(lambda: (Endpoint(url, "lab"), (10, 99)), 20)).outcome == "unreachable"

    def unknown():
        raise ValueError("no such release")

    told = asked(Prober(unknown, 20))
    assert told.outcome == "unclear" and "no such release" in told.why


# A guard of one rank, tick by tick.


class Asker:
    """Stands in for what asks the engine. answers: what comes next."""

    def __init__(self):
        self.answers, self.tickets, self.counts = [], [], 0

    def ask(self, ticket):
        self.tickets.append(ticket)

    def answer(self):
        if not self.answers or not self.tickets:
            return None
        return Answer(self.tickets.pop(), self.answers.pop(0))

    def count(self):
        self.counts += 1

    def counters(self):
        return Progress(1, 1, 0, 0)


class Warmer:
    def __init__(self):
        self.ticket = None

    def start(self, ticket):
        self.ticket = ticket

    def abandon(self):
        self.ticket = None

    def ended(self):
        ticket, self.ticket = self.ticket, None
        return None if ticket is None else (ticket, None)


@pytest.fixture
def guard(tmp_path, monkeypatch, systemctl):
    """A group of one in virtual time -> (makes a guard, runs it, the asker, its lines, systemctl, root)."""
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    (tmp_path / "opt/tandem").mkdir(parents=True)
    (tmp_path / "opt/tandem/current").symlink_to(f"releases/{RELEASE}")
    prove(tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2097152 kB\n")
    systemctl.said = shown("inactive", invocation="")
    setup = Setup("tandem", 0, ("spark-a",), ("127.0.0.1", 1), ("127.0.0.1", 2), Limits(), PLAN)
    asker, lines = Asker(), []

    def make():
        head = Head(setup, remembered(tmp_path).get("group"), asker, Warmer())
        return Guard(setup, None, lines.append, tmp_path, head)

    def run(seconds, guard):
        for _second in range(seconds):
            guard.tick()
            clock[0] += 1

    return make, run, asker, lines, systemctl, tmp_path


def test_a_guard_starts_its_unit_proves_it_and_tells(guard):
    make, run, asker, lines, systemctl, root = guard
    one = make()
    run(12, one)
    assert systemctl.asked[:2] == [
        ["reset-failed", "tandem-head.service"],
        ["start", "--no-block", "tandem-head.service"],
    ]
    systemctl.said = shown("active")
    asker.answers = ["right", "right"]
    run(12, one)
    told = one.snapshot()
    assert (told["state"], told["answer"]["outcome"], told["ranks_seen"][0]["unit"]) == (
        "ready",
        "right",
        "active",
    )
    assert told["ranks_seen"][0]["facts"]["release"] == RELEASE
    assert [line for line in lines if "ready" in line] and len(lines) == len(set(lines)) == 6, lines
    # Killed, and started anew: it goes on where it was.
    two = make()
    run(6, two)
    assert two.snapshot()["epoch"] == told["epoch"] and len(systemctl.asked) == 2
    # The unit dies: a new start, and a line of the history.
    systemctl.said = shown("activating", "auto-restart")
    run(2, two)
    assert ["kill", "--signal=SIGKILL", "tandem-head.service"] in systemctl.asked
    (entry,) = [json.loads(line) for line in (root / "var/lib/tandem/history.jsonl").read_text().splitlines()]
    assert (entry["event"], entry["outcome"], entry["digest"], entry["reason"]) == (
        "recovery",
        "began",
        RELEASE,
        "rank 0 died",
    )


def test_a_hold_is_respected(guard):
    make, run, _asker, _lines, systemctl, root = guard
    guard_hold.take(root, "rollout", 100, now=1000)
    one = make()
    run(99, one)
    assert systemctl.asked == [] and one.snapshot()["state"] == "held"
    run(20, one)
    assert systemctl.asked


def test_a_disk_that_is_full_stops_no_guard(guard, monkeypatch):
    make, run, asker, lines, systemctl, root = guard
    (root / "var/lib/tandem/history.jsonl").mkdir()
    (root / "run").write_text("no folder")
    one = make()
    run(12, one)
    systemctl.said = shown("active")
    asker.answers = ["right", "right"]
    run(12, one)
    systemctl.said = shown("activating", "auto-restart")
    run(3, one)
    assert ["kill", "--signal=SIGKILL", "tandem-head.service"] in systemctl.asked
    assert [line for line in lines if "could not be written" in line]


@pytest.mark.parametrize("rank", [-1, 0, 1, 7])
def test_a_rank_that_is_none_is_not_heard(guard, rank):
    with pytest.raises(ValueError, match="no other rank"):
        guard[0]()._head.hear(Report(rank))


def test_facts_of_a_rank(tmp_path):
    rail = {"netdev": "rail0", "address": "10.0.0.1/24"}
    setup = read_setup({**PLAN, "fabric": {"rails": [rail, {"netdev": "rail1"}, 7]}}, "plan")
    net = tmp_path / "sys/class/net/rail0"
    net.mkdir(parents=True)
    (tmp_path / "run/tandem").mkdir(parents=True)
    (tmp_path / "run/tandem/fabric.env").write_text('NCCL_IB_HCA="=rocep1s0f1"\nNCCL_IB_GID_INDEX=3\n')
    seen = []
    for carrier, speed in ((None, None), ("0", "-1"), ("1", "200000"), ("1", "-1")):
        for name, text in (("carrier", carrier), ("speed", speed)):
            if text:
                (net / name).write_text(text)
        seen.append(facts(tmp_path, setup)["rails"][0]["state"])
    assert seen == ["down", "no carrier", "200 Gb/s", "up"]
    told = facts(tmp_path, setup)
    assert (
        told["gids"] == "rocep1s0f1 index 3"
        and told["rails"][1]["state"] == "absent"
        and len(told["rails"]) == 2
    )
    assert (
        told["release"] is None and told["memory_available_gib"] is None and available_gib(tmp_path) is None
    )


# What a command cannot do without.
WANTED = {
    "fabric": ["--env"],
    "collective": ["--ranks", "2"],
    "clear": ["tandem-head"],
    "container": ["--stop", "tandem-head"],
    "build": ["job", "--state", "folder"],
}


def test_every_command_is_where_its_name_says():
    parser = cli.parser()
    for name, module in cli.COMMANDS.items():
        command = parser.parse_args([name, *WANTED.get(name, [])]).command
        assert command.NAME == name and command.__name__.endswith(f".{module}")
