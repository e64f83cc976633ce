# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every example inventory is read by Ansible itself and planned as site.yml plans it, over pretended machines."""

from __future__ import annotations

import copy
import functools
import json
import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import engine_config
from ansible_collections.tandem.spark.plugins.plugin_utils import planning
from ansible_collections.tandem.spark.plugins.plugin_utils.plan import firewall_text, node_plan
from test_plan import node

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/hosts.yml"))
SHIPPED = ROOT / "inventory.example"
# What only the user can: the one finding that is left without it, and what the overrides then are.
TO_BE_LOOKED_UP = {
    "container": (
        "container.image.digest",
        {"runtime": {"image": {"digest": f"sha256:08241111{'0' * 56}"}}},
    )
}
MEMORY = {
    "128": {"total_gib": 121.69, "available_gib": 115.0},
    "64": {"total_gib": 60.2, "available_gib": 56.5},
}


@functools.cache
def inventory(folder: Path) -> dict[str, dict]:
    """{host: its variables} of the group, in the order of the inventory, as Ansible reads it."""
    command = ["ansible-inventory", "-i", str(folder), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    assert "WARNING" not in done.stderr, done.stderr
    told = json.loads(done.stdout)
    return {host: told["_meta"]["hostvars"].get(host, {}) for host in told["tandem"]["hosts"]}


def machine(variables: dict, memory: str) -> dict:
    """A factory machine whose management link has the address that the inventory names."""
    seen = copy.deepcopy(node(management=f"{variables['ansible_host']}/24"))
    return {**seen, "memory": MEMORY[memory], "guard": None}


def planned(hosts: dict[str, dict], memory: str = "128") -> planning.Planned:
    given = {host: planning.public(variables) for host, variables in hosts.items()}
    looks = {host: machine(variables, memory) for host, variables in hosts.items()}
    return planning.make("tandem", list(hosts), given, looks)


def wrong(made: planning.Planned) -> list[str]:
    return [f"{each.id}: {each.summary}" for each in made.findings if each.severity == "error"]


def memory_of(folder: Path) -> str:
    return "64" if "64" in folder.name else "128"


def read(folder: Path) -> dict[str, dict]:
    """The same, for a test to change."""
    return copy.deepcopy(inventory(folder))


@pytest.mark.parametrize("folder", [*EXAMPLES, SHIPPED], ids=lambda path: path.name)
def test_an_example_can_be_carried_out_on_factory_machines(folder):
    hosts = read(folder)
    if folder.name in TO_BE_LOOKED_UP:
        missing, value = TO_BE_LOOKED_UP[folder.name]
        (told,) = wrong(planned(hosts, memory_of(folder)))
        assert told.startswith(f"{missing}:")
        hosts = {host: {**variables, "tandem_profile_overrides": value} for host, variables in hosts.items()}
    made = planned(hosts, memory_of(folder))
    assert wrong(made) == []
    for rank in made.ranks:
        told = node_plan("tandem", list(made.ranks), rank, made.plan, made.profile)
        assert [rail["netdev"] for rail in told["fabric"]["rails"]] == ["enp1s0f0np0", "enP2p1s0f0np0"]
        assert "table inet tandem" in firewall_text(told, rank.variables, made.profile)
    flags = {**made.profile["engine"]["flags"], "tensor-parallel-size": made.profile["tensor_parallel_size"]}
    assert "tensor-parallel-size: " in engine_config.engine_yaml(flags, "/srv/m", "m")


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_an_example_holds_nothing_that_is_private_or_of_one_machine(folder):
    for path in folder.rglob("*.yml"):
        text = path.read_text()
        assert text.startswith("---\n") and path.suffix == ".yml"
        addresses = re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text)
        assert all(each.startswith(("192.168.", "10.20.")) for each in addresses), path


def test_the_page_names_each_and_no_other():
    page = (ROOT / "examples" / "README.md").read_text()
    assert re.findall(r"^\| \[([a-z0-9-]+)\]\(\1\) \|", page, re.MULTILINE) == [
        "pair",
        "pair-behind-a-switch",
        "four-of-64-gb",
        "container",
        "ray",
        "controller-is-the-head",
    ]
    assert sorted(re.findall(r"^\| \[([a-z0-9-]+)\]", page, re.MULTILINE)) == [path.name for path in EXAMPLES]


def test_two_sparks_of_64_gb_are_refused_with_figures():
    made = planned(read(ROOT / "examples" / "pair"), "64")
    (why,) = wrong(made)[:1]
    assert why.startswith("memory.plan.") and "79.17" in " ".join(each.summary for each in made.findings), why


def test_the_machines_are_not_taken_for_what_an_example_does_not_say():
    """A check that passed over everything would pass over these too."""
    hosts = read(ROOT / "examples" / "container")
    for variables in hosts.values():
        variables["tandem_accept_licenses"] = []
        variables["tandem_acess_firewall"] = False
    found = {line.partition(":")[0] for line in wrong(planned(hosts))}
    assert {"container.image.licence", "plan.variable.unknown"} <= found


def test_what_each_example_is_about():
    by_name = {folder.name: (read(folder), planned(read(folder), memory_of(folder))) for folder in EXAMPLES}
    hosts, made = by_name["pair-behind-a-switch"]
    assert str(made.plan.rails["spark-a"][1].address) == "10.20.1.11/24"
    _hosts, made = by_name["four-of-64-gb"]
    assert made.profile["tensor_parallel_size"] == len(made.ranks) == 4
    _hosts, made = by_name["container"]
    assert made.profile["runtime"]["kind"] == "container"
    _hosts, made = by_name["ray"]
    assert made.profile["rendezvous"] == "ray"
    hosts, made = by_name["controller-is-the-head"]
    assert hosts["spark-a"]["ansible_connection"] == "local" and made.ranks[0].host == "spark-a"
