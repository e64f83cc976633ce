# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags as the engine reads them, and the traps of its YAML reader."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils.engine_config import (
    EngineConfigError,
    engine_yaml,
    environment_file,
    environment_problems,
    problems,
    rank_arguments,
)


@pytest.mark.parametrize(
    ("flags", "read"),
    [
        ({"max-num-seqs": 4}, {"max-num-seqs": 4}),
        ({"gpu-memory-utilization": 0.78}, {"gpu-memory-utilization": 0.78}),
        ({"enforce-eager": True}, {"enforce-eager": True}),
        # `flag: false` is dropped by the reader without a word
        ({"enable-prefix-caching": False}, {"no-enable-prefix-caching": True}),
        # words that YAML would turn into something else
        ({"dtype": "no"}, {"dtype": "no"}),
        ({"revision": "1e3"}, {"revision": "1e3"}),
        (
            {"speculative-config": {"method": "dspark", "num_speculative_tokens": 5}},
            {"speculative-config": {"method": "dspark", "num_speculative_tokens": 5}},
        ),
        ({"allowed-origins": ["a: b", "#c"]}, {"allowed-origins": ["a: b", "#c"]}),
    ],
)
def test_flags_come_back_as_they_went_in(flags, read):
    assert yaml.safe_load(engine_yaml(flags, "/m", "name")) == {
        "model": "/m",
        "served-model-name": "name",
        **read,
    }


def test_the_order_of_flags_does_not_matter():
    assert engine_yaml({"a": 1, "b": {"x": 1, "y": 2}}, "/m", "n") == engine_yaml(
        {"b": {"y": 2, "x": 1}, "a": 1}, "/m", "n"
    )


@pytest.mark.parametrize(
    ("flag", "value", "word"),
    [
        ("max_num_seqs", 4, "spelled"),
        ("--max-num-seqs", 4, "spelled"),
        ("no-enable-prefix-caching", True, "negative"),
        ("node-rank", 1, "each rank"),
        ("api-key", "secret", "each rank"),
        ("api-key", "", "each rank"),
        ("dtype", None, "no value"),
        ("dtype", "", "no value"),
        ("dtype", {1, 2}, "type set"),
    ],
)
def test_a_flag_that_cannot_be_rendered_is_named(flag, value, word):
    (problem,) = problems({flag: value})
    assert flag in problem and word in problem
    with pytest.raises(EngineConfigError, match=word):
        engine_yaml({flag: value}, "/m", "n")


def test_all_problems_are_named_at_once():
    assert len(problems({"dtype": None, "A": 1, "port": 2, "max-num-seqs": 4})) == 3


@pytest.mark.parametrize(
    ("rank", "ranks", "has", "has_not"),
    [
        (0, 1, ["--host", "--port"], ["--nnodes", "--headless"]),
        (0, 2, ["--host", "--port", "--nnodes", "--master-addr"], ["--headless"]),
        (1, 2, ["--headless", "--nnodes", "--master-addr"], ["--host", "--port"]),
    ],
)
def test_the_words_of_a_rank(rank, ranks, has, has_not):
    words = rank_arguments(rank, ranks, "0.0.0.0", 8888)
    assert set(has) <= set(words) and not set(has_not) & set(words)


def test_environment_is_quoted_for_systemd():
    assert environment_file({"B": 1, "A": 'x "y" \\z $HOME'}) == 'A="x \\"y\\" \\\\z $HOME"\nB="1"\n'


@pytest.mark.parametrize(("name", "value"), [("a-b", "1"), ("1A", "1"), ("A", "two\nlines")])
def test_environment_that_systemd_cannot_read_is_refused(name, value):
    with pytest.raises(EngineConfigError, match=name):
        environment_file({name: value})


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"VLLM_SERVER_DEV_MODE": 1}, "run what they like"),
        ({"VLLM_SERVER_DEV_MODE": "0"}, "take it out"),
        ({"VLLM_API_KEY": "hunter2"}, "set tandem_api_key"),
    ],
)
def test_no_profile_opens_the_engine_or_holds_its_key(environment, words):
    (problem,) = environment_problems(environment)
    assert words in problem and "hunter2" not in problem
