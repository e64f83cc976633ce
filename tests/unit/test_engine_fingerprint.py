# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines are compared package by package, and the installed FlashInfer is asked as vLLM asks it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.filter.runtime import FilterModule
from ansible_collections.tandem.spark.plugins.module_utils import commands, flashinfer_question, runtime
from ansible_collections.tandem.spark.plugins.plugin_utils import planning, profile, profile_checks

ROOT = Path(__file__).parents[2]
PACKAGES = {"torch": ("2.14.0", "a"), "nvidia_nccl_cu13": ("2.30.7", "b"), "vllm": ("0.33.0", "c")}


def environment(folder, packages):
    """What an installer leaves of each package: its dist-info with the list of its files."""
    for name, (version, content) in packages.items():
        info = folder / "lib/python3.12/site-packages" / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text(f"{name}/x.py,sha256={content},1\n{info.name}/RECORD,,\n")
    return runtime.fingerprint(folder)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (PACKAGES, []),
        ({**PACKAGES, "torch": ("2.13.0", "a")}, ["torch is 2.14.0 on a and 2.13.0 on b"]),
        ({**PACKAGES, "vllm": ("0.33.0", "z")}, ["vllm 0.33.0 has other files on a than on b"]),
        (
            {**PACKAGES, "nvidia_nccl_cu13": ("2.29.7", "y"), "ray": ("2.44.1", "r")},
            ["nvidia-nccl-cu13 is 2.30.7 on a and 2.29.7 on b", "ray is missing on a and 2.44.1 on b"],
        ),
    ],
)
def test_every_field_that_differs_is_named(tmp_path, other, said):
    one, two = environment(tmp_path / "1", PACKAGES), environment(tmp_path / "2", other)
    assert runtime.differences(one, two, ("a", "b")) == said
    results = {
        host: {"fingerprint": each["digest"], "packages": each["packages"], "files": each["files"]}
        for host, each in (("a", one), ("b", two))
    }
    assert FilterModule().filters()["engine_differences"](results) == said


def test_a_release_tells_what_its_engine_is_now_and_how_it_was_changed(tmp_path):
    engine, release = tmp_path / "runtime/key", tmp_path / "releases/0123456789abcdef"
    content = environment(engine, PACKAGES)
    release.mkdir(parents=True)
    (release / "runtime").symlink_to(engine)
    assert runtime.of_release(release) == {
        "installed": False,
        "path": str(engine),
    }  # an install that was cut off
    (engine / runtime.FINGERPRINT).write_text(json.dumps(content))
    whole = runtime.of_release(release)
    assert whole["installed"] and whole["fingerprint"] == content["digest"] and whole["changed_since"] == []
    assert "nvcc" not in whole
    record = engine / "lib/python3.12/site-packages/vllm-0.33.0.dist-info/RECORD"
    record.write_text(record.read_text().replace("sha256=c", "sha256=z"))
    (release / "env").write_text(f'CUDA_HOME="{tmp_path}"\n')
    changed = runtime.of_release(release)
    assert changed["changed_since"] == [
        "vllm 0.33.0 has other files on the day it was installed than on this one"
    ]
    assert changed["nvcc"] == {"path": f"{tmp_path}/bin/nvcc", "version": None}
    said = FilterModule().filters()["engine_differences"]({"a": whole, "b": changed})
    assert said == [
        "vllm 0.33.0 has other files on a than on b",
        "b is not as it was installed (vllm 0.33.0 has other files on the day it was installed than on this one)",
    ]


def test_an_engine_that_is_not_there_is_told_alone_unless_it_would_be_installed(tmp_path):
    there = environment(tmp_path / "1", PACKAGES)
    one = {"fingerprint": there["digest"], "packages": there["packages"], "files": there["files"]}
    gone = {"installed": False, "path": "/opt/tandem/runtime/x"}
    engine_differences = FilterModule().filters()["engine_differences"]
    assert engine_differences({"a": one, "b": gone}) == ["b has no engine in /opt/tandem/runtime/x"]
    assert engine_differences({"a": one, "b": {**gone, "changed": True}}) == []  # check mode


def test_an_older_fingerprint_that_names_no_files_is_never_equal_in_silence(tmp_path):
    one = environment(tmp_path / "1", PACKAGES)
    two = {**environment(tmp_path / "2", {**PACKAGES, "vllm": ("0.33.0", "z")})}
    del two["files"]
    assert "which is not known" in runtime.differences(one, two, ("a", "b"))[0]


def test_the_digest_is_that_of_before():
    """Or every engine in the field would be taken for another one."""
    engine_differences = FilterModule().filters()["engine_differences"]
    assert engine_differences({}) == [] and engine_differences({"a": {"fingerprint": "1"}}) == []
    assert engine_differences({"a": {"fingerprint": "1"}, "b": {"fingerprint": "1"}}) == []


# FlashInfer

TABLE = "_DECODE_DSV4_DISPATCH = frozenset({(32, 128), (32, 512)})\n"
WIDER = "_DECODE_DSV4_DISPATCH = frozenset({(32, 128), (32, 192)})\n"
PREDICATE = """
class Envelope:
    def __contains__(self, pair):
        return 1 <= pair[0] <= 128 and pair[1] >= 1
_DECODE_DSV4_DISPATCH = Envelope()
"""
BROKEN = """
class Envelope:
    def __contains__(self, pair):
        raise RuntimeError("no compiler")
_DECODE_DSV4_DISPATCH = Envelope()
"""


@pytest.fixture
def engine(tmp_path):
    """An environment whose FlashInfer says this; None has none."""

    def make(text, version="0.7.2.post1"):
        site = tmp_path / "site"
        if text is not None:
            (site / "flashinfer/mla").mkdir(parents=True)
            for each in ("flashinfer", "flashinfer/mla"):
                (site / each / "__init__.py").touch()
            (site / "flashinfer/mla/_sparse_mla_sm120.py").write_text(text)
            info = site / f"flashinfer_python-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: flashinfer-python\nVersion: {version}\n"
            )
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib/tandem").symlink_to(ROOT / "plugins/module_utils")
        (tmp_path / "bin").mkdir()
        python = tmp_path / "bin/python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return lambda heads=32, top_k=192: flashinfer_question.ask(
            tmp_path, heads, top_k, str(tmp_path / "lib")
        )

    return make


@pytest.mark.parametrize(
    ("text", "takes", "why"),
    [
        (TABLE, False, ""),
        (WIDER, True, ""),
        (PREDICATE, True, ""),
        ("", False, "has no _DECODE_DSV4_DISPATCH"),
        (None, False, "is not installed"),
        (BROKEN, None, "RuntimeError: no compiler"),
        ("import no_such_torch\n", None, "ModuleNotFoundError"),
        ("print('{')\nimport os\nos._exit(3)\n", None, ""),
    ],
)
def test_the_installed_one_is_asked_as_vllm_asks(engine, text, takes, why):
    answer = engine(text)()
    assert answer["takes"] is takes and why in answer["why"], answer


def test_it_is_asked_once_for_each_shape(engine, tmp_path):
    ask = engine(WIDER)
    assert ask()["takes"] is True
    (tmp_path / "bin/python").write_text("#!/bin/sh\nexit 1\n")
    assert ask()["takes"] is True and ask(16, 192)["takes"] is None
    (tmp_path / flashinfer_question.ANSWERS).write_text("{broken")
    assert ask()["takes"] is None


def test_an_environment_without_python_is_no_answer(tmp_path):
    found = flashinfer_question.ask(tmp_path, 32, 192, "/no")
    assert found["takes"] is None and "No such file" in found["why"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("v4-flash-next", {"heads": 32, "top_k": 192}),
        ("rehearsal", None),
        ("v4-flash-1m", {"heads": 32, "top_k": 192}),
    ],
)
def test_what_a_profile_needs(name, shape):
    described = profile.described(name, planning.PROFILES)
    assert profile_checks.decode_shape(described) == shape
    config = described["engine"]["flags"]["speculative-config"]
    as_text = profile.merged(described, {"engine": {"flags": {"speculative-config": json.dumps(config)}}})
    assert profile_checks.decode_shape(as_text) == shape
    without = profile.merged(described, {"engine": {"flags": {"speculative-config": None}}})
    assert profile_checks.decode_shape(without) is None


@pytest.mark.parametrize("there", [True, False])
def test_an_engine_in_a_container_is_there_while_its_image_is(tmp_path, monkeypatch, there):
    """What a release starts is looked at by the folder that stands for it, of either kind."""
    release, folder = tmp_path / "release", tmp_path / "runtime"
    for path in (release, folder):
        path.mkdir()
    (release / "runtime").symlink_to(folder)
    (release / "env").write_text('CUDA_HOME="/usr/local/cuda"\n')
    record = {
        "image": "sha256:1f",
        "fingerprint": "f" * 64,
        "program": "docker",
        "packages": {"vllm": "0.26.0"},
    }
    (folder / "container.json").write_text(json.dumps(record))
    asked = []

    def ask(words, **_options):
        asked.append(words)
        return commands.Answer(0 if there else 1, '[{"Id": "sha256:1f"}]' if there else "")

    monkeypatch.setattr(commands, "ask", ask)
    found = runtime.of_release(release)
    assert asked == [["docker", "image", "inspect", "sha256:1f"]]
    assert found["installed"] is there and found["path"] == str(folder)
    assert there is False or (found["fingerprint"], found["packages"]) == ("f" * 64, {"vllm": "0.26.0"})
    assert "nvcc" not in found  # the image has its own
