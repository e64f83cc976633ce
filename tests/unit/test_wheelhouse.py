# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels on the controller and on a node, with real pip and one tiny wheel made here."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import runtime
from ansible_collections.tandem.spark.plugins.plugin_utils.wheelhouse import (
    COMPLETE,
    Target,
    WheelhouseError,
    fill,
    platform_tags,
)

ALIAS = Path(__file__).parents[2] / "roles" / "runtime" / "files" / "vllm_alias.py"
PIN = "vllm==0.32.0+cpu"
WHEEL = "vllm-0.32.0+cpu-py3-none-any.whl"


@pytest.fixture
def no_index(monkeypatch):
    """pip asks nobody: what it finds lies in the folder."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def lock(tmp_path):
    """A lock list with the one wheel that ALIAS makes."""
    rehearsal = (ALIAS.parent / "rehearsal.txt").read_text()
    entry = rehearsal[rehearsal.index(PIN) :].split("\n")[:2]
    path = tmp_path / "lock.txt"
    path.write_text("\n".join(entry) + "\n")
    return path


def test_the_wheel_made_here_has_the_hash_of_the_lock_list(no_index, lock, tmp_path):
    said = []
    target = Target(lock, "3.11", "x86_64", "2.36", made_here=ALIAS)
    folder, wheels = fill(target, tmp_path / "cache", said.append)
    assert list(wheels) == [WHEEL] and wheels[WHEEL] in lock.read_text()
    assert any("downloading" in line for line in said)
    said.clear()
    assert fill(target, tmp_path / "cache", said.append) == (folder, wheels) and said == []


def test_in_an_environment_with_that_wheel_a_yield_is_a_short_sleep(tmp_path):
    subprocess.run([sys.executable, ALIAS, tmp_path], check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(tmp_path / WHEEL) as wheel:
        wheel.extractall(tmp_path)
    asked = "import os, site, time\nsite.addsitedir('.')\nbegan = time.monotonic()\nos.sched_yield()\n"
    asked += "print(time.monotonic() - began)"
    slept = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert float(slept.stdout) >= 0.0005


def test_what_cannot_be_had_is_said_with_pips_words(no_index, tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(WheelhouseError, match="no-such-package"):
        fill(Target(lock, "3.11", "x86_64", "2.36"), tmp_path / "cache", lambda text: None)
    assert not list((tmp_path / "cache").rglob(COMPLETE))


def test_a_wheel_with_another_content_is_refused(no_index, lock, tmp_path):
    lock.write_text(f"{PIN} --hash=sha256:{'0' * 64}\n")
    with pytest.raises(WheelhouseError, match="(?i)hash"):
        fill(Target(lock, "3.11", "x86_64", "2.36", made_here=ALIAS), tmp_path / "cache", lambda text: None)


def test_platform_tags_are_exact_and_newest_first():
    tags = platform_tags("aarch64", "2.39")
    assert (
        tags[0] == "manylinux_2_39_aarch64"
        and "manylinux_2_28_aarch64" in tags
        and "manylinux_2_40_aarch64" not in tags
    )
    assert (
        tags.index("manylinux_2_35_aarch64")
        < tags.index("manylinux_2_17_aarch64")
        < tags.index("linux_aarch64")
    )


@pytest.mark.parametrize("glibc", ["", "musl", "2", "2.x"])
def test_a_node_without_glibc_is_refused(glibc):
    with pytest.raises(WheelhouseError, match="wanted is glibc"):
        platform_tags("aarch64", glibc)


def test_what_is_missing_on_the_controller_is_said(lock, tmp_path):
    with pytest.raises(WheelhouseError, match="absent.txt"):
        _ = Target(tmp_path / "absent.txt", "3.11", "x86_64", "2.36").key
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no compiler')\n")
    with pytest.raises(WheelhouseError, match="no compiler"):
        fill(Target(lock, "3.11", "x86_64", "2.36", made_here=broken), tmp_path / "cache", lambda text: None)


def test_the_key_stands_for_list_machine_and_python(lock):
    keys = {
        Target(lock, python, machine, "2.36").key
        for python in ("3.11", "3.12")
        for machine in ("x86_64", "aarch64")
    }
    lock.write_text("other\n")
    keys.add(Target(lock, "3.11", "x86_64", "2.36").key)
    assert len(keys) == 5


def test_only_whole_wheels_are_adopted(tmp_path):
    incoming, house = tmp_path / "incoming", tmp_path / "house"
    incoming.mkdir()
    good = hashlib.sha256(b"good").hexdigest()
    wheels = {"a.whl": good, "b.whl": good, "c.whl": good}
    assert runtime.missing(house, wheels) == ["a.whl", "b.whl", "c.whl"]
    (incoming / "a.whl").write_bytes(b"good")
    (incoming / "b.whl").write_bytes(b"goo")
    with pytest.raises(runtime.RuntimeInstallError, match="b.whl"):
        runtime.adopt(incoming, house, wheels)
    assert runtime.missing(house, wheels) == ["b.whl", "c.whl"]


def environment(path, packages, extra=""):
    for name, record in packages.items():
        info = path / "lib" / "python3.11" / "site-packages" / f"{name}.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text(record + extra)
    return path


def test_the_fingerprint_is_that_of_the_content(tmp_path):
    one = environment(
        tmp_path / "a", {"torch-2.0": "torch/x.py,sha256=1,2\n", "vllm-1.0": "v.py,sha256=3,4\n"}
    )
    own = "torch-2.0.dist-info/INSTALLER,sha256=9,9\n../../../bin/torch,sha256=9,9\n"
    same = environment(
        tmp_path / "b", {"vllm-1.0": "v.py,sha256=3,4\n", "torch-2.0": "torch/x.py,sha256=1,2\n"}, own
    )
    other = environment(
        tmp_path / "c", {"torch-2.0": "torch/x.py,sha256=8,2\n", "vllm-1.0": "v.py,sha256=3,4\n"}
    )
    assert runtime.fingerprint(one) == runtime.fingerprint(same)
    assert runtime.fingerprint(one)["packages"] == {"torch": "2.0", "vllm": "1.0"}
    assert runtime.fingerprint(one)["digest"] != runtime.fingerprint(other)["digest"]


@pytest.mark.parametrize("text", [None, "", "{cut", "[]", "{}", "1"])
def test_an_environment_that_was_cut_off_is_not_installed(tmp_path, text):
    if text is not None:
        (tmp_path / runtime.FINGERPRINT).write_text(text)
    assert runtime.read_fingerprint(tmp_path) is None


def test_a_full_disk_is_said_before_anything_is_written(tmp_path):
    wheel = tmp_path / "huge.whl"
    with wheel.open("wb") as stream:
        stream.truncate(1 << 43)  # sparse: it takes no room itself
    with pytest.raises(runtime.RuntimeInstallError, match="GiB free"):
        runtime.install(tmp_path / "env", "", tmp_path, {"huge.whl": ""}, "/usr/bin/python3")
    assert not (tmp_path / "env").exists()


def test_a_list_without_its_installer_is_refused(tmp_path):
    with pytest.raises(runtime.RuntimeInstallError, match="uv"):
        runtime.install(tmp_path / "env", "", tmp_path, {}, "/usr/bin/python3")
    assert list(tmp_path.iterdir()) == []
