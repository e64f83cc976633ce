# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tuning.md has a line for every flag and variable of the default profile, with the value that it has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils import nccl_rules
from ansible_collections.tandem.spark.plugins.plugin_utils import planning, profile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tuning.md").read_text(encoding="utf-8")
DEFAULT = yaml.safe_load((ROOT / "roles/profile/defaults/main.yml").read_text())["tandem_profile"]
PROFILE = profile.described(DEFAULT, planning.PROFILES)


def rows(page: str, heading: str) -> dict[str, tuple[str, ...]]:
    """{name: (value, what, why, whose)} of the table below a heading."""
    part = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| `") else []
        if len(cells) == 5:
            found[cells[0].strip("` ")] = (cells[1].strip("` "), *cells[2:])
    return found


def differences(page: str, heading: str, wanted: dict[str, str]) -> list[str]:
    """A sentence for each name that has no line, a line too many, another value, or an empty cell."""
    told = rows(page, heading)
    found = [f"{name} has no line" for name in wanted if name not in told]
    found += [f"{name} is not in the profile" for name in told if name not in wanted]
    found += [
        f"{name} is {wanted[name]}, the page says {told[name][0]}"
        for name in wanted
        if name in told and told[name][0] != wanted[name]
    ]
    return found + [f"{name} has an empty cell" for name, cells in told.items() if not all(cells)]


def spelled(values: dict) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in values.items()}


NCCL = nccl_rules.environment(PROFILE["transport"], PROFILE["nccl"]["environment"])
TABLES = {
    "Flags": spelled(PROFILE["engine"]["flags"]),
    "Variables of the engine": spelled(PROFILE["engine"]["environment"]),
    "Variables of NCCL": NCCL,
}


@pytest.mark.parametrize("heading", TABLES)
def test_every_name_has_its_line(heading):
    assert TABLES[heading] and differences(PAGE, heading, TABLES[heading]) == []


def test_a_page_out_of_step_is_seen():
    wanted = TABLES["Flags"]
    assert differences(PAGE, "Flags", {**wanted, "new-flag": "1"}) == ["new-flag has no line"]
    assert differences(PAGE, "Flags", {**wanted, "block-size": "64"}) == [
        "block-size is 64, the page says 256"
    ]
    fewer = {name: value for name, value in wanted.items() if name != "block-size"}
    assert differences(PAGE, "Flags", fewer) == ["block-size is not in the profile"]


def test_what_is_written_at_every_start_and_where_caches_lie_is_told():
    code = (ROOT / "plugins/module_utils/fabric_env.py").read_text()
    of_start = set(re.findall(r'"((?:NCCL|GLOO|TP|UCX|VLLM)_[A-Z_]+)":', code)) | nccl_rules.OF_EVERY_START
    caches = yaml.safe_load((ROOT / "roles/engine/vars/main.yml").read_text())["__tandem_cache_environment"]
    assert of_start and caches
    assert {name for name in (*of_start, *caches) if f"`{name}`" not in PAGE} == set()
