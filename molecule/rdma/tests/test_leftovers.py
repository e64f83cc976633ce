# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing of the virtual machines stays behind, however their making ends. None of these waits for a boot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hands
import pytest
from hands import wait_for

NAME = "vmleft"
HOME = hands.INVENTORY.parents[1]


def vms(*words: str, **options) -> subprocess.Popen:
    environment = {**os.environ, "LAB": NAME}
    return subprocess.Popen([sys.executable, str(hands.LAB_PROGRAM), *words], env=environment, **options)


def down() -> None:
    assert vms("down").wait(timeout=60) == 0


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def machines() -> list[str]:
    return [path.name for path in Path("/proc").glob("[0-9]*") if f"/{NAME}/nodes/" in command_line(path)]


def traces() -> list[str]:
    return [
        *[f"file {path}" for path in HOME.glob(NAME)],
        *[f"namespace {path.name}" for path in Path("/run/netns").glob(f"{NAME}-*")],
        *[f"process {pid}" for pid in machines()],
    ]


MOMENTS = {
    "described": lambda: (HOME / NAME / "lab.json").exists(),
    "wired": lambda: Path(f"/run/netns/{NAME}-client").exists(),
    "one machine on": lambda: len(machines()) >= 1,
    "both machines on": lambda: len(machines()) >= 2,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_up_is_cleaned_by_the_next_command(moment):
    down()
    up = vms("up", stdout=subprocess.DEVNULL)
    try:
        wait_for(f"a lab that is {moment}", MOMENTS[moment], 60, 0.001)
    finally:
        up.kill()
        up.wait()
        down()
    wait_for("no trace of the lab", lambda: not traces(), 10, 0.1)


def test_a_lab_of_the_other_kind_is_left_alone():
    folder = HOME / NAME
    folder.mkdir()
    (folder / "lab.json").write_text('{"nodes": 2, "network": "networkd", "layers": []}\n')
    try:
        for word in ("up", "down"):
            refused = vms(word, stderr=subprocess.PIPE, text=True)
            assert "is one of lab.py" in refused.communicate(timeout=60)[1] and refused.returncode == 1
        assert (folder / "lab.json").exists()
    finally:
        (folder / "lab.json").unlink()
        folder.rmdir()
