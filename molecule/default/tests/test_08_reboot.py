# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that was rebooted comes back with its rails, and the next run proves the pair again."""

from __future__ import annotations

from conftest import NODES, ask, lab, shell, site, wait_for

LINKS = """for rail in enp1s0f0np0 enP2p1s0f0np0; do
  ip -4 -br addr show dev $rail | tr -s ' ' | cut -d' ' -f3-; cat /sys/class/net/$rail/mtu
done"""


def test_a_rebooted_node_has_its_rails_and_the_pair_is_proved_again():
    before = shell(NODES[1], LINKS)
    lab("reboot", NODES[1])
    wait_for("the rails", lambda: shell(NODES[1], LINKS) == before, 30)
    assert before.split().count("9000") == 2
    run = site()
    assert run.code == 0, run.text
    assert "391" in ask()
    quiet = site()
    assert quiet.code == 0 and quiet.changed == dict.fromkeys(NODES, 0), quiet.text
