# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel boots once, by real GRUB: what panics, lacks its driver or was never judged leaves the old one the default.

The order counts: each test goes on where the one before ended, on one disk.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import Machine  # noqa: E402 - after the path to it


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("boot"))
    assert "error" not in made.factory, made.factory
    return made


@pytest.fixture(scope="module")
def pair(machine) -> tuple[str, str]:
    """The kernel that GRUB boots as it was installed, and the other one."""
    told = machine.boot(["load_driver"])
    assert "error" not in told and len(told["kernels"]) == 2, told
    assert told["environment"].get("saved_entry") is None
    (other,) = set(told["kernels"]) - {told["running"]}
    return told["running"], other


def test_a_kernel_that_panics_leaves_the_old_one_the_default(machine, pair):
    old, new = pair
    told = machine.boot(["load_driver"], ["spoil", new], ["once", new])
    assert (told.get("error"), told["running"], told["next"]) == (None, old, new), told
    assert machine.boot() == {"panic": True}
    told = machine.boot(["load_driver"], ["judge", new])
    assert (told["running"], told["next"], told["stage"]) == (old, old, "failed"), told
    assert "did not come up" in told["judge"][0]
    assert "next_entry" not in {name for name, value in told["environment"].items() if value}


def test_a_kernel_that_nobody_judged_boots_once_only(machine, pair):
    """The plug is pulled, or the controller is gone, before the node was looked at."""
    old, new = pair
    told = machine.boot(["load_driver"], ["mend", new], ["once", new])
    assert (told.get("error"), told["next"]) == (None, new), told
    told = machine.boot()
    assert (told["running"], told["next"]) == (new, old), told
    assert machine.boot(["load_driver"])["running"] == old


def test_a_kernel_without_its_driver_leaves_the_old_one_the_default(machine, pair):
    old, new = pair
    assert machine.boot(["load_driver"], ["once", new])["next"] == new
    told = machine.boot(["judge", new])
    assert (told["running"], told["next"], told["stage"]) == (new, old, "failed"), told
    assert "driver none is loaded" in told["judge"][0]
    assert machine.boot()["running"] == old


def test_a_kernel_that_is_well_becomes_the_default(machine, pair):
    old, new = pair
    assert machine.boot(["load_driver"], ["once", new])["next"] == new
    told = machine.boot(["load_driver"], ["judge", new])
    assert (told["running"], told["judge"], told["next"], told["stage"]) == (new, [], new, "good"), told
    assert [machine.boot()["running"] for _boot in range(2)] == [new, new], "and stays it"
