# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd's own score of how much a unit could do: the guard's is bounded, since it is root; the engine's is told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from test_unit_hardening import rendered  # after the path to it is set

ROOT = Path(__file__).parents[2]
GUARD = ROOT / "roles/guard/files/tandem-guard.service"
MOST_OF_THE_GUARD = 2.5  # 2.4 as it is; it reads caches of another account and speaks to the other ranks


def exposure(tmp_path: Path, name: str, text: str) -> float:
    """From 0, nothing, to 10, everything."""
    (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    return float(found[1])


def test_the_guard_may_do_little(tmp_path):
    assert exposure(tmp_path, "tandem-guard.service", GUARD.read_text()) <= MOST_OF_THE_GUARD


@pytest.mark.parametrize(
    "line", ["CapabilityBoundingSet=CAP_DAC_READ_SEARCH", "PrivateDevices=yes", "ProtectSystem=strict"]
)
def test_a_guard_that_may_do_more_is_seen(tmp_path, line):
    text = GUARD.read_text()
    assert line in text
    more = exposure(tmp_path, "tandem-guard.service", text.replace(line, ""))
    assert more > exposure(tmp_path, "tandem-guard.service", text)


def test_the_engines_is_told(tmp_path):
    """It needs what CUDA and RDMA need; what it hides beyond that is in test_unit_hardening.py."""
    for role in ("head", "worker"):
        score = exposure(tmp_path, f"tandem-{role}.service", rendered(role, "gb10"))
        print(f"\nexposure of tandem-{role}.service: {score}")
        assert score < 5  # what systemd calls medium begins there
