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
def first(machine) -> dict:
    """The first boot of all: GRUB takes the newest kernel. The other one is to boot once, with its initrd spoilt."""
    told = machine.boot(["load_driver"], ["spoil"], ["once"])
    assert "error" not in told and len(told["kernels"]) == 2, told
    return told


@pytest.fixture(scope="module")
def pair(first) -> tuple[str, str]:
    """The kernel that ran at first, and the one that is tried."""
    (other,) = set(first["kernels"]) - {first["running"]}
    return first["running"], other


def told_shortly(told: dict) -> tuple:
    """(kernel that runs, kernel that GRUB boots next, stage)"""
    assert "error" not in told, told
    return told["running"], told["next"], told["stage"]


def test_a_kernel_that_panics_leaves_the_old_one_the_default(machine, first, pair):
    old, new = pair
    assert told_shortly(first) == (old, new, "booting")
    assert machine.boot() == {"panic": True}
    told = machine.boot(["load_driver"], ["judge"], ["mend"], ["once"])
    assert told_shortly(told) == (old, new, "booting")
    assert "did not come up" in told["judge"][0] and told["between"] == [old, old, old, new]


def test_a_kernel_that_nobody_judged_boots_once_only(machine, pair):
    """The plug is pulled, or the controller is gone, before the node was looked at."""
    old, new = pair
    assert told_shortly(machine.boot()) == (new, old, "booting")
    assert told_shortly(machine.boot(["load_driver"], ["once"])) == (old, new, "booting")


def test_a_kernel_without_its_driver_leaves_the_old_one_the_default(machine, pair):
    old, new = pair
    told = machine.boot(["judge"])
    assert told_shortly(told) == (new, old, "failed")
    assert "driver none is loaded" in told["judge"][0]
    assert told_shortly(machine.boot(["load_driver"], ["once"])) == (old, new, "booting")


def test_a_kernel_that_is_well_becomes_the_default(machine, pair):
    _old, new = pair
    told = machine.boot(["load_driver"], ["judge"])
    assert told_shortly(told) == (new, new, "good") and told["judge"] == []
    assert told_shortly(machine.boot()) == (new, new, "good"), "and stays it"
