# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a warm-up asks: plans that can be used, plans that cannot, and prompts that have the wanted size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils.sized_prompts import Prompts
from ansible_collections.tandem.spark.plugins.module_utils.warm_up_plan import (
    DEFAULTS,
    EXPLAIN,
    plan_of,
    problems,
)
from ansible_collections.tandem.spark.plugins.plugin_utils.profile import ProfileError, described, load

PROFILES = sorted((Path(__file__).parents[2] / "roles/profile/files/profiles").glob("*.yml"))


def test_four_phases():
    plan = plan_of({"ramp_tokens": [64, 256], "long": {"streams": 2}, "stall_s": 90})
    assert [phase.name for phase in plan.phases] == ["ramp", "burst", "long", "sustained"]
    ramp, burst, long, sustained = (phase.batches for phase in plan.phases)
    assert [[ask.prompt_tokens for ask in batch] for batch in ramp] == [[100], [64], [256]]
    assert [(ask.prompt_tokens, ask.max_tokens) for batch in burst for ask in batch] == [(100, 150)] * 4
    assert [(ask.prompt_tokens, ask.max_tokens) for batch in long for ask in batch] == [(3000, 40)] * 2
    assert [(len(batch), batch[0].max_tokens, batch[0].task) for batch in sustained] == [(1, 700, EXPLAIN)]
    assert (plan.stall_s, plan.total_timeout_s) == (90, 3600)


@pytest.mark.parametrize(
    ("given", "context", "said"),
    [
        (None, None, ["wanted a map"]),
        ({"rampe": 1, "burst": {"stream": 3}, "long": 3}, None, ["rampe", "burst.stream ", "long is 3"]),
        ({"ramp_tokens": []}, None, ["ramp_tokens is []"]),
        ({"ramp_tokens": 5}, None, ["ramp_tokens is 5"]),
        ({"ramp_tokens": [5, 0, "x"]}, None, ["ramp_tokens[1] is 0", "ramp_tokens[2] is 'x'"]),
        (
            {"stall_s": 0, "burst": {"streams": True}, "sustained": {"max_tokens": 1.5}},
            None,
            ["stall_s is 0", "burst.streams is True", "sustained.max_tokens is 1.5"],
        ),
        (
            {"total_timeout_s": float("nan"), "stall_s": None},
            None,
            ["stall_s is None", "total_timeout_s is nan"],
        ),
        (
            {"burst": {"streams": 10**12}, "ramp_tokens": [10**12], "stall_s": float("inf")},
            None,
            [
                "stall_s is inf, ",
                "burst.streams is 1000000000000, wanted a number above 0, at most 256",
                "ramp_tokens[0]",
            ],
        ),
        ({}, 4096, ["ramp needs 12020 tokens, wanted at most the 4096 of max-model-len"]),
        ({"ramp_tokens": [9], "long": {"prompt_tokens": 4060}}, 4096, ["long needs 4100 tokens"]),
        ({}, "auto", []),
        ({}, -1, []),
    ],
)
def test_every_problem_of_a_plan_is_told(given, context, said):
    found = problems(given, context)
    assert len(found) == len(said)
    assert all(word in text for word, text in zip(said, found, strict=True)), found
    if context is None and given is not None:
        with pytest.raises(ValueError):
            plan_of(given)


def test_a_profile_whose_engine_is_too_short_for_it_is_refused():
    schema = yaml.safe_load((PROFILES[0].parents[1] / "profile_schema.yml").read_text())
    changes = {"engine": {"flags": {"max-model-len": 1000}}, "warm_up": {"ramp_tokens": [1024]}}
    with pytest.raises(ProfileError, match="warm_up: ramp needs 1044 tokens, wanted at most the 1000"):
        load("rehearsal", PROFILES[0].parent, changes, schema)


def test_the_defaults_are_a_plan():
    assert problems({}) == problems(DEFAULTS) == []


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_the_profiles_fill_the_engine_and_no_more(file):
    profile = described(file.stem, file.parent)
    flags, sizes = profile["engine"]["flags"], profile["warm_up"]
    assert problems(sizes, flags.get("max-model-len")) == []
    assert sizes["burst"]["streams"] >= flags["max-num-seqs"]
    assert sizes["stall_s"] < sizes["total_timeout_s"]


@pytest.mark.parametrize("characters", [1.0, 3.7, 5.9])
def test_prompts_get_the_wanted_size_once_one_was_counted(characters):
    prompts = Prompts(random.Random(1))
    overhead = 14  # the chat template's own tokens
    for wanted in (100, 500, 3000, 12000):
        prompt = prompts.draw(wanted, EXPLAIN)
        tokens = round(len(prompt) / characters) + overhead
        assert tokens <= wanted * 1.15 + overhead
        prompts.measure(prompt, tokens)
    assert tokens > 11000
    assert prompt.endswith(EXPLAIN)


def test_no_two_prompts_begin_alike():
    prompts = Prompts()
    drawn = {prompts.draw(500, EXPLAIN)[:40] for _ in range(200)}
    assert len(drawn) == 200


def test_a_server_that_counts_nonsense_gets_no_endless_prompt():
    prompts = Prompts(random.Random(1))
    for _ in range(5):
        prompts.measure(prompts.draw(1000, EXPLAIN), 1 + prompts._measured)
    assert len(prompts.draw(1000, EXPLAIN)) < 33_000
