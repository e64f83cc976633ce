# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing stays behind, however the lab ends."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from handle import Handle
from node import is_on
from system import namespace_exists, wait_until

NAME = "lableft"


def traces() -> list[str]:
    """All of the machine that remembers the lab; other labs may come and go meanwhile."""
    home = Handle(NAME).lab.home
    namespaces = Path("/run/netns")
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return [
        *[f"file {name}" for name in os.listdir(home) if name == NAME],
        *[f"namespace {path.name}" for path in namespaces.glob(f"{NAME}*")],
        *[f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if NAME in line],
        *[f"link {line}" for line in links.splitlines() if "spark-" in line or "rail" in line],
        *[f"nspawn {path}" for path in Path("/run/systemd/nspawn").glob("propagate/spark-*")],
        *[f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"**/lab-{NAME}*")],
        *[f"process {path.name}" for path in Path("/proc").glob("[0-9]*") if NAME in command_line(path)],
    ]


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def handle(pair):
    """Another lab beside the pair, which also fills the caches."""
    handle = Handle(NAME)
    handle("down")
    yield handle
    handle("down")


def test_down_leaves_nothing(handle):
    handle("up", "--nodes", "1")
    assert {trace.split()[0] for trace in traces()} == {"file", "namespace", "mount", "cgroup", "process"}
    config = handle.lab.directory / "ssh_config"
    # As Ansible does: a connection that stays open in the background.
    subprocess.run(
        ["ssh", "-F", config, "-o", f"ControlPath=/tmp/{NAME}", "-o", "ControlMaster=yes", "-fN", "spark-a"],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    handle("down")
    wait_until(lambda: not traces(), 5, "no trace of the lab")


MOMENTS = {
    "described": lambda lab: lab.description_file.exists(),
    "wired": lambda lab: namespace_exists(lab.client),
    "first node on": lambda lab: is_on(lab.nodes(2)[0]),
    "last node on": lambda lab: is_on(lab.nodes(2)[1]),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_up_is_cleaned_by_the_next_command(handle, moment):
    up = handle.start("up")
    wait_until(lambda: MOMENTS[moment](handle.lab), 30, f"a lab that is {moment}", interval_s=0.001)
    up.kill()
    up.wait()
    handle("down")
    wait_until(lambda: not traces(), 5, "no trace of the lab")


def test_up_after_an_interruption_makes_a_whole_lab(handle):
    up = handle.start("up")
    wait_until(lambda: MOMENTS["wired"](handle.lab), 30, "namespaces", interval_s=0.001)
    up.kill()
    up.wait()
    handle("up")
    assert handle.ssh("spark-b", "uname -n") == "spark-b"
