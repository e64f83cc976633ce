# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of a build from source: found and judged, the toolkit against the driver, jobs from memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import toolchain
from ansible_collections.tandem.spark.plugins.module_utils.toolchain import Found, judge, look, max_jobs
from hypothesis import given
from hypothesis import strategies as st

NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2026 NVIDIA Corporation
Cuda compilation tools, release 13.2, V13.2.51
Build cuda_13.2.r13.2/compiler.1_0"""
GOOD = {
    "cuda/bin/nvcc": NVCC,
    "bin/g++": "13.3.0",
    "bin/rustc": "rustc 1.95.0 (0000000 2026-04-16)",
    "bin/cargo": "cargo 1.95.0 (0000000 2026-04-10)",
    "bin/python3.12": "Python 3.12.3",
    "bin/ninja": "1.11.1",
}


def programs(root: Path, told: dict[str, str | None]) -> list[str]:
    for name, text in told.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"#!/bin/sh\ncat <<'E'\n{text or ''}\nE\n" if text is not None else "#!/bin/sh\nexit 1\n"
        )
        path.chmod(0o755)
    return [str(root / "cuda/bin"), str(root / "bin")]


def test_a_node_that_can_build(tmp_path):
    found = look(programs(tmp_path, GOOD))
    assert [(each.name, each.version) for each in found] == [
        ("nvcc", "13.2"),
        ("gxx", "13.3.0"),
        ("rustc", "1.95.0"),
        ("cargo", "1.95.0"),
        ("python", "3.12.3"),
        ("ninja", "1.11.1"),
    ]
    assert judge(found, "13.2", "595.84") == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"bin/g++": "11.4.0"}, "build.tool.old"),
        ({"bin/g++": "11.4.0", "bin/g++-13": "13.2.0"}, None),
        ({"bin/g++": "12", "bin/g++-14": "14.1.0"}, None),
        ({"bin/rustc": "rustc 1.75.0 (82e1608df 2023-12-21)"}, "build.tool.old"),
        ({"bin/rustc": "error: no default toolchain"}, "build.tool.missing"),
        ({"bin/ninja": "1.10.2"}, "build.tool.old"),
        ({"bin/ninja": None}, "build.tool.missing"),
        ({"bin/python3.12": "\0\xff"}, "build.tool.missing"),
        ({"cuda/bin/nvcc": NVCC.replace("release 13.2", "release 12.0")}, "build.tool.old"),
        ({"cuda/bin/nvcc": NVCC.replace("release 13.2", "release 13.0")}, "build.toolkit.other"),
    ],
)
def test_what_a_tool_says(tmp_path, changed, expected):
    notes = judge(look(programs(tmp_path, {**GOOD, **changed})), "13.2", "595.84")
    assert [each.id for each in notes if not each.id.endswith("x")][:1] == ([expected] if expected else [])


def test_nothing_is_there(tmp_path):
    notes = judge(look([str(tmp_path)]), "13.2", "595.84")
    assert [each.id for each in notes] == ["build.tool.missing"] * len(toolchain.TOOLS)
    assert "nvcc is not on this node; a build from source needs nvcc 12.8 or newer" in notes[0].summary


def test_the_toolkit_of_the_profile_is_found_first(tmp_path):
    folders = programs(tmp_path, {**GOOD, "bin/nvcc": NVCC.replace("release 13.2", "release 12.9")})
    assert look(folders)[0] == Found("nvcc", str(tmp_path / "cuda/bin/nvcc"), "13.2")
    assert toolchain.search_path("/opt/cuda")[0] == "/opt/cuda/bin"


@pytest.mark.parametrize(
    ("toolkit", "driver", "expected"),
    [
        ("13.2", "595.84", None),
        ("13.2", "610.43.02", None),
        ("13.2", "580.142", "build.toolkit.newer"),
        ("13.0", "580.142", None),
        ("13.0", "570.1", "build.toolkit.driver"),
        ("13.9", "580.142", None),
        ("12.9", "570.1", None),
        ("13.2", None, None),
        ("13.2", "unknown", None),
    ],
)
def test_toolkit_and_driver(toolkit, driver, expected):
    assert [each.id for each in toolchain.toolkit_and_driver(toolkit, driver)] == (
        [expected] if expected else []
    )


@pytest.mark.parametrize(
    ("available_gib", "cpus", "jobs"),
    [
        (119.0, 20, 18),  # seed 000
        (119.0, 8, 8),
        (121.69, 20, 18),
        (62.0, 20, 9),
        (32.0, 20, 4),
        (14.0, 20, 1),
        (13.9, 20, 0),
        (2.0, 20, 0),  # an engine holds the rest
        (0.0, 20, 0),
        (14.0, 0, 0),
    ],
)
def test_jobs_from_memory(available_gib, cpus, jobs):
    assert max_jobs(available_gib, cpus) == jobs
    expected = [] if jobs else ["build.memory.short"]
    assert [each.id for each in toolchain.judge_memory(available_gib, cpus)] == expected


def test_memory_that_is_not_known_is_no_finding():
    assert toolchain.judge_memory(None, 20) == []


@given(st.text(max_size=80))
def test_any_text_is_a_version_or_none(text):
    for tool in toolchain.TOOLS:
        version = toolchain.read_version(tool.pattern, text)
        assert version is None or toolchain.numbers(version)
