# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real parser of its release takes what each profile renders, and as it is meant."""

from __future__ import annotations

from pathlib import Path

import engine
import pytest
import rendering
import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils.profile_checks import vllm_release

PROFILE = rendering.PROFILES["v4-flash-next"]
FLAGS = PROFILE["engine"]["flags"]
# Forks and commits have no parser on PyPI.
RELEASED = {
    name: profile
    for name, profile in rendering.PROFILES.items()
    if vllm_release(profile) in (engine.UNPACKED, engine.REHEARSED)
}


def rendered(rank: int = 0, **changed: object) -> tuple[str, list[str]]:
    return rendering.rendered(PROFILE, rank, **changed)


# Name of the case: what the rank gets, the code, words of the reason (refused) or arguments (accepted).
CASES = {
    "head": (
        rendered(0),
        0,
        {
            "model": PROFILE["checkpoint"]["path"],
            "served_model_name": [PROFILE["served_model_name"]],
            "nnodes": 2,
            "node_rank": 0,
            "headless": False,
            "master_addr": "192.168.177.1",
            "master_port": 25000,
            "host": "0.0.0.0",
            "port": 8888,
            "tensor_parallel_size": 2,
            "max_model_len": FLAGS["max-model-len"],
            "max_num_seqs": FLAGS["max-num-seqs"],
            "kv_cache_dtype": FLAGS["kv-cache-dtype"],
            "enable_prefix_caching": True,
            "speculative_config": FLAGS["speculative-config"],
            "tokenizer_mode": FLAGS["tokenizer-mode"],
            "reasoning_parser": FLAGS["reasoning-parser"],
            "tool_call_parser": FLAGS["tool-call-parser"],
        },
    ),
    "worker": (rendered(1), 0, {"nnodes": 2, "node_rank": 1, "headless": True}),
    "off is off": (rendered(enable_prefix_caching=False), 0, {"enable_prefix_caching": False}),
    "unknown flag": (rendered(swap_space=4), 2, "unrecognized arguments: --swap-space"),
    "wrong type": (rendered(max_num_seqs="few"), 2, "--max-num-seqs: invalid int value: 'few'"),
    "ray over nodes": (rendered(distributed_executor_backend="ray"), 1, "nnodes > 1 can only be set when"),
    # Lengths with a letter are what profile_checks.tokens takes them for.
    "a thousand": (rendered(max_model_len="384k"), 0, {"max_model_len": 384000}),
    "a kibi": (rendered(max_model_len="384K"), 0, {"max_model_len": 393216}),
    # Traps of vLLM's reader, which engine_config never writes. Where one of these fails, vLLM has mended it.
    "off is ignored": (("model: m\nenable-prefix-caching: false\n", []), 0, {"enable_prefix_caching": None}),
    "null is a text": (("model: m\nkv-cache-dtype: null\n", []), 0, {"kv_cache_dtype": "None"}),
    "null is no number": (("model: m\nmax-model-len: null\n", []), 2, "value: 'None'"),
} | {
    f"profile {name}": (
        rendering.rendered(profile, 0),
        0,
        {"max_num_seqs": profile["engine"]["flags"]["max-num-seqs"]},
    )
    for name, profile in RELEASED.items()
    if vllm_release(profile) == engine.UNPACKED
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Return the answer of each release: 0.33.0 to all but the rehearsal, 0.32.0 to that."""
    folder = tmp_path_factory.mktemp("engine")
    texts = {name: text_and_words for name, (text_and_words, _code, _expected) in CASES.items()}
    commands = rendering.commands(texts, folder)
    commands["one word"] = ["serve", f"--config={commands['head'][2]}"]
    rehearsal = rendering.commands({"rehearsal": rendering.rendered(RELEASED["rehearsal"], 0)}, folder)
    asked = {engine.UNPACKED: commands, engine.REHEARSED: rehearsal}
    made = {}
    for release, lines in asked.items():
        answer = engine.judge(list(lines.values()), release)
        assert answer["vllm"] == f"{release}+cpu"
        made[release] = {**answer, "verdicts": dict(zip(lines, answer["verdicts"], strict=True))}
    return made


@pytest.fixture(scope="module")
def verdicts(answers: dict[str, dict]) -> dict[str, dict]:
    return answers[engine.UNPACKED]["verdicts"]


@pytest.mark.parametrize("name", CASES)
def test_verdict(verdicts: dict[str, dict], name: str) -> None:
    _rendered, code, expected = CASES[name]
    verdict = verdicts[name]
    assert verdict["code"] == code, verdict["reason"]
    if code:
        assert expected in verdict["reason"]
    else:
        assert {key: verdict["arguments"][key] for key in expected} == expected


def test_the_config_file_in_one_word_is_ignored(verdicts: dict[str, dict]) -> None:
    """vLLM then starts a default model without complaint: units must write ``--config FILE``."""
    assert verdicts["one word"]["arguments"]["model"] != PROFILE["checkpoint"]["path"]


def test_the_rehearsal_is_taken_by_its_own_release(answers: dict[str, dict]) -> None:
    verdict = answers[engine.REHEARSED]["verdicts"]["rehearsal"]
    assert (verdict["code"], verdict["reason"]) == (0, "")


@pytest.mark.parametrize("release", [engine.UNPACKED, engine.REHEARSED])
def test_the_list_of_flags_is_what_the_parser_knows(answers: dict[str, dict], release: str) -> None:
    """`make flags` writes it anew."""
    assert engine.flags_file(release).read_text() == engine.flags_text(release, answers[release]["flags"])


def test_every_profile_of_a_release_is_judged() -> None:
    assert sorted(RELEASED) == ["rehearsal", "v4-flash", "v4-flash-1m", "v4-flash-next"]


def test_the_list_locks_the_release_that_is_asked() -> None:
    lock = Path(engine.ROOT, "roles/runtime/files", PROFILE["runtime"]["lock"]).read_text()
    assert f"\nvllm=={engine.UNPACKED} " in lock
    rehearsal = yaml.safe_load(engine.PROFILE.read_text())
    assert rehearsal["runtime"]["pins"]["vllm"].startswith(engine.REHEARSED)
