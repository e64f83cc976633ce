# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the peers answer on every rail with full, unfragmented packets?"""

from __future__ import annotations

from collections.abc import Sequence

from .findings import Finding, finding
from .rails_host import Host
from .rails_plan import PING_OVERHEAD, Rail, differences

PAUSE_S = 0.5


def ping(rail: Rail, peer: str, payload: int) -> list[str]:
    """One echo request that may not be fragmented and leaves through the rail, whatever the routes say."""
    return ["ping", "-n", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", str(payload), "-I", rail.netdev, peer]


def look(host: Host, rails: Sequence[Rail], timeout_s: float) -> list[Finding]:
    """Poll until every peer answers on every rail, at most timeout_s; then say all that is still wrong."""
    deadline = host.now() + timeout_s
    while True:
        links = host.links()
        wrong = [difference.finding() for difference in differences(rails, links)]
        cut = [rail for rail in rails if rail.netdev in links and not links[rail.netdev].carrier]
        silent = _silent(host, [(rail, peer) for rail in rails if rail not in cut for peer in rail.peers])
        if not (wrong or cut or silent):
            return []
        if host.now() >= deadline:
            break
        host.pause(PAUSE_S)
    wrong += [finding("fabric.rail.no_carrier", netdev=rail.netdev) for rail in cut]
    return wrong + _explain(host, silent)


def _silent(host: Host, pairs: Sequence[tuple[Rail, str]]) -> list[tuple[Rail, str]]:
    answers = host.which_pass([ping(rail, peer, rail.mtu - PING_OVERHEAD) for rail, peer in pairs])
    return [pair for pair, answered in zip(pairs, answers, strict=True) if not answered]


def _explain(host: Host, silent: Sequence[tuple[Rail, str]]) -> list[Finding]:
    """A peer that answers small packets only has a path MTU that is too small."""
    small = host.which_pass([ping(rail, peer, 56) for rail, peer in silent])
    found = []
    for (rail, peer), answered in zip(silent, small, strict=True):
        if answered:
            values = {"mtu": rail.mtu, "payload": rail.mtu - PING_OVERHEAD}
            found.append(finding("fabric.peer.path_mtu", peer=peer, netdev=rail.netdev, **values))
        elif len(rail.peers) > 1:
            several = ", ".join(rail.peers)
            found.append(finding("fabric.peer.one_of_several", peer=peer, netdev=rail.netdev, peers=several))
        else:
            found.append(finding("fabric.peer.no_answer", peer=peer, netdevs=rail.netdev))
    return found
