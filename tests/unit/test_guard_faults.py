# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any faults in any order: the world of guard_sim says where two epochs run at once, or one starts beside another."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.guard_rules import Limits
from guard_sim import World
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

RANKS = st.integers(0, 3)
PAUSES = st.integers(0, 90)
FAULTS = st.one_of(
    st.tuples(
        st.sampled_from(["kill", "freeze", "kill_guard", "stop_by_hand", "start_by_hand"]), RANKS, PAUSES
    ),
    st.tuples(st.sampled_from(["off", "on", "hold", "drop", "compile", "compiled"]), RANKS, PAUSES),
    st.tuples(st.sampled_from(["cut", "mend", "wrong", "right", "prefill", "idle"]), st.just(0), PAUSES),
)


def do(world: World, fault: str, rank: int) -> None:
    node = world.nodes[rank % len(world.nodes)]
    if fault in ("kill", "freeze", "kill_guard", "stop_by_hand", "start_by_hand"):
        getattr(world, fault)(node.number)
    elif fault in ("off", "on"):
        if node.powered != (fault == "on"):
            world.power(node.number, fault == "on")
    elif fault in ("hold", "drop"):
        node.hold = "operator" if fault == "hold" else None
    elif fault in ("compile", "compiled"):
        node.compiling = fault == "compile"
    elif fault in ("cut", "mend"):
        world.link = fault == "mend"
    elif fault in ("wrong", "right"):
        world.wrong = fault == "wrong"
    else:
        world.prefill = fault == "prefill"


def mend(world: World) -> None:
    """Everything that only a person or time can mend."""
    world.link, world.wrong, world.prefill = True, False, False
    for node in world.nodes:
        node.hold, node.compiling = None, False
        if not node.powered:
            world.power(node.number, True)
    world.run(30)
    for _round in range(3):
        for node in world.nodes:
            if node.guard and node.guard.rank.by_hand:
                world.start_by_hand(node.number)
        world.run(5)


SEQUENCES = {"ranks": st.sampled_from([1, 2, 2, 2, 4]), "faults": st.lists(FAULTS, max_size=12)}
SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


@given(**SEQUENCES)
@settings(max_examples=12, **SETTINGS)
@example(ranks=1, faults=[("kill", 0, 6), ("freeze", 0, 0)])
@example(ranks=1, faults=[("kill", 0, 47), ("freeze", 0, 0)])
@example(ranks=2, faults=[("cut", 0, 45), ("kill_guard", 0, 0), ("mend", 0, 1), ("kill", 1, 0)])
def test_whatever_happens_it_ends_ready_or_given_up(ranks, faults):
    play(ranks, faults)


@pytest.mark.long
@given(**SEQUENCES)
@settings(max_examples=200, **SETTINGS)
def test_many_sequences_end_ready_or_given_up(ranks, faults):
    play(ranks, faults)


def play(ranks: int, faults: list[tuple[str, int, int]]) -> None:
    # What hangs before its first answer is found by the boot limit alone: a short one, to see it happen.
    world = World(ranks, Limits(boot_s=600))
    world.run(60)
    for fault, rank, pause in faults:
        do(world, fault, rank)
        world.run(pause)
    mend(world)
    for _second in range(1500):
        world.step()
        if world.state == "given-up" or (world.state == "ready" and world.healthy):
            break
    else:
        raise AssertionError(
            f"neither ready nor given up, but {world.head.state(world.now)}: {world.log[-20:]}"
        )
    world.run(120)
    assert world.state == "given-up" or (world.state == "ready" and world.healthy), world.log[-20:]


def test_the_world_itself_notices_two_epochs():
    world = World()
    world.until("ready", 120)
    world.nodes[1].unit.epoch = "another"
    with pytest.raises(AssertionError, match="two epochs"):
        world.step()
