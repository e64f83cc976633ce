# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be carried out is refused with every problem at once, before anything is touched."""

from __future__ import annotations

import json

import pytest

from conftest import NODES, shell, site, state, wait_for

RAIL, TWIN = "enp1s0f0np0", "enP2p1s0f0np0"


def rails(*pairs):
    return {"tandem_fabric_rails": [{"netdev": name, "address": address} for name, address in pairs]}


def one(variables, *words):
    """One problem alone; the unit tests of the plan have them all, and the last case below has three at once."""
    return pytest.param(variables, list(words), marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        one({"tandem_fabric_mut": 1}, "plan.variable.unknown", "did you mean tandem_fabric_mtu?"),
        one({"tandem_fabric_mtu": "big"}, "plan.variable.wrong", "tandem_fabric_mtu", "int"),
        one({"tandem_checkpoint_path": ["/srv"]}, "plan.variable.wrong", "found a list"),
        one({"tandem_profile": "v5"}, "plan.profile.unknown", "rehearsal, ", "v4-flash-next"),
        one(
            {"tandem_fabric_supernet": "192.168.50.0/24"},
            "plan.rail.subnet_taken",
            "a management interface",
            "eth0",
        ),
        ({"tandem_fabric_rails": [{"netdev": "eth0"}]}, ["plan.rail.management", "eth0"]),
        one(rails((RAIL, "10.1.1.1/24")), "plan.rail.address_twice", "10.1.1.1"),
        one(
            {"tandem_profile_overrides": {"tensor_parallel_size": 4}}, "plan.ranks.tensor_parallel", "4 ranks"
        ),
        one(
            {"tandem_profile_overrides": {"engine": {"flags": {"dtype": ""}}}}, "plan.profile.wrong", "dtype"
        ),
        (
            {"tandem_fabric_mut": 1, "tandem_fabric_supernet": "192.168.50.0/24", "tandem_master_port": "x"},
            ["tandem_fabric_mut", "plan.rail.subnet_taken", "tandem_master_port"],
        ),
    ],
)
def test_a_plan_that_cannot_be_carried_out(variables, words):
    before = {node: state(node) for node in NODES}
    run = site("-e", json.dumps(variables))
    assert run.code != 0
    assert [word for word in words if word not in run.text] == [], run.text
    assert "Traceback" not in run.text
    assert {node: state(node) for node in NODES} == before


def test_a_port_that_is_taken_names_its_owner():
    shell("spark-a", "systemd-run --unit=squatter python3 -m http.server 8999")
    try:
        wait_for("the squatter", lambda: shell("spark-a", "ss -ltnH sport = :8999"), 20)
        run = site("-e", "tandem_api_port=8999")
    finally:
        shell("spark-a", "systemctl stop squatter")
    assert run.code != 0
    assert "plan.port.taken" in run.text and "squatter.service" in run.text, run.text
