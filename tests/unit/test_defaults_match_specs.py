# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults and its argument_specs hold the same variables, and their names begin with tandem_."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(tasks.parent for tasks in ROOT.glob("roles/*/tasks"))


def load(path: Path) -> dict:
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


def problems(defaults: dict, options: dict) -> list[str]:
    """Return one sentence for each variable that is missing on one side, differs, or is named wrongly."""
    found = [f"{name} has a default and no spec" for name in sorted(set(defaults) - set(options))]
    for name, option in sorted(options.items()):
        if name not in defaults and not option.get("required") and "default" in option:
            found.append(f"{name} has a default in its spec and none in defaults/main.yml")
        if name in defaults and option.get("default", defaults[name]) != defaults[name]:
            found.append(f"{name} has another default in its spec than in defaults/main.yml")
        if name in defaults and option.get("required"):
            found.append(f"{name} is required and has a default")
        if not name.startswith("tandem_"):
            found.append(f"{name} does not begin with tandem_")
        if not option.get("description"):
            found.append(f"{name} is not described")
    return found


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_role(role: Path) -> None:
    specs = load(role / "meta" / "argument_specs.yml").get("argument_specs", {})
    assert specs, f"{role.name} has no meta/argument_specs.yml"
    options = {name: option for entry in specs.values() for name, option in entry.get("options", {}).items()}
    assert problems(load(role / "defaults" / "main.yml"), options) == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_private_variables_say_so(role: Path) -> None:
    private = load(role / "vars" / "main.yml")
    assert [name for name in private if not name.startswith("__tandem_")] == []


@pytest.mark.parametrize(
    ("defaults", "options", "expected"),
    [
        ({"tandem_x": 1}, {}, "tandem_x has a default and no spec"),
        ({}, {"tandem_x": {"description": "d", "default": 1}}, "tandem_x has a default in its spec and none"),
        ({"tandem_x": 2}, {"tandem_x": {"description": "d", "default": 1}}, "tandem_x has another default"),
        ({"tandem_x": 1}, {"tandem_x": {"description": "d", "required": True}}, "tandem_x is required and"),
        ({"fabric_x": 1}, {"fabric_x": {"description": "d"}}, "fabric_x does not begin with tandem_"),
        ({"tandem_x": 1}, {"tandem_x": {}}, "tandem_x is not described"),
    ],
)
def test_a_difference_is_seen(defaults: dict, options: dict, expected: str) -> None:
    [problem] = problems(defaults, options)
    assert problem.startswith(expected)
