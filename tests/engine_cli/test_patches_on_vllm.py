# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patches of patches/vllm on the real source archives of vLLM: each outcome on releases that give it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sources
from ansible_collections.tandem.spark.plugins.module_utils.patch_series import (
    ALREADY,
    APPLIED,
    MISFIT,
    UPSTREAM,
    judge,
    write,
)
from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import read_patch
from ansible_collections.tandem.spark.plugins.plugin_utils.patches import PATCHES, read_series

SERIES = [read_patch(each["name"], each["text"]) for each in read_series(PATCHES / "vllm")]
TOUCHED = sorted({change.path for patch in SERIES for change in patch.changes})
CMAKE, INSTALL, MOE = TOUCHED[0], TOUCHED[1], TOUCHED[2]
NV_DEV = "a6b593d2826719dcf4892609af7b84ee23aaf32a"
# Release -> what becomes of the DeepGEMM pin and of the MoE bound.
OUTCOMES = {
    "0.21.0": (MISFIT, APPLIED),
    "0.22.1": (MISFIT, APPLIED),
    "0.26.0": (UPSTREAM, UPSTREAM),
    "0.27.1": (APPLIED, UPSTREAM),
    "0.28.0": (UPSTREAM, UPSTREAM),
    "0.29.0": (UPSTREAM, UPSTREAM),
    "0.30.0": (UPSTREAM, UPSTREAM),
    "0.31.0": (UPSTREAM, UPSTREAM),
    "0.32.0": (UPSTREAM, UPSTREAM),
    "0.33.0": (UPSTREAM, UPSTREAM),
}


@pytest.fixture
def unpacked(tmp_path: Path):
    def of(release: str) -> Path:
        return sources.unpack(release, tmp_path / release, set(TOUCHED))

    return of


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("release", OUTCOMES)
def test_outcomes(unpacked, release):
    tree = unpacked(release)
    before = content(tree)
    judged = judge(str(tree), SERIES)
    assert tuple(each.outcome for each in judged.outcomes) == OUTCOMES[release], judged.misfits
    assert content(tree) == before
    for patch, outcome in zip(SERIES, OUTCOMES[release], strict=True):
        if outcome != APPLIED:
            continue
        write(str(tree), judge(str(tree), [patch]).edits)
        assert [each.outcome for each in judge(str(tree), [patch]).outcomes] == [ALREADY]
        again = judge(str(tree), SERIES)
        assert not {change.path for change in patch.changes} & set(again.edits)


def test_the_pin_is_that_of_both_files(unpacked):
    tree = unpacked("0.27.1")
    write(str(tree), judge(str(tree), SERIES).edits)
    for name in (CMAKE, INSTALL):
        text = (tree / name).read_text()
        assert text.count(NV_DEV) == 1 and "deepseek-ai/DeepGEMM.git" in text
        assert "e21c821" not in text and "vllm-project/DeepGEMM.git" not in text


def test_what_does_not_apply_is_named_and_nothing_is_touched(unpacked):
    tree = unpacked("0.22.1")
    misfits = judge(str(tree), SERIES).misfits
    assert len(misfits) == 2 and all(line.startswith("deepgemm-sm120-pin.patch: ") for line in misfits)
    assert f"{CMAKE}, hunk 1: wanted is" in misfits[0] and f"{INSTALL}, hunk 1: wanted is" in misfits[1]


@pytest.mark.parametrize(
    ("tokens", "before", "after"), [(1, 16384, 768), (8, 16384, 6144), (64, 16640, 16640)]
)
def test_the_bound_gives_the_rows_of_its_source(unpacked, tokens, before, after):
    """Seed 002 measured by these figures: 128 local experts, top 6, blocks of 128."""
    tree = unpacked("0.22.1")

    def rows() -> int:
        text = (tree / MOE).read_text()
        function = text[text.index("def compute_aligned_M(") : text.index("@triton.jit")]
        space = {"round_up": lambda size, step: -(-size // step) * step}
        exec(
            "from __future__ import annotations\n" + function, space
        )  # of an archive whose hash is in the list
        return space["compute_aligned_M"](tokens, 6, 128, 128, None)

    found = rows()
    write(str(tree), judge(str(tree), SERIES[1:]).edits)
    assert (found, rows()) == (before, after)


def test_the_list_is_what_is_tested():
    assert list(sources.releases()) == list(OUTCOMES)
