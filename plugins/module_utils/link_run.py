# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the rails between the head and each worker with perftest, with the GID indices that a start would take.

Both ranks walk through the same list of tests. In each one of them sends and the other waits, then the other way
round; a test has TCP ports of its own, so a rank that is ahead meets nobody in the wrong one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import (
    collective_run,
    commands,
    engine_state,
    fabric_env,
    fabric_look,
    ibv,
    link,
    perftest,
    rails_peers,
)
from .findings import Finding, finding, worst_first
from .kernel_files import Tree
from .perftest import BANDWIDTH, LATENCY, End
from .rails_host import Host
from .rails_plan import RailsError, read_rails

FIRST_PORT = 18600
LARGEST = 8 << 20  # what larger messages cost is memory, never more of a rate
LONGEST_S = 30
PAUSE_S = 0.5
SETUP_S = 30  # for a test to open its device, on a node that is busy


class LinkError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Wish:
    """How to measure. fit: say what forbids it, and measure nothing. size: bytes of a message; seconds: of a test."""

    limits: link.Limits
    measure: bool
    size: int
    seconds: int
    join_timeout_s: int
    peer_timeout_s: int
    fit: bool = False


@dataclass(frozen=True)
class Test:
    """One test of one pair. rails: indices of those that run at the same time."""

    number: int
    program: str
    rails: tuple[int, ...]
    peer_rank: int
    sends: bool


@dataclass(frozen=True)
class Outcome:
    """What came of one rail's part of a test; result of whoever sends."""

    argv: tuple[str, ...]
    output: str
    ok: bool
    absent: bool


def tests(rank: int, ranks: int, rails: int) -> Iterator[Test]:
    """This rank's tests in the order in which its partners have them; the numbers are the same for both ends."""
    single = [(index,) for index in range(rails)]
    together = [tuple(range(rails))] if rails > 1 else []
    of_pair = [(BANDWIDTH, each) for each in single + together] + [(LATENCY, each) for each in single]
    number = 0
    for worker in range(1, ranks):
        for program, indices in of_pair:
            for sender in (0, worker):
                if rank in (0, worker):
                    yield Test(number, program, indices, worker if rank == 0 else 0, sender == rank)
                number += 1


def problems(wish: Wish) -> list[str]:
    """Options with which nothing may be measured."""
    found = []
    if not 2 <= wish.size <= LARGEST:
        found.append(f"size is {wish.size} bytes, wanted 2 to {LARGEST}: larger messages show no higher rate")
    if not 1 <= wish.seconds <= LONGEST_S:
        found.append(f"seconds is {wish.seconds}, wanted 1 to {LONGEST_S} for each test")
    if wish.join_timeout_s < 1:
        found.append(f"join_timeout is {wish.join_timeout_s}, wanted 1 or more seconds")
    return found


def check(wish: Wish) -> dict[str, Any]:
    """{rails[], points[], findings[]} of this rank. LinkError where nothing can be said, or nothing may be measured."""
    if wrong := problems(wish):
        raise LinkError("; ".join(wrong) + ".")
    up = engine_state.running() if wish.measure or wish.fit else ()
    busy = [finding("link.rank.runs", units=" and ".join(up))] if up else []
    if busy and wish.measure:
        raise LinkError(f"{busy[0].summary}. {busy[0].remedy}.")
    plan = read_plan()
    try:
        planned = fabric_env.planned_rails(plan)
        rails = read_rails(plan["fabric"]["rails"], int(plan["fabric"]["mtu"]))
        notes = rails_peers.look(Host(), rails, wish.peer_timeout_s)
    except (RailsError, KeyError, TypeError, ValueError) as error:
        raise LinkError(f"The plan's rails cannot be used ({error}). Write it anew with site.yml.") from error
    table = ibv.read_devices(fabric_look.LIVE_SYSFS, ibv.parse_devinfo(commands.ask(["ibv_devinfo"]).out))
    tree = Tree(fabric_look.LIVE_SYSFS)
    states = link.states(tree, table.devices, [(rail.netdev, rail.hca) for rail in planned])
    named = [rail for rail in planned if rail.hca]
    selection, chosen_notes = fabric_env.chosen(named, table.devices) if named else (None, [])
    notes += [note for note in chosen_notes if note.severity == "error"]
    notes += link.judge_states(states, wish.limits)
    indices = selection.per_hca if selection else {}
    points: list[link.Point] = []
    if wish.measure or wish.fit:
        # Only where every rail is fit for it: both ranks must walk through the same tests.
        forbidden = [*busy, *_forbids(states, indices)]
        notes += forbidden
        broken = any(note.id.startswith(("fabric.peer", "fabric.rail")) for note in notes)
        if wish.measure and not forbidden and not broken:
            points, more = _measured(plan, rails, states, indices, wish, tree)
            notes += more
    return {
        "rails": [_as_dict(state, indices) for state in states],
        "points": points,
        "findings": worst_first(notes),
    }


def _as_dict(state: link.State, indices: Mapping[str, int | None]) -> dict[str, Any]:
    pcie = state.pcie
    return {
        **{name: value for name, value in vars(state).items() if name != "pcie"},
        "pcie_gts": pcie.speed_gts if pcie else None,
        "pcie_width": pcie.width if pcie else None,
        "pcie_gbps": round(pcie.gbps, 1) if pcie else None,
        "gid_index": indices.get(state.hca) if state.hca else None,
    }


def _forbids(states: Sequence[link.State], indices: Mapping[str, int | None]) -> list[Finding]:
    """Why this rank cannot be measured."""
    if absent := perftest.missing():
        return [finding("link.perftest.missing", programs=" and ".join(absent))]
    return [
        finding("link.peer.unmeasured", netdev=state.netdev, why=why)
        for state in states
        if (why := _unfit(state, indices))
    ]


def _measured(plan, rails, states, indices, wish, tree) -> tuple[list[link.Point], list[Finding]]:
    hcas = [state.hca for state in states]
    before = {state.hca: _counters(tree, state) for state in states}
    points, more = walk(plan, rails, hcas, indices, wish)
    grown = {state.hca: link.growth(before[state.hca], _counters(tree, state)) for state in states}
    return points, more + link.judge_points(points, states, grown, wish.limits)


def _unfit(state: link.State, indices: Mapping[str, int | None]) -> str | None:
    if not state.hca:
        return "no RDMA device belongs to it"
    if indices.get(state.hca) is None:
        return f"no GID of {state.hca} is the RoCE v2 entry of its planned address"
    return None


def _counters(tree: Tree, state: link.State) -> dict[str, int]:
    return link.counters(tree, state.hca, commands.ask(["ethtool", "-S", state.netdev]).out)


def walk(plan, rails, hcas, indices, wish) -> tuple[list[link.Point], list[Finding]]:
    """Run this rank's tests one after the other, until a peer does not take part."""
    points: list[link.Point] = []
    notes: list[Finding] = []
    rank = int(plan["rank"])
    for test in tests(rank, int(plan["ranks"]), len(rails)):
        # Peers are the other ranks in their order.
        peer_number = test.peer_rank - (test.peer_rank > rank)
        peers = [rails[index].peers[peer_number] for index in test.rails]
        ends = [
            End(
                hcas[index],
                indices[hcas[index]],
                FIRST_PORT + test.number * len(rails) + index,
                peer if test.sends else None,
            )
            for index, peer in zip(test.rails, peers, strict=True)
        ]
        # A worker waits while the head measures the workers before it.
        patience = wish.join_timeout_s * max(rank, test.peer_rank)
        with ThreadPoolExecutor(max_workers=len(ends)) as pool:
            outcomes = list(pool.map(lambda end: run(test.program, end, wish, patience), ends))  # noqa: B023 - the pool ends within the round
        used = [end.hca for end in ends]
        if any(outcome.absent for outcome in outcomes):
            values = {"test": test.program, "hca": " and ".join(used), "seconds": f"{patience:g}"}
            return points, [*notes, finding("link.peer.absent", peer=peers[0], **values)]
        notes += _failures(outcomes, test.sends)
        if test.sends:
            points += _point(test.program, peers[0], used, outcomes)
    return points, notes


def run(program: str, end: End, wish: Wish, patience_s: float) -> Outcome:
    """One rail's part. Who sends asks again until the other end waits for it."""
    deadline = time.monotonic() + patience_s
    limit = wish.seconds + SETUP_S + patience_s
    argv = perftest.command(program, end, wish.size, wish.seconds, limit)
    while True:
        answer = commands.ask(argv, timeout_s=limit + 10, with_errors=True)
        nobody = perftest.nobody_there(answer.out) if end.server else answer.rc in (None, 124, 137)
        if not nobody or not end.server or time.monotonic() >= deadline:
            return Outcome(tuple(argv), answer.out, answer.ok, nobody)
        time.sleep(PAUSE_S)


def _failures(outcomes: Sequence[Outcome], sends: bool) -> list[Finding]:
    notes = []
    for outcome in outcomes:
        try:
            if not outcome.ok:
                raise perftest.PerftestError(perftest.explain(outcome.output))
            if sends:
                perftest.parse(outcome.output)
        except perftest.PerftestError as error:
            values = {"command": perftest.words(outcome.argv), "why": error}
            notes.append(finding("link.measure.failed", evidence=outcome.output[-2000:], **values))
    return notes


def _point(program: str, peer: str, hcas: Sequence[str], outcomes: Sequence[Outcome]) -> list[link.Point]:
    """None where a part of it failed: a sum without it would be a wrong number."""
    try:
        results = [perftest.parse(outcome.output) for outcome in outcomes if outcome.ok]
    except perftest.PerftestError:
        return []
    if len(results) < len(outcomes):
        return []
    first = results[0]
    gbps = None if program == LATENCY else round(sum(result.gbps for result in results), 3)
    return [link.Point(program, peer, tuple(hcas), first.bytes, gbps, first.latency_us, first.mtu)]


def read_plan() -> dict[str, Any]:
    try:
        return collective_run.read_plan()
    except collective_run.CollectiveError as error:
        raise LinkError(str(error)) from error
