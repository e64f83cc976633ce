# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real apt over a mirror with NVIDIA's layout: it takes the toolkit from there, and never a driver.

In a folder that stands for a machine; nothing of this one is touched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import cuda_repository
from ansible_collections.tandem.spark.plugins.module_utils.apt_transaction import read_simulation
from ansible_collections.tandem.spark.plugins.module_utils.cuda_repository import Repository
from ansible_collections.tandem.spark.plugins.module_utils.openpgp_key import fingerprint

sys.path.insert(0, str(Path(__file__).parents[2] / "molecule"))

import stubs  # noqa: E402 - after the path to it
from stubs import Stub  # noqa: E402 - after the path to it

UBUNTU = [
    Stub("nvidia-driver-580-open", "580.142-0ubuntu0.24.04.1"),
    Stub("nvidia-modprobe", "580.142-1"),
    Stub("tool", "1"),
]
NVIDIA = [
    Stub("nvidia-driver-580-open", "580.999-0ubuntu1"),
    Stub("nvidia-modprobe", "595.84-1"),
    Stub("cuda-drivers", "595.84-1", ["nvidia-driver-580-open (>= 580.999)"]),
    Stub("cuda-nvcc-13-2", "13.2.51-1"),
    Stub("cuda-toolkit-13-2", "13.2.0-1", ["cuda-nvcc-13-2"]),
    Stub("cuda-13-2", "13.2.0-1", ["cuda-toolkit-13-2", "cuda-drivers"]),
]
# What NVIDIA's package cuda-keyring writes.
PREFERS_ALL = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
FOLDERS = ("sources.list.d", "preferences.d", "keyrings", "apt.conf.d", "trusted.gpg.d")


class Machine:
    def __init__(self, root: Path):
        self.root = root
        for name in (*(f"etc/apt/{each}" for each in FOLDERS), "var/lib/apt/lists/partial", "var/lib/dpkg"):
            (root / name).mkdir(parents=True)
        (root / "var/cache/apt/archives/partial").mkdir(parents=True)
        (root / "ubuntu").mkdir()
        (root / "mirror").mkdir()
        stubs.build(root / "ubuntu", UBUNTU, {"Origin": "Ubuntu", "Label": "Ubuntu"})
        told = stubs.build(root / "mirror", NVIDIA, {"Origin": "NVIDIA", "Label": "NVIDIA CUDA"}, "key.pub")
        self.repository = Repository(f"file://{root}/mirror/", "key.pub", told)
        rows = [
            f"Package: {each.name}\nStatus: install ok installed\nVersion: {each.version}\nArchitecture: all\n"
            "Maintainer: x\nDescription: x\n"
            for each in UBUNTU
        ]
        self.write("var/lib/dpkg/status", "\n".join(rows))
        self.write("etc/apt/sources.list", f"deb [trusted=yes] file:{root}/ubuntu ./\n")

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def set_up(self, key: str | None = None) -> None:
        """The source and the key as they are written on a node; only its root is another."""
        text = cuda_repository.sources_text(self.repository)
        self.write(
            cuda_repository.SOURCES[1:],
            text.replace(cuda_repository.KEYRING, f"{self.root}{cuda_repository.KEYRING}"),
        )
        self.write(cuda_repository.KEYRING[1:], key or (self.root / "mirror/key.pub").read_text())

    def pin(self) -> None:
        self.write(cuda_repository.PREFERENCES[1:], cuda_repository.preferences_text())

    def apt(self, *words: str) -> tuple[int, str]:
        options = {
            "Dir": self.root,
            "Dir::State::status": self.root / "var/lib/dpkg/status",
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": 1,
        }
        command = ["apt-get", *(f"--option={name}={value}" for name, value in options.items()), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def would(self, *words: str) -> dict[str, str]:
        """{package: version after} of what apt would do."""
        code, said = self.apt("--simulate", *words)
        assert code == 0, said
        return {step.name: step.after for step in read_simulation(said)}


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path / "machine")
    made.set_up()
    code, said = made.apt("update")
    assert code == 0 and "W:" not in said, said
    return made


def test_without_the_pins_the_driver_would_move(machine):
    """The next tests could not fail otherwise."""
    assert machine.would("dist-upgrade")["nvidia-driver-580-open"] == "580.999-0ubuntu1"


@pytest.mark.parametrize("prefers", [False, True])
def test_the_toolkit_comes_and_no_driver_moves(machine, prefers):
    if prefers:
        machine.write("etc/apt/preferences.d/cuda-repository-pin-600", PREFERS_ALL)
    machine.pin()
    assert machine.would("dist-upgrade") == {}
    assert machine.would("install", "cuda-toolkit-13-2") == {
        "cuda-nvcc-13-2": "13.2.51-1",
        "cuda-toolkit-13-2": "13.2.0-1",
    }
    code, said = machine.apt("--simulate", "install", "cuda-13-2")
    assert code != 0 and "cuda-drivers" in said, "the package that wants a driver cannot be installed"


def test_a_mirror_that_another_key_signed_is_refused(machine, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    told = stubs.build(other, [], {"Origin": "x"}, "key.pub")
    assert fingerprint((other / "key.pub").read_bytes()) == told != machine.repository.fingerprint
    machine.set_up((other / "key.pub").read_text())
    for path in (machine.root / "var/lib/apt/lists").glob("*"):
        if path.is_file():
            path.unlink()
    _code, said = machine.apt("update")
    assert "NO_PUBKEY" in said and machine.apt("--simulate", "install", "cuda-toolkit-13-2")[0] != 0


def test_two_sources_of_one_repository_stop_apt(machine):
    """Why a repository that somebody set up already is left as it is."""
    address = machine.repository.uri
    machine.write(
        "etc/apt/sources.list.d/own.list", f"deb [signed-by=/usr/share/keyrings/x.gpg] {address} /\n"
    )
    code, said = machine.apt("update")
    assert code != 0 and "Conflicting values set for option Signed-By" in said
    texts = {
        "/etc/apt/sources.list.d/own.list": (machine.root / "etc/apt/sources.list.d/own.list").read_text()
    }
    assert cuda_repository.others(texts, machine.repository) == ["/etc/apt/sources.list.d/own.list"]
