# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real parser of vLLM 0.33.0 takes what the profile v4-flash-next renders, and as it is meant."""

from __future__ import annotations

from pathlib import Path

import engine
import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils.engine_config import engine_yaml, rank_arguments

PROFILE = yaml.safe_load((engine.ROOT / "roles/profile/files/profiles/v4-flash-next.yml").read_text())
FLAGS = {"tensor-parallel-size": PROFILE["tensor_parallel_size"], **PROFILE["engine"]["flags"]}
RANKS = PROFILE["tensor_parallel_size"]
FABRIC = {"${TANDEM_MASTER_ADDR}": "192.168.177.1", "${TANDEM_MASTER_PORT}": "25000"}


def rendered(rank: int = 0, **changed: object) -> tuple[str, list[str]]:
    """Return what a rank gets: the text of its engine.yaml and its words, filled in as systemd does."""
    flags = {**FLAGS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    text = engine_yaml(flags, PROFILE["checkpoint"]["path"], PROFILE["served_model_name"])
    fabric = {**FABRIC, "${TANDEM_NODE_RANK}": str(rank)}
    return text, [fabric.get(word, word) for word in rank_arguments(rank, RANKS, "0.0.0.0", 8888)]


# Name of the case: what the rank gets, the code, words of the reason (refused) or arguments (accepted).
CASES = {
    "head": (rendered(0), 0, {
        "model": PROFILE["checkpoint"]["path"], "served_model_name": [PROFILE["served_model_name"]],
        "nnodes": 2, "node_rank": 0, "headless": False, "master_addr": "192.168.177.1", "master_port": 25000,
        "host": "0.0.0.0", "port": 8888, "tensor_parallel_size": 2,
        "max_model_len": FLAGS["max-model-len"], "max_num_seqs": FLAGS["max-num-seqs"],
        "kv_cache_dtype": FLAGS["kv-cache-dtype"], "enable_prefix_caching": True,
        "speculative_config": FLAGS["speculative-config"], "tokenizer_mode": FLAGS["tokenizer-mode"],
        "reasoning_parser": FLAGS["reasoning-parser"], "tool_call_parser": FLAGS["tool-call-parser"],
    }),
    "worker": (rendered(1), 0, {"nnodes": 2, "node_rank": 1, "headless": True}),
    "off is off": (rendered(enable_prefix_caching=False), 0, {"enable_prefix_caching": False}),
    "unknown flag": (rendered(swap_space=4), 2, "unrecognized arguments: --swap-space"),
    "wrong type": (rendered(max_num_seqs="few"), 2, "--max-num-seqs: invalid int value: 'few'"),
    "ray over nodes": (rendered(distributed_executor_backend="ray"), 1, "nnodes > 1 can only be set when"),
    # Traps of vLLM's reader, which engine_config never writes. Where one of these fails, vLLM has mended it.
    "off is ignored": (("model: m\nenable-prefix-caching: false\n", []), 0, {"enable_prefix_caching": None}),
    "null is a text": (("model: m\nkv-cache-dtype: null\n", []), 0, {"kv_cache_dtype": "None"}),
    "null is no number": (("model: m\nmax-model-len: null\n", []), 2, "value: 'None'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Return vLLM's verdict on every case, asked in one go, and on one that calls the file in one word."""
    folder = tmp_path_factory.mktemp("engine")
    commands = {}
    for number, (name, ((text, words), _code, _expected)) in enumerate(CASES.items()):
        file = folder / f"{number}.yaml"
        file.write_text(text)
        commands[name] = ["serve", "--config", str(file), *words]
    commands["one word"] = ["serve", f"--config={folder / '0.yaml'}"]
    answer = engine.judge(list(commands.values()))
    assert answer["vllm"] == "0.33.0+cpu"
    return dict(zip(commands, answer["verdicts"], strict=True))


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


def test_the_list_locks_the_release_that_is_asked() -> None:
    lock = Path(engine.ROOT, "roles/runtime/files", PROFILE["runtime"]["lock"]).read_text()
    assert "\nvllm==0.33.0 " in lock
