# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory sets against what the roles declare."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils.variables import (
    RANGES,
    Variable,
    check,
    declared,
    differing,
    effective,
)

KNOWN = {
    "tandem_fabric_mtu": Variable("fabric", {"type": "int"}, 9000),
    "tandem_profile": Variable("profile", {"type": "str", "choices": ["a", "b"]}, "a"),
    "tandem_fabric_rails": Variable(
        "fabric",
        {
            "type": "list",
            "elements": "dict",
            "description": "x",
            "options": {"netdev": {"type": "str", "required": True, "description": "x"}},
        },
        [],
    ),
    "tandem_wheels": Variable("runtime", {"type": "path"}, "~"),
}


def findings(**values):
    return [(each.id, each.summary + " " + each.remedy) for each in check(KNOWN, {"spark-a": values})]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"tandem_fabric_mtu": 1500},
        {"tandem_fabric_mtu": "1500"},
        {"tandem_profile": "b"},
        {"tandem_fabric_rails": [{"netdev": "x"}]},
    ],
)
def test_what_fits(values):
    assert findings(**values) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("tandem_fabric_mtu", "big", ["int"]),
        ("tandem_fabric_mtu", None, ["nothing", "int"]),
        ("tandem_fabric_mtu", True, ["True", "int"]),
        ("tandem_fabric_mtu", -5, ["-5", "1280 to 9978"]),
        ("tandem_fabric_mtu", "70000", ["70000", "1280 to 9978"]),
        ("tandem_profile", None, ["nothing"]),
        ("tandem_profile", "c", ["a, b"]),
        ("tandem_profile", {"a": 1}, ["map", "text"]),
        ("tandem_wheels", ["x"], ["list", "text"]),
        ("tandem_fabric_rails", [{"netdve": "x"}], ["netdve"]),
        ("tandem_fabric_rails", [{}], ["netdev"]),
        ("tandem_fabric_rails", 7, ["list"]),
    ],
)
def test_what_does_not_fit_is_named(name, value, words):
    ((found, text),) = findings(**{name: value})
    assert found == "plan.variable.wrong" and name in text
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("name", "near"),
    [("tandem_fabric_mut", "tandem_fabric_mtu"), ("tandem_profil", "tandem_profile"), ("tandem_zzzz", None)],
)
def test_an_unknown_name_gets_the_nearest_known_one(name, near):
    ((found, text),) = findings(**{name: 1})
    assert found == "plan.variable.unknown" and name in text
    assert ("did you mean " + near in text) if near else "did you mean" not in text


def test_one_finding_for_all_hosts_with_the_same_problem():
    (found,) = check(KNOWN, {"spark-a": {"tandem_x": 1}, "spark-b": {"tandem_x": 2}})
    assert found.hosts == ("spark-a", "spark-b")


def test_an_unusable_value_counts_with_its_default():
    values = effective(KNOWN, {"tandem_fabric_mtu": "big", "tandem_profile": "b"})
    assert values == {
        "tandem_fabric_mtu": 9000,
        "tandem_profile": "b",
        "tandem_fabric_rails": [],
        "tandem_wheels": "~",
    }


def test_a_number_from_the_command_line_is_a_number():
    assert effective(KNOWN, {"tandem_fabric_mtu": "1500"})["tandem_fabric_mtu"] == 1500


def test_what_is_the_groups_has_one_value():
    one = effective(KNOWN, {"tandem_fabric_rails": [{"netdev": "x"}]})
    assert list(differing({"spark-a": one, "spark-b": effective(KNOWN, {})})) == []
    other = effective(KNOWN, {"tandem_fabric_mtu": 1500})
    (found,) = differing({"spark-a": one, "spark-b": other})
    assert found.id == "plan.variable.differs" and found.hosts == ("spark-a", "spark-b")
    assert "spark-a has 9000, spark-b has 1500" in found.summary


def test_what_has_a_range_is_declared():
    known = declared(Path(__file__).parents[2] / "roles")
    assert {known[name].spec["type"] for name in RANGES} <= {"int", "float"}
    assert [name for name, (first, last) in RANGES.items() if not first <= known[name].default <= last] == []


def test_the_roles_declare_what_the_plan_reads():
    known = declared(Path(__file__).parents[2] / "roles")
    assert known["tandem_fabric_mtu"].role == "fabric" and known["tandem_fabric_mtu"].default == 9000
    assert {
        "tandem_api_host",
        "tandem_api_port",
        "tandem_master_port",
        "tandem_fabric_rails",
        "tandem_profile",
        "tandem_fabric_supernet",
        "tandem_profile_overrides",
        "tandem_checkpoint_path",
    } <= set(known)
