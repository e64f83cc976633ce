# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL is preloaded for a profile, and what its section `nccl` may not say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.filter.nccl import nccl_preload
from ansible_collections.tandem.spark.plugins.module_utils import nccl_rules
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import version_number
from ansible_collections.tandem.spark.plugins.plugin_utils.nccl_library import locked, problems
from ansible_collections.tandem.spark.plugins.plugin_utils.profile import ProfileError, load, names

ROLES = Path(__file__).parents[2] / "roles"
LISTS = ROLES / "runtime" / "files"
FILES = ROLES / "profile" / "files"
SCHEMA = yaml.safe_load((FILES / "profile_schema.yml").read_text())
HASH = " \\\n    --hash=sha256:" + "0" * 64 + "\n"
CLOSED = {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0"}


@pytest.fixture
def lists(tmp_path):
    pins = {"old": "nvidia-nccl-cu13==2.28.9", "new": "nvidia-nccl-cu13==2.30.7", "cpu": "torch==2.13.0+cpu"}
    for name, pin in pins.items():
        (tmp_path / f"{name}.txt").write_text(f"nccl4py==9.9.9{HASH}{pin}{HASH}uv==0.13.9{HASH}")
    return tmp_path


def unlisted(kind: str, **nccl) -> dict:
    return {"transport": "rdma", "runtime": {"kind": kind}, "nccl": nccl}


def profile(engine: str, transport: str = "rdma", **nccl) -> dict:
    return {"transport": transport, "runtime": {"lock": f"{engine}.txt"}, "nccl": nccl}


@pytest.mark.parametrize(
    ("made", "own", "lock", "words"),
    [
        (
            profile("new", minimum="2.30.4", preload={"lock": "new.txt"}),
            "2.30.7",
            None,
            "nothing is preloaded",
        ),
        (
            profile("old", minimum="2.30.4", preload={"lock": "new.txt"}),
            "2.28.9",
            "new.txt",
            "2.30.7 is preloaded",
        ),
        (profile("old"), "2.28.9", None, "wants no other"),
        (profile("cpu", minimum="2.30.4", preload={"lock": "new.txt"}), None, None, "gloo"),
        # No list tells what an image brings, or what is compiled: what is wanted is preloaded.
        (
            unlisted("container", minimum="2.30.4", preload={"lock": "new.txt"}),
            None,
            "new.txt",
            "2.30.7 is preloaded",
        ),
        (
            unlisted("source", minimum="2.30.4", preload={"lock": "new.txt"}),
            None,
            "new.txt",
            "2.30.7 is preloaded",
        ),
        (unlisted("container", minimum="2.30.4"), None, None, "nothing is preloaded"),
        (unlisted("container"), None, None, "nothing is preloaded"),
    ],
)
def test_what_is_preloaded(lists, made, own, lock, words):
    choice = nccl_preload(made, str(lists))
    assert (choice["own"], choice["lock"]) == (own, lock) and words in choice["why"]
    assert problems(made, lists) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (profile("new", minimum="new"), "nccl.minimum is 'new'"),
        (profile("old", minimum="2.30.4"), "older than nccl.minimum 2.30.4: name a list"),
        (profile("old", minimum="2.30.4", preload={"lock": "none.txt"}), "'none.txt' is no list"),
        (profile("old", minimum="2.30.4", preload={"lock": "cpu.txt"}), "'cpu.txt' is no list"),
        (profile("old", minimum="2.30.8", preload={"lock": "new.txt"}), "pins NCCL 2.30.7, older than"),
        (
            unlisted("container", minimum="2.30.4", preload={"lock": "old.txt"}),
            "pins NCCL 2.28.9, older than",
        ),
        (profile("new", environment={"NCCL_NET": "Socket"}), "NCCL_NET=Socket while transport is rdma"),
        (profile("new", environment={"NCCL_IB_DISABLE": 1}), "NCCL_IB_DISABLE=1 while transport is rdma"),
        (profile("new", "tcp", environment={"NCCL_IB_GID_INDEX": 3}), "NCCL_IB_GID_INDEX, which every start"),
    ],
)
def test_what_cannot_be_carried_out_is_named(lists, made, words):
    (problem,) = problems(made, lists)
    assert words in problem


@pytest.mark.parametrize(
    ("transport", "given", "expected"),
    [
        ("rdma", {}, CLOSED),
        ("rdma", {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": 0}, {**CLOSED, "NCCL_DEBUG": "INFO"}),
        ("rdma", {"NCCL_DEBUG": None}, CLOSED),
        ("tcp", {}, {}),
        ("tcp", {"NCCL_NET": "Socket"}, {"NCCL_NET": "Socket"}),
    ],
)
def test_rdma_fails_closed(transport, given, expected):
    assert nccl_rules.environment(transport, given) == expected


@pytest.mark.parametrize("name", names(FILES / "profiles"))
def test_profiles_whose_list_has_a_new_enough_one_need_no_preload(name):
    profile = load(name, FILES / "profiles", {}, SCHEMA)
    # What an image brings no list tells; the list of the profile over Ray has an older one.
    needs = profile["runtime"]["kind"] == "container" or name == "v4-flash-main-ray"
    wanted = "nccl-cu13.txt" if needs else None
    assert nccl_preload(profile, str(LISTS))["lock"] == wanted


def test_the_list_that_ships_is_new_enough_for_the_profile_that_names_it():
    shipped = load("v4-flash-next", FILES / "profiles", {}, SCHEMA)["nccl"]
    assert version_number(locked(LISTS, shipped["preload"]["lock"])) >= version_number(shipped["minimum"])


def test_a_profile_asks_for_more_than_there_is():
    with pytest.raises(
        ProfileError, match=r"nccl.preload.lock pins NCCL 2.30.4, older than nccl.minimum 9.0.0"
    ):
        load("v4-flash-next", FILES / "profiles", {"nccl": {"minimum": "9.0.0"}}, SCHEMA)
