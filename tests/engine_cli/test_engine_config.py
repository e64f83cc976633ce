# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM 0.33.0 makes its whole configuration of what the profiles render, on a pretended GB10.

It shows that vLLM takes it, never that a kernel runs. What vLLM takes and should not is what profile_checks is for.
"""

from __future__ import annotations

import engine
import pytest
import rendering
import unweighted

NEXT, MILLION = (rendering.PROFILES[name] for name in ("v4-flash-next", "v4-flash-1m"))
ON_GB10 = {
    "tensor_parallel_size": 2,
    "nnodes": 2,
    "block_size": 256,
    "method": "dspark",
    "k": 5,
    "draft": ["DSparkDraftModel"],
    "cudagraph_mode": "FULL_AND_PIECEWISE",
}
# fp8 becomes fp8_ds_mla where the model's attention is made, which is after this.
FP8, DS_MLA = {"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "fp8_ds_mla"}
# Name of the case: profile, rank, changed flags, the code, words of the reason or parts of the configuration.
CASES = {
    "v4-flash-next": (
        NEXT,
        0,
        {},
        0,
        {**ON_GB10, **FP8, "node_rank": 0, "max_model_len": 393216, "max_num_seqs": 2},
    ),
    "its worker": (NEXT, 1, {}, 0, {**ON_GB10, **FP8, "node_rank": 1}),
    "v4-flash-1m": (MILLION, 0, {}, 0, {**ON_GB10, **DS_MLA, "max_model_len": 1000000, "max_num_seqs": 6}),
    "too long": (NEXT, 0, {"max_model_len": 2000000}, 1, "is greater than the derived max_model_len"),
    "no k": (NEXT, 0, {"speculative_config": {"num_speculative_tokens": None}}, 1, "must be provided"),
    # Where this one fails, vLLM has begun to check what profile_checks checks.
    "mtp": (NEXT, 0, {"speculative_config": {"method": "mtp"}}, 0, {"draft": ["DeepSeekV4MTPModel"]}),
}  # one row a line


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Return vLLM's verdict on every case, asked in one go."""
    folder = tmp_path_factory.mktemp("config")
    model = str(unweighted.make(folder / "checkpoint"))
    texts = {
        name: rendering.rendered(profile, rank, model, **changed)
        for name, (profile, rank, changed, _code, _expected) in CASES.items()
    }
    return dict(zip(CASES, engine.configure(list(rendering.commands(texts, folder).values())), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_whole_configuration(verdicts: dict[str, dict], name: str) -> None:
    _profile, _rank, _changed, code, expected = CASES[name]
    verdict = verdicts[name]
    assert verdict["code"] == code, verdict["reason"]
    if code:
        assert expected in verdict["reason"]
    else:
        assert {key: verdict["config"][key] for key in expected} == expected
