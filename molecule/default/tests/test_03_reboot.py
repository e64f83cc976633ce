# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that were rebooted come back with their rails, serve, compile nothing, and are proved without a restart."""

from __future__ import annotations

from conftest import NODES, UNITS, ask, lab, shell, site, wait_for

LINKS = """for rail in enp1s0f0np0 enP2p1s0f0np0; do
  ip -4 -br addr show dev $rail | tr -s ' ' | cut -d' ' -f3-; cat /sys/class/net/$rail/mtu
done"""
# Everything that was ever compiled, with the time that it was written at.
COMPILED = "find /var/cache/tandem -type f -printf '%p %T@ %s\\n' | sort"


def started(node: str) -> str:
    return shell(node, f"systemctl show -p InvocationID,ActiveEnterTimestamp {UNITS[node]}")


def test_a_pair_that_was_rebooted_is_proved_again_without_a_restart():
    links = {node: shell(node, LINKS) for node in NODES}
    compiled = {node: shell(node, COMPILED) for node in NODES}
    for node in NODES:
        lab("reboot", node)
    for node in NODES:
        wait_for("the rails", lambda node=node: shell(node, LINKS) == links[node], 30)
        assert links[node].split().count("9000") == 2
        up = f"systemctl is-active {UNITS[node]}"
        wait_for("the unit", lambda node=node, up=up: shell(node, up, check=False) == "active", 60)
        assert shell(node, ". /run/tandem/fabric.env; echo $NCCL_IB_GID_INDEX") == "3", (
            "what test_03_gids moved"
        )
    since = {node: started(node) for node in NODES}
    run = site()
    assert run.code == 0, run.text
    assert {node: started(node) for node in NODES} == since, "the engine was restarted"
    assert "391" in ask()
    # The second start of a release finds all that the first one compiled.
    assert {node: shell(node, COMPILED) for node in NODES} == compiled
    quiet = site()
    assert quiet.code == 0 and quiet.changed == dict.fromkeys(NODES, 0), quiet.text
