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
    changes,
    described,
    load,
    merged,
    names,
    runnable,
)
from ansible_collections.tandem.spark.plugins.plugin_utils.report import overridden_text

FILES = Path(__file__).parents[2] / "roles" / "profile" / "files"
FOLDER = FILES / "profiles"
SCHEMA = yaml.safe_load((FILES / "profile_schema.yml").read_text())


LISTS = FILES.parents[1] / "runtime" / "files"


@pytest.mark.parametrize("name", names(FOLDER))
def test_every_profile_that_ships_is_usable_and_says_what_it_is_worth(name):
    profile = load(name, FOLDER, {}, SCHEMA)
    assert profile["name"] == name
    assert profile["evidence"]["source"] and profile["evidence"]["two_sparks"] in (True, False)
    compared = profile.get("compare_with")
    assert compared is None or described(compared, FOLDER)["reference"]
    for figure in profile.get("reference", ()):
        ranges = [value for value in figure.values() if isinstance(value, list)]
        assert ranges and all(1 <= len(each) <= 2 and each == sorted(each) for each in ranges), figure


WITH_A_LIST = [name for name in runnable(FOLDER) if described(name, FOLDER)["runtime"]["kind"] == "wheels"]


@pytest.mark.parametrize("name", WITH_A_LIST)
def test_the_pins_of_a_profile_are_those_of_its_list(name):
    runtime = load(name, FOLDER, {}, SCHEMA)["runtime"]
    locked = (LISTS / runtime["lock"]).read_text()
    assert runtime["pins"]
    assert [pin for pin in runtime["pins"].items() if f"\n{'=='.join(pin)} " not in locked] == []


def test_what_can_be_run():
    assert runnable(FOLDER) == [
        "rehearsal",
        "v4-flash-1m",
        "v4-flash-384k-container",
        "v4-flash-main-ray",
        "v4-flash-next",
        "v4-flash-preview-container",
    ]


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
        ({}, {"a": {"x": 1, "y": None}}, {"a": {"x": 1}}),
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
        ({"speculations": {}}, ["speculations"]),
        ({"checkpoint": None}, ["checkpoint"]),
        ({"engine": "vllm"}, ["engine"]),
        ({"runtime": {"lock": None}}, ["lock"]),
        ({"runtime": {"kind": "container"}}, ["image"]),
        ({"runtime": {"kind": "source"}}, ["build"]),
        ({"runtime": {"kind": "snap"}}, ["snap"]),
        ({"speculation": {"k_rule": "lucky"}}, ["lucky"]),
        ({"reference": [{"series": "code", "tokens": 3}]}, ["tokens"]),
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


OWN = {
    "mine": {"base": "v4-flash-next", "summary": "ours", "engine": {"flags": {"max-num-seqs": 1}}},
    "mine-long": {"base": "mine", "engine": {"flags": {"max-model-len": 65536, "block-size": None}}},
    "half": {"summary": "an engine is missing"},
    "nowhere": {"base": "v5"},
    "ring": {"base": "ring-too"},
    "ring-too": {"base": "ring"},
    "words": "v4-flash-next",
    "rehearsal": {"base": "v4-flash-next"},
}


def test_a_profile_of_the_inventory_is_laid_over_what_it_is_based_on():
    profile = load("mine-long", FOLDER, {"engine": {"flags": {"max-num-seqs": 2}}}, SCHEMA, OWN)
    flags = profile["engine"]["flags"]
    assert (profile["name"], profile["summary"]) == ("mine-long", "ours") and "base" not in profile
    assert (flags["max-model-len"], flags["max-num-seqs"], flags["kv-cache-dtype"]) == (65536, 2, "fp8")
    assert "block-size" not in flags


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("half", ["missing", "engine"]),
        ("nowhere", ["no profile 'v5'", "two-sparks", "mine-long"]),
        ("ring", ["ring is based on itself"]),
        ("words", ["words is str, wanted a map"]),
        ("rehearsal", ["rename rehearsal"]),
    ],
)
def test_a_profile_of_the_inventory_is_checked_like_those_that_ship(name, words):
    with pytest.raises(ProfileError) as error:
        load(name, FOLDER, {}, SCHEMA, OWN)
    assert all(word in str(error.value) for word in words), error.value


def test_a_base_is_no_profile():
    with pytest.raises(UnknownProfile):
        load("two-sparks", FOLDER, {}, SCHEMA)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, [("a.b", 1, 3)]),
        ({"a": {"b": 1}}, {"a": {"c": [2]}}, [("a.b", 1, None), ("a.c", None, [2])]),
        ({"a": {"b": 1}}, {"a": "x"}, [("a", {"b": 1}, "x")]),
    ],
)
def test_what_overrides_change_is_told(before, after, told):
    assert list(changes(before, after)) == told


def test_the_text_of_what_overrides_change():
    text = overridden_text("p", [("engine.flags.max-num-seqs", 2, 4), ("link", {"x": 1}, None)])
    assert text.splitlines()[1:] == ["  engine.flags.max-num-seqs: 2 -> 4", '  link: {"x": 1} -> nothing']
