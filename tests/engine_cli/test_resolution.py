# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What v4-flash is built from and beside, resolved anew for a Spark by the package index as it is today.

Of what no package index has, the commits, nothing is shown here.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import engine
import pytest
import rendering
import sources
from ansible_collections.tandem.spark.plugins.module_utils.build_plan import normal
from ansible_collections.tandem.spark.plugins.plugin_utils.built_wheels import entries
from uv import find_uv_bin

PROFILE = rendering.PROFILES["v4-flash"]
RUNTIME = PROFILE["runtime"]
BUILD = RUNTIME["build"]
SPARK = ["--python-platform", "aarch64-manylinux_2_35", "--python-version", RUNTIME["python"]]
LISTS = {"engine": RUNTIME["lock"], "build": BUILD["requires"], "nccl": PROFILE["nccl"]["preload"]["lock"]}
SOURCES = {name: told for name, told in BUILD["sources"].items() if "pypi" in told}
# The pins of the profile that an index has, without what our own build adds to a version.
PINS = {name: str(pin).partition("+")[0] for name, pin in RUNTIME["pins"].items() if "@" not in str(pin)}


def compiled(lines: list[str], folder: Path, *words: str) -> dict[str, tuple[str, set[str]]]:
    """{name: (version, hashes of all its files)} that uv resolves; fails with uv's own words."""
    wanted = folder / "wanted.in"
    wanted.write_text("\n".join(lines) + "\n")
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += ["--generate-hashes", *SPARK, *words, str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return told(done.stdout)


def told(text: str) -> dict[str, tuple[str, set[str]]]:
    found = {}
    for entry in entries(text):
        name, version = re.match(r"(\S+?)==([^\s;\\]+)", entry).groups()
        found[normal(name)] = (version, set(re.findall(r"sha256:([0-9a-f]{64})", entry)))
    return found


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_one_that_the_index_resolves(name, tmp_path):
    """Every pin exists for a Spark, they agree with each other, and their files are those of the list."""
    locked = told((engine.ENGINES / LISTS[name]).read_text())
    pins = [f"{package}=={version}" for package, (version, _hashes) in locked.items()]
    now = compiled(pins, tmp_path, "--only-binary=:all:")
    missing = {package: locked[package][0] for package in locked if package not in now}
    assert not missing, "the list names what nothing needs on a Spark"
    assert set(now) == set(locked), "the list lacks what its own packages need"
    other = [package for package in locked if not locked[package][1] & now[package][1]]
    assert other == [], "the index has other files of these"


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_archive_is_one_that_the_index_has(name, tmp_path):
    told_source = SOURCES[name]
    package, _equals, version = told_source["pypi"].partition("==")
    found = compiled([told_source["pypi"]], tmp_path, "--no-deps")
    assert found[normal(package)][0] == version and told_source["sha256"] in found[normal(package)][1]


def test_the_pins_of_the_profile_agree(tmp_path):
    """torch, vLLM, FlashInfer and NCCL as they are named, resolved together with all that they need."""
    found = compiled([f"{name}=={version}" for name, version in PINS.items()], tmp_path)
    assert {name: found[normal(name)][0] for name in PINS} == PINS
    locked = told((engine.ENGINES / RUNTIME["lock"]).read_text())
    assert set(found) <= set(locked), "the engine's list lacks what they need"


def test_what_is_built_takes_the_place_of_a_package_of_the_list():
    locked = told((engine.ENGINES / RUNTIME["lock"]).read_text())
    for wheel in BUILD["wheels"]:
        assert locked[wheel["name"]][0] == wheel["version"].partition("+")[0]
        assert str(RUNTIME["pins"].get(wheel["name"], wheel["version"])) == wheel["version"]


# Which file of vLLM's source pins which tree, by a commit or by a tag.
PINNED = {
    "deepgemm": "cmake/external_projects/deepgemm.cmake",
    "deepselect": "cmake/external_projects/deepselect.cmake",
    "flashkda": "cmake/external_projects/flashkda.cmake",
    "flashmla": "cmake/external_projects/flashmla.cmake",
    "msa": "cmake/external_projects/fmha_sm100.cmake",
    "qutlass": "cmake/external_projects/qutlass.cmake",
    "tml-fa4": "cmake/external_projects/tml_fa4.cmake",
    "vllm-flash-attn": "cmake/external_projects/vllm_flash_attn.cmake",
}
BY_TAG = {"cutlass": "CMakeLists.txt", "triton": "cmake/external_projects/triton_kernels.cmake"}


def test_the_trees_are_those_that_vllm_pins(tmp_path):
    """Of the two that it pins by a tag, that the variable which names another folder is one that it reads."""
    release = RUNTIME["pins"]["vllm"].partition("+")[0]
    texts = sources.unpack(release, tmp_path, {*PINNED.values(), *BY_TAG.values()})
    for name, path in PINNED.items():
        assert BUILD["sources"][name]["revision"] in (texts / path).read_text(), name
    trees = BUILD["wheels"][-1]["trees"]
    assert {place.partition(":")[0] for place in trees.values()} == {*PINNED, *BY_TAG}
    for variable, place in trees.items():
        name = place.partition(":")[0]
        if variable.endswith("_SRC_DIR"):
            assert f"ENV{{{variable}}}" in (texts / {**PINNED, **BY_TAG}[name]).read_text(), variable


@pytest.mark.parametrize(
    "line", ["vllm==0.33.0.post99", "vllm==0.33.0\ntorch==2.13.0", "no-such-package-of-tandem==1"]
)
def test_what_cannot_be_resolved_is_told(line, tmp_path):
    """The tests above could not fail otherwise."""
    with pytest.raises(AssertionError):
        compiled([line], tmp_path)
