# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles: what ships is usable, overrides are laid over, everything wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils.profile import (
    ProfileError,
    UnknownProfile,
    load,
    merged,
    names,
)

FILES = Path(__file__).parents[2] / "roles" / "profile" / "files"
FOLDER = FILES / "profiles"
SCHEMA = yaml.safe_load((FILES / "profile_schema.yml").read_text())


@pytest.mark.parametrize("name", names(FOLDER))
def test_every_profile_that_ships_is_usable_and_says_what_it_is_worth(name):
    profile = load(name, FOLDER, {}, SCHEMA)
    assert profile["name"] == name
    assert profile["evidence"]["source"] and profile["evidence"]["two_sparks"] in (True, False)
    assert (FILES.parents[1] / "runtime" / "files" / profile["runtime"]["lock"]).is_file()


def test_the_default_of_the_role_ships():
    defaults = yaml.safe_load((FILES.parent / "defaults" / "main.yml").read_text())
    assert defaults["tandem_profile"] in names(FOLDER)


@pytest.mark.parametrize(
    ("base", "overrides", "result"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3, "z": 4}}, {"a": {"x": 1, "y": 3, "z": 4}}),
        ({"a": {"x": 1}, "b": 2}, {"a": {"x": None}, "b": None}, {"a": {}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ],
)
def test_overrides(base, overrides, result):
    before = yaml.safe_dump(base)
    assert merged(base, overrides) == result
    assert yaml.safe_dump(base) == before


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"engine": {"flags": {"max_num_seqs": 4}}}, ["max_num_seqs"]),
        ({"engine": {"flags": {"port": 1, "dtype": ""}}}, ["port", "dtype"]),
        ({"proof": {"operands": [99, 10]}}, ["[99, 10]"]),
        ({"proof": {"operands": [10]}}, ["operands"]),
        ({"proof": {"recall": None, "draft": None}}, ["proof: recall is missing", "proof: draft is missing"]),
        (
            {"proof": {"recall": {"prompt_tokens": 9000}}},
            ["proof: recall may need 9932", "4096 of max-model-len"],
        ),
        ({"proof": {"draft": {"min_acceptance": 30}}}, ["proof: draft.min_acceptance is 30"]),
        ({"proof": {"recall": {"depth": 3}}}, ["depth"]),
        ({"transport": "pigeon"}, ["pigeon"]),
        ({"tensor_parallel_size": "two"}, ["int"]),
        ({"speculation": {}}, ["speculation"]),
        ({"checkpoint": None}, ["checkpoint"]),
        ({"engine": "vllm"}, ["engine"]),
    ],
)
def test_what_cannot_be_used_is_named(overrides, words):
    with pytest.raises(ProfileError) as error:
        load("rehearsal", FOLDER, overrides, SCHEMA)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    "overrides",
    [
        {"proof": {"recall": None, "skip": {"long_context": "too slow here"}}},
        {"proof": {"draft": None, "skip": {"draft_acceptance": "not now"}}},
        {"proof": {"draft": None}, "engine": {"flags": {"speculative-config": None}}},
    ],
)
def test_a_part_of_the_proof_may_be_left_out_with_a_reason(overrides):
    assert load("rehearsal", FOLDER, overrides, SCHEMA)


def test_an_unknown_profile():
    with pytest.raises(UnknownProfile):
        load("../profiles/rehearsal", FOLDER, {}, SCHEMA)
