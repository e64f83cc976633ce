# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard's rules against every fault that was measured on a pair, in virtual time."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.guard_group import Group, Heard, News
from ansible_collections.tandem.spark.plugins.module_utils.guard_life import Answer
from ansible_collections.tandem.spark.plugins.module_utils.guard_rules import Limits, Report
from guard_sim import BOOT_S, WARM_S, World

# From the end of a fault to a proven answer: the engine's boot, its warm-up, and at most this of the guard's own.
OWN_S = 30


def serving(ranks: int = 2) -> World:
    """A group that came up by itself after its nodes booted."""
    world = World(ranks)
    world.until("ready", 120)
    world.run(20)
    return world


def back(world: World, at_most_s: float) -> float:
    """Seconds until it is ready again, after it was seen not to be."""
    began = world.now
    while world.state == "ready":
        world.step()
        assert world.now - began < at_most_s, "nothing was noticed"
    world.until("ready", at_most_s)
    assert world.healthy and len(world.epochs()) == 1
    return world.now - began


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_group_comes_up_at_boot(ranks):
    world = World(ranks)
    seconds = world.until("ready", 120)
    assert seconds <= BOOT_S + WARM_S + OWN_S and world.healthy
    assert [state for _at, state in world.states][-3:] == ["starting", "warming", "ready"]
    world.run(600)
    assert world.state == "ready" and len(world.starts) == ranks and not world.notes


@pytest.mark.parametrize(
    ("fault", "detected_s"),
    [
        pytest.param(lambda w: w.kill(0), 3, id="a, b: head or its engine killed"),
        pytest.param(lambda w: w.kill(1), 3, id="c, d: worker or its rank killed"),
        pytest.param(lambda w: w.freeze(0), 50, id="j: rank 0 stopped by SIGSTOP"),
        pytest.param(lambda w: w.freeze(1), 50, id="j: rank 1 stopped by SIGSTOP"),
        pytest.param(lambda w: (w.kill(0), w.kill(1)), 3, id="both killed"),
        pytest.param(lambda w: (w.freeze(1), w.kill_guard(1)), 50, id="rank frozen and its guard killed"),
        pytest.param(
            lambda w: (w.kill(1), w.kill_guard(0)), 8, id="worker killed while the head's guard is away"
        ),
    ],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_fault_ends_in_a_new_epoch(ranks, fault, detected_s):
    world = serving(ranks)
    epoch = world.epochs()
    fault(world)
    seconds = back(world, 240)
    assert seconds <= detected_s + BOOT_S + WARM_S + OWN_S and world.epochs() != epoch
    assert [outcome for _at, outcome, _why in world.notes] == ["began", "recovered"]
    assert len(world.starts) == 2 * ranks


def test_one_rank_alone_recovers():
    world = serving(1)
    world.kill(0)
    assert back(world, 120) <= 3 + BOOT_S + WARM_S + OWN_S


@pytest.mark.parametrize("rank", [0, 1])
def test_e_stopped_by_hand_and_started_again(rank):
    world = serving()
    world.stop_by_hand(rank)
    world.until("off", 20)
    world.run(3600)
    assert world.state == "off" and world.nodes[1 - rank].unit.state == "down", (
        "an operator's stop is respected"
    )
    assert len(world.starts) == 2
    world.kill_guard(0)
    world.kill_guard(1)
    world.run(300)
    assert world.state == "off" and len(world.starts) == 2, "also by a guard that was started anew"
    world.start_by_hand(rank)
    mine = world.nodes[rank].unit.invocation
    assert world.until("ready", 200) <= BOOT_S + WARM_S + OWN_S
    assert world.nodes[rank].unit.invocation == mine, "what the operator started is kept"
    assert not world.notes


@pytest.mark.parametrize("first", [0, 1])
def test_all_stopped_by_hand_and_started_again_one_after_the_other(first):
    world = serving()
    world.stop_by_hand(0)
    world.until("off", 20)
    world.stop_by_hand(1)
    world.run(30)
    mine = []
    for rank in (first, 1 - first):
        world.start_by_hand(rank)
        mine.append((rank, world.nodes[rank].unit.invocation))
        world.run(2)
    world.until("ready", 200)
    assert [(rank, world.nodes[rank].unit.invocation) for rank, _start in mine] == mine
    assert not world.notes


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("seconds", [10, 200])
def test_f_g_a_node_is_off_for_a_while(rank, seconds):
    world = serving()
    world.power(rank, False)
    world.run(seconds)
    world.power(rank, True)
    assert world.until("ready", 300) <= 10 + 41 + BOOT_S + WARM_S + OWN_S
    assert world.healthy


def test_both_nodes_off():
    world = serving()
    world.power(0, False)
    world.power(1, False)
    world.run(30)
    world.power(0, True)
    world.run(15)
    world.power(1, True)
    assert world.until("ready", 200) <= 10 + BOOT_S + WARM_S + OWN_S


def test_h_a_link_that_is_down_for_20_s_restarts_nothing():
    world = serving()
    world.link = False
    world.run(20)
    world.link = True
    world.run(60)
    assert world.state == "ready" and len(world.starts) == 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_i_a_link_that_is_down_for_150_s(ranks):
    world = serving(ranks)
    world.link = False
    world.run(30)
    assert world.head.state(world.now)[0] in ("ready", "no-progress")
    world.run(30)
    assert all(node.unit.state == "down" for node in world.nodes), "each side ended its ranks by itself"
    world.run(90)
    world.link = True
    assert back(world, 200) <= BOOT_S + WARM_S + OWN_S


def test_a_cable_that_is_out_at_boot_is_waited_for():
    world = World()
    world.link = False
    world.run(7200)
    assert world.state == "waiting" and not world.starts
    world.link = True
    assert world.until("ready", 200) <= BOOT_S + WARM_S + OWN_S


def test_a_cable_pulled_again_and_again_while_ranks_start():
    world = World()
    world.until("starting", 60)
    for _time in range(5):
        world.link = False
        world.run(300)
        world.link = True
        world.run(20)
    world.until("ready", 900)
    assert world.healthy


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_killed_guards_adopt_what_runs(which):
    world = serving()
    before = [node.unit.invocation for node in world.nodes]
    for rank in which:
        world.kill_guard(rank)
    world.run(4)
    world.until("ready", 10)
    world.run(120)
    assert [node.unit.invocation for node in world.nodes] == before and len(world.starts) == 2
    assert world.state == "ready" and not world.notes


@pytest.mark.parametrize("seconds", [10, 45, 55])
def test_a_guard_killed_while_the_group_starts_goes_on_with_it(seconds):
    world = World()
    world.run(seconds)
    starts = list(world.starts)
    world.kill_guard(0)
    world.until("ready", 120)
    assert world.starts == starts and world.healthy
    assert "warming" in [state for _at, state in world.states], "and still warms up"


def test_without_any_memory_a_running_group_is_adopted_after_an_answer():
    world = serving()
    for rank in (0, 1):
        world.kill_guard(rank)
        world.nodes[rank].run = {}
    world.run(10)
    assert world.state == "ready" and len(world.starts) == 2


# What must not restart.


def test_a_long_prefill_is_busy():
    world = serving()
    world.prefill = True
    world.run(1700)
    assert world.state == "busy" and len(world.starts) == 2
    world.run(300)
    assert world.state == "no-progress", "nobody vouches for it after half an hour"
    world.run(7200)
    world.prefill = False
    world.run(5)
    assert world.state == "ready" and len(world.starts) == 2 and not world.notes


@pytest.mark.parametrize("sign", ["compiling", "cache"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_cold_compile_on_one_rank_restarts_nothing(rank, sign):
    world = serving()
    node = world.nodes[rank]
    for second in range(2160):  # 36 minutes, as seen
        world.prefill = False
        node.compiling = sign == "compiling"
        if sign == "cache":
            node.cache += second % 20 == 0
            world.prefill, world.tokens = True, 0  # the engine answers nothing, and no counter moves
        world.step()
        assert len(world.starts) == 2
    node.compiling = world.prefill = False
    world.run(10)
    assert world.state == "ready" and not world.notes


def test_a_compile_without_an_end_is_ended_by_the_hard_cap():
    world = serving()
    world.nodes[1].compiling = True
    world.run(3500)
    assert not world.notes
    world.run(300)
    assert world.notes[0][1] == "began" and "3600 s" in world.notes[0][2]


def test_a_loaded_pair_is_left_alone_for_an_hour():
    world = serving()
    world.busy = True
    world.run(3600)
    assert world.state == "ready" and len(world.starts) == 2


@pytest.mark.parametrize("moving_s", [0, 1, 14, 29])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_wedge_is_found_in_time_whatever_moved_before(rank, moving_s):
    world = serving()
    world.busy = True
    world.run(moving_s)
    began = world.now
    world.freeze(rank)
    while not world.notes:
        world.step()
        limits = world.limits
        assert world.now - began <= limits.probe_interval_s + limits.probe_timeout_s + 5
    assert "wedged" in world.notes[0][2]


def test_health_is_lost_in_time():
    world = serving()
    began = world.now
    world.freeze(1)
    while world.state == "ready":
        world.step()
    assert world.now - began <= 50


# Answers that are not right.


def test_bad_answers_cost_the_health_at_once_and_the_group_in_the_end():
    world = serving()
    world.wrong = True
    world.run(17)
    assert world.state == "wrong" and not world.notes
    world.run(30)
    assert "5 answers in a row were bad" in world.notes[0][2]
    world.wrong = False
    world.until("ready", 120)


def test_one_bad_answer_restarts_nothing():
    world = serving()
    world.wrong = True
    while world.state != "wrong":
        world.step()
    world.wrong = False
    world.run(10)
    assert world.state == "ready" and not world.notes


def test_an_api_that_only_refuses_is_restarted():
    world = serving()
    world.dumb = True
    world.run(50)
    assert "API does not answer" in world.notes[0][2]


def test_six_recoveries_without_a_right_answer_are_enough():
    world = serving()
    world.wrong = True
    world.until("given-up", 3600)
    assert [outcome for _at, outcome, _why in world.notes] == ["began"] * 6 + ["given-up"]
    begun = [at for at, outcome, _why in world.notes if outcome == "began"]
    pauses = [round(then - now) for now, then in zip(begun, begun[1:], strict=False)]
    assert pauses[0] == pauses[1] < pauses[2] < pauses[3] < pauses[4], "it backs off from the third on"
    world.run(3600)
    starts = len(world.starts)
    assert starts == 14 and all(node.unit.state == "down" for node in world.nodes)
    world.kill_guard(0)
    world.run(60)
    assert world.state == "given-up", "a guard that is started anew knows"
    world.wrong, world.again = False, True
    world.until("ready", 200)


def test_given_up_leaves_to_an_operator_what_the_operator_starts():
    world = serving()
    world.wrong = True
    world.until("given-up", 3600)
    world.run(30)
    world.start_by_hand(0)
    world.start_by_hand(1)
    world.kill_guard(0)
    world.run(120)
    assert world.state == "given-up" and world.healthy


# Hold.


@pytest.mark.parametrize("rank", [0, 1])
def test_a_hold_on_any_rank_stops_the_guard_from_doing_anything(rank):
    world = serving()
    starts = len(world.starts)
    world.nodes[rank].hold = "rollout"
    world.run(5)
    assert world.state == "held"
    world.kill(0)
    world.kill(1)
    world.run(100)
    assert len(world.starts) == starts and all(node.unit.state == "active" for node in world.nodes)
    world.nodes[rank].hold = None
    world.until("ready", 60)
    assert world.healthy


def test_what_was_stopped_under_a_hold_is_started_when_it_ends():
    world = serving()
    for node in world.nodes:
        node.hold = "stop"
    world.run(3)
    for rank in (0, 1):
        world.stop_by_hand(rank)
    world.run(600)
    assert world.state == "held" and all(node.unit.state == "down" for node in world.nodes)
    for node in world.nodes:
        node.hold = None
    world.until("ready", 120)


# Memory, and what does not die.


def test_the_next_start_waits_for_the_memory_and_not_for_ever():
    world = serving()
    world.memory_leaks = True
    world.kill(0)
    world.run(100)
    assert world.state == "waiting" and "memory" in world.head.state(world.now)[1]
    world.until("ready", 200)
    assert any("did not come back" in line for line in world.log)


def test_a_rank_that_survives_sigkill_is_named_and_nothing_starts():
    world = serving()
    world.nodes[1].unit.undying = True
    world.kill(0)
    world.run(600)
    assert len(world.starts) == 2 and world.state == "stopping"
    said = [line for line in world.log if "state D" in line]
    assert len(said) == 1 and "rank 1" in said[0]
    world.power(1, True)  # a reboot
    world.until("ready", 200)


# The decisions alone, where the world above is too kind.


def test_a_report_from_before_the_order_to_stop_says_nothing():
    def heard(*times: float) -> dict[int, Heard]:
        return {rank: Heard(Report(rank, "down"), at) for rank, at in enumerate(times)}

    group = Group(2, Limits(), 0, lambda: "epoch")
    group.tick(1, heard(1, 1), News())
    group.tick(2, heard(2, 1), News())
    assert group.phase == "stopping", "rank 1 may have been started since"
    group.tick(3, heard(3, 2), News())
    assert group.phase == "running"


def test_after_the_warm_up_only_an_answer_makes_it_ready():
    world = World()
    world.until("warming", 120)
    while world.nodes[0].guard.warming:
        world.step()
    world.dumb = True
    world.run(10)
    assert world.state == "warming"
    world.dumb = False
    world.until("ready", 10)


def test_an_operators_restart_of_one_rank_restarts_all():
    world = serving()
    world.stop_by_hand(1)
    world.nodes[1].unit.go("down", world.now)
    world.start_by_hand(1)  # at once, as `systemctl restart` does it
    back(world, 120)
    assert "rank 1 died" in world.notes[0][2]


def test_a_warm_up_that_fails_because_somebody_stops_a_rank_is_no_fault():
    group, now, asked = Group(1, Limits(), 0, lambda: "e"), 0.0, []

    def tick(unit: str, news: News | None = None, by_hand: bool = False) -> list[str]:
        nonlocal now
        now += 1
        report = Report(0, unit, None if unit == "down" else "start", "e", by_hand)
        actions = group.tick(now, {0: Heard(report, now)}, news or News())
        asked.extend(action.value for action in actions if action.kind == "ask")
        return [action.kind for action in actions]

    tick("down"), tick("down"), tick("active"), tick("active")
    assert "warm_up" in tick("active", News(answer=Answer(asked[-1], "right")))
    told = tick("stopping", News(warm=(asked[-1] + 1, "it broke")))
    told += tick("stopping") + tick("down", by_hand=True)
    assert group.phase == "off" and "note" not in told


@pytest.mark.parametrize(
    "memory", [None, {"epoch": "e1", "bound": {"0": "start-0", "1": "start-1"}, "warm": True}]
)
@pytest.mark.parametrize("unit", ["unknown", "preparing", "queued"])
def test_what_is_not_yet_known_is_not_killed(unit, memory):
    def heard(now: float, second: str) -> dict[int, Heard]:
        units = {0: "active", 1: second}
        return {rank: Heard(Report(rank, units[rank], f"start-{rank}", "e1"), now) for rank in units}

    group = Group(2, Limits(), 0, lambda: "e2", memory)
    for now in range(1, 60):
        group.tick(now, heard(now, unit), News())
        assert group.order(1).want == "nothing"
    group.tick(60, heard(60, "active"), News())
    assert group.phase == "running" and group.order(1).invocation == "start-1"
