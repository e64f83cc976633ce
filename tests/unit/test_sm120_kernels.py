# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DeepGEMM and FlashInfer are asked for what DeepSeek-V4 needs on SM120, in small trees of both kinds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.sm120_kernels import (
    HEADERS,
    KERNEL,
    FlashInfer,
    ask_flashinfer,
    judge,
    look_at_deepgemm,
    read_answer,
)
from hypothesis import given
from hypothesis import strategies as st
from sysfs_tree import put

SHAPE = (32, 192)
COMMIT = "a6b593d2826719dcf4892609af7b84ee23aaf32a"
BRANCH = "if (arch_major == 12) {\n  " + KERNEL + "(a, b);\n} else"


def source(root: Path, dispatch: str, *kernels: str, url: str = "") -> Path:
    put(root / "csrc/apis/hyperconnection.hpp", dispatch)
    put(root / "deep_gemm" / HEADERS / "sm90_tf32_hc_prenorm_gemm.cuh", "")
    for kernel in kernels:
        put(root / "deep_gemm" / HEADERS / f"{kernel}.cuh", "")
    if url:
        put(root / ".git/config", f'[remote "origin"]\n\turl = {url}\n')
        put(root / ".git/HEAD", COMMIT)
    return root


def ids(root: Path) -> list[str]:
    return [each.id for each in judge(look_at_deepgemm(str(root)), None, SHAPE)]


@pytest.mark.parametrize(
    ("dispatch", "kernels", "good"),
    [
        (BRANCH, [KERNEL, "sm120_bf16_gemm"], True),
        (BRANCH.replace("arch_major == 12", "12 == device->arch_major"), [KERNEL], True),
        (BRANCH.replace("==", ">="), [KERNEL], True),
        ("switch (arch_major) { case 12: " + KERNEL + "(a); }", [KERNEL], True),
        (BRANCH.replace("12", "9"), [], False),
        (BRANCH.replace("12", "120"), [KERNEL], False),
        (BRANCH, ["sm120_bf16_gemm"], False),
        ("// " + BRANCH.replace("\n", " "), [KERNEL], False),
        ("/* " + BRANCH + " */ DG_HOST_UNREACHABLE", [KERNEL], False),
        (BRANCH.replace(KERNEL, "sm100_tf32_hc_prenorm_gemm"), [KERNEL], False),
    ],
)
def test_a_source_tree(tmp_path, dispatch, kernels, good):
    found = look_at_deepgemm(str(source(tmp_path, dispatch, *kernels)))
    assert (found.layout, found.good) == ("source", good)
    assert ids(tmp_path) == ([] if good else ["build.deepgemm.sm120"])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://github.com/vllm-project/DeepGEMM.git", "vllm-project/DeepGEMM"),
        ("git@github.com:deepseek-ai/DeepGEMM", "deepseek-ai/DeepGEMM"),
    ],
)
@pytest.mark.parametrize("good", [True, False])
def test_the_name_of_a_repository_decides_nothing(tmp_path, url, said, good):
    found = look_at_deepgemm(str(source(tmp_path, BRANCH if good else "", *[KERNEL] * good, url=url)))
    assert (found.repository, found.good) == (f"{said}@{COMMIT}", good)
    if not good:
        (note,) = judge(found, None, SHAPE)
        assert f"({said}@{COMMIT}) lacks the kernel {KERNEL} and the branch" in note.summary


@pytest.mark.parametrize("place", ["vllm/third_party/deep_gemm", "deep_gemm", "."])
@pytest.mark.parametrize(
    ("kernel", "library", "expected"),
    [
        (KERNEL, f"\x7fELF..{KERNEL}.cuh..", []),
        (KERNEL, "\x7fELF..sm100_tf32_hc_prenorm_gemm..", ["build.deepgemm.sm120"]),
        (KERNEL, "", ["build.deepgemm.sm120"]),
        (KERNEL, None, ["build.deepgemm.unknown"]),
        ("sm90_bf16_gemm", f"{KERNEL}", ["build.deepgemm.sm120"]),
    ],
)
def test_an_installed_one(tmp_path, place, kernel, library, expected):
    put(tmp_path / place / HEADERS / f"{kernel}.cuh", "")
    if library is not None:
        put(tmp_path / place / "_C.cpython-312-aarch64-linux-gnu.so", library)
    assert ids(tmp_path) == expected


def test_none_at_all(tmp_path):
    assert ids(tmp_path) == ids(tmp_path / "nothing") == ["build.deepgemm.missing"]


PREDICATE = """
class Any:
    def __contains__(self, shape):
        return shape[1] > 0
_DECODE_DSV4_DISPATCH = Any()
"""


# A package that is there -> what is told of it.
@pytest.mark.parametrize(
    ("text", "has", "why"),
    [
        ("_DECODE_DSV4_DISPATCH = frozenset({(32, 128), (32, 512)})", False, None),
        ("_DECODE_DSV4_DISPATCH = frozenset({(32, 128), (32, 192)})", True, None),
        (PREDICATE, True, None),
        ("print('told on import')\n_DECODE_DSV4_DISPATCH = {(32, 192)}", True, None),
        ("", None, "AttributeError"),
        ("raise RuntimeError('no GPU')", None, "no GPU"),
        (None, None, "ModuleNotFoundError"),
        ("import os; os._exit(3)", None, "ended with 3"),
    ],
)
def test_flashinfer_is_asked_by_its_own_python(tmp_path, monkeypatch, text, has, why):
    if text is not None:
        for name in ("flashinfer", "flashinfer/mla"):
            put(tmp_path / name / "__init__.py", "")
        put(tmp_path / "flashinfer/mla/_sparse_mla_sm120.py", text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = ask_flashinfer(sys.executable, *SHAPE)
    assert found.has is has and (why is None or why in found.why)
    expected = {True: [], False: ["build.flashinfer.top_k"], None: ["build.flashinfer.unknown"]}
    assert [each.id for each in judge(None, found, SHAPE)] == expected[has]


def test_a_python_that_is_not_there(tmp_path):
    assert "cannot be run" in ask_flashinfer(os.path.join(tmp_path, "python"), *SHAPE).why


@given(st.text(alphabet='{}[]":,hasverionwytul10\n', max_size=60), st.none() | st.integers())
def test_any_answer(text, rc):
    assert isinstance(read_answer(text, rc), FlashInfer)
