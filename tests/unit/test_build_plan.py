# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is built: read from a profile or refused with all that is wrong, and which change rebuilds what."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import build_plan
from ansible_collections.tandem.spark.plugins.module_utils.build_plan import BuildPlanError, read

PATCHES = {"vllm": [{"name": "a.patch", "text": "--- a"}]}
SHA, COMMIT = "0" * 64, "1" * 40
BUILD = {
    "requires": "build.txt",
    "environment": {"TORCH_CUDA_ARCH_LIST": "12.1a"},
    "sources": {
        "torch": {"git": "https://example.org/torch", "revision": COMMIT, "submodules": True},
        "vllm": {"pypi": "vllm==0.33.0", "sha256": SHA},
        "deepgemm": {"git": "https://example.org/DeepGEMM", "revision": "2" * 40},
        "flashinfer": {"url": "https://example.org/f.tar.gz", "sha256": "3" * 64},
    },
    "wheels": [
        {"name": "torch", "source": "torch", "version": "2.14.0", "disk_gib": 40},
        {"name": "flashinfer-python", "source": "flashinfer"},
        {
            "name": "vllm",
            "source": "vllm",
            "needs": ["torch"],
            "trees": {"DEEPGEMM_SRC_DIR": "deepgemm:deep/gemm"},
            "patches": "vllm",
            "before": [["python", "tools/use_existing_torch.py"]],
            "environment": {"VLLM_VERSION_OVERRIDE": "0.33.0"},
        },
    ],
}
SITE = {"machine": "aarch64", "python": "3.12", "toolkit": "13.2", "requires": "uv==1\n", "patches": PATCHES}


def plan(change=None, **site):
    build = copy.deepcopy(BUILD)
    if change:
        change(build)
    return read(build, **{**SITE, **site})


def digests(change=None, **site):
    return {wheel.name: wheel.digest for wheel in plan(change, **site).wheels}


def test_a_plan_in_its_order():
    made = plan()
    assert [wheel.name for wheel in made.wheels] == ["torch", "flashinfer-python", "vllm"]
    vllm = made.wheels[2]
    assert vllm.environment == (("TORCH_CUDA_ARCH_LIST", "12.1a"), ("VLLM_VERSION_OVERRIDE", "0.33.0"))
    assert [source.name for source in vllm.sources] == ["vllm", "deepgemm"]
    assert vllm.patches == (("a.patch", "--- a"),) and vllm.disk_gib == 1 and made.job_gib == 6
    job = build_plan.job(made, {vllm.digest})
    assert [each["wanted"] for each in job] == [False, False, True]
    assert job[2]["needs"] == [made.wheels[0].digest]
    assert job[2]["trees"] == [
        {"variable": "DEEPGEMM_SRC_DIR", "archive": f"{'2' * 40}.tar", "folder": "deep/gemm"}
    ]
    assert job[0]["archive"] == f"{COMMIT}-submodules.tar"


def source(which, **told):
    return lambda build: build["sources"][which].update(told)


def wheel(which, **told):
    return lambda build: next(each for each in build["wheels"] if each["name"] == which).update(told)


@pytest.mark.parametrize(
    ("change", "site", "rebuilt"),
    [
        (None, {}, set()),
        # Where it comes from, and what it takes to build it, is no reason to build it again.
        (source("torch", git="https://mirror.example.org/torch"), {}, set()),
        (wheel("torch", disk_gib=99), {}, set()),
        (lambda build: build.update(job_gib=12), {}, set()),
        (source("torch", revision="9" * 40), {}, {"torch", "vllm"}),
        (source("torch", submodules=False), {}, {"torch", "vllm"}),
        (source("deepgemm", revision="9" * 40), {}, {"vllm"}),
        (source("flashinfer", sha256="9" * 64), {}, {"flashinfer-python"}),
        (source("vllm", pypi="vllm==0.34.0", sha256="9" * 64), {}, {"vllm"}),
        (wheel("vllm", environment={"VLLM_VERSION_OVERRIDE": "0.33.1"}), {}, {"vllm"}),
        (wheel("vllm", before=[]), {}, {"vllm"}),
        (wheel("torch", version="2.14.1"), {}, {"torch", "vllm"}),
        (
            lambda build: build["environment"].update(CUTE_DSL_ARCH="x"),
            {},
            {"torch", "flashinfer-python", "vllm"},
        ),
        (None, {"patches": {"vllm": [{"name": "a.patch", "text": "other"}]}}, {"vllm"}),
        (None, {"requires": "uv==2\n"}, {"torch", "flashinfer-python", "vllm"}),
        (None, {"toolkit": "13.3"}, {"torch", "flashinfer-python", "vllm"}),
        (None, {"machine": "x86_64"}, {"torch", "flashinfer-python", "vllm"}),
    ],
)
def test_a_change_rebuilds_what_depends_on_it(change, site, rebuilt):
    before, after = digests(), digests(change, **site)
    assert {name for name in before if before[name] != after[name]} == rebuilt
    assert (plan().key == plan(change, **site).key) is not bool(rebuilt)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda build: build.update(wheels=[]), "names nothing that is to be built"),
        (lambda build: build.pop("requires"), "no list of build requirements"),
        (source("torch", revision="v2.14.0"), "a whole commit of 40 digits: a tag may move"),
        (source("torch", revision=None), "sources.torch.revision is None"),
        (source("vllm", sha256="abc"), "sources.vllm.sha256 is 'abc'"),
        (source("vllm", pypi="vllm>=0.33"), "wanted is NAME==VERSION"),
        (source("vllm", git="https://example.org/v"), "has pypi and git, wanted is one of"),
        (source("vllm", pypi=None), "sources.vllm has no place"),
        (wheel("vllm", source="none"), "source none is not among sources"),
        (wheel("torch", needs=["vllm"]), "wheels.torch needs vllm, which is not built before it"),
        (wheel("vllm", needs=["vllm"]), "needs vllm, which is not built before it"),
        (wheel("vllm", patches="none"), "patches/ has no none"),
        (wheel("vllm", deepgemm="NONE"), "wheels.vllm.deepgemm: NONE is not among its trees"),
        (wheel("vllm", before=[[]]), "each of before is a list of words"),
        (wheel("vllm", trees={"PATH": "deepgemm"}), "PATH is no variable that can be set"),
        (wheel("vllm", trees={"A": "none"}), "none is not among sources"),
        (wheel("vllm", trees={"A": "deepgemm:../x"}), "leads out of the tree"),
        (wheel("vllm", environment={"MAX_JOBS": 4}), "MAX_JOBS is set for each build by itself"),
        (wheel("vllm", environment={"A-B": 4}), "'A-B' is no name of a variable"),
        (wheel("vllm", environment={"A": "1\n2"}), "A is no text of one line"),
        (wheel("vllm", name="torch"), "wheels.torch is there twice"),
        (wheel("vllm", name="../vllm"), "small letters, digits and single hyphens"),
    ],
)
def test_what_is_wrong_is_said(change, said):
    with pytest.raises(BuildPlanError) as error:
        plan(change)
    assert said in str(error.value)


def test_all_problems_are_said_at_once():
    def break_it(build):
        source("torch", revision="v1")(build)
        wheel("vllm", needs=["x"])(build)

    with pytest.raises(BuildPlanError) as error:
        plan(break_it)
    assert "40 digits" in str(error.value) and "needs x" in str(error.value)
