# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was done to hold driver and kernel is undone, also where the driver itself or the record is gone by now."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import driver_host
from ansible_collections.tandem.spark.plugins.module_utils.driver_record import Change, Record
from ansible_collections.tandem.spark.plugins.modules import driver_packages

HELD = "Package: nvidia-driver-580-open\nStatus: hold ok installed\nVersion: 580.142-1\n"
RECORD = Record(
    held=("nvidia-driver-580-open", "gone-since"), masked=("nvidia-spark-run-once.service",), grub=True
)


class Host(driver_host.Host):
    def __init__(self, root: Path):
        super().__init__(str(root))
        self.said: list[str] = []
        for name, text in (
            ("var/lib/dpkg/status", HELD),
            (driver_host.PREFERENCES[1:], "Package: x\n"),
            (driver_host.GRUB_DROPIN[1:], driver_host.GRUB_TEXT),
        ):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def _run(self, argv, timeout_s=60):
        self.said.append(" ".join(argv))
        return ""


def released(host, check_mode=False):
    return driver_packages.released(mock.Mock(check_mode=check_mode), host)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_what_was_done_is_undone_and_once(host):
    host.write_record(RECORD)
    assert released(host, check_mode=True)["changed"] and host.said == []
    done = released(host)
    assert done["changed"] and done["steps"]["unhold"] == ["nvidia-driver-580-open"]
    assert host.said == [
        "apt-mark unhold nvidia-driver-580-open",
        "systemctl unmask nvidia-spark-run-once.service",
        "update-grub",
    ]
    assert host.record().empty and host.preferences() is None and not host.has_grub()
    assert not released(host)["changed"]


def test_without_a_record_only_what_can_only_be_ours_goes(host):
    assert released(host)["changed"] and host.said == ["update-grub"]  # who held the package is not known
    assert not released(host)["changed"]


@pytest.mark.parametrize("stage", ["installing", "installed", "booting", "failed"])
def test_while_a_change_is_under_way_nothing_is_released(host, stage):
    host.write_record(Record(held=("nvidia-driver-580-open",), change=Change(stage, "1", "2", (None, None))))
    with pytest.raises(driver_host.DriverError, match=rf"under way \({stage}\)\. Nothing was released"):
        released(host)
    assert host.said == [] and host.has_grub()


def test_a_change_that_is_good_is_forgotten(host):
    host.write_record(Record(change=Change("good", "1", "2", (None, None))))
    assert released(host)["changed"] and host.record().empty
