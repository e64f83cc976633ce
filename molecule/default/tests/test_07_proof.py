# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint that answers nonsense never goes live, and the one that was proven comes back."""

from __future__ import annotations

import pytest

from conftest import NODES, ask, shell, site


@pytest.mark.parametrize(
    ("defect", "verdict"), [("count", "degenerate"), ("loop", "degenerate"), ("wrong", "wrong")]
)
def test_a_defective_checkpoint_is_refused(defect, verdict):
    before = [shell(node, "readlink /opt/tandem/current; cat /var/lib/tandem/applied") for node in NODES]
    run = site("-e", f"tandem_checkpoint_path=/srv/models/lab-{defect}")
    assert run.code != 0
    assert verdict in run.text and "is back and proved again" in run.text, run.text
    assert [
        shell(node, "readlink /opt/tandem/current; cat /var/lib/tandem/applied") for node in NODES
    ] == before
    assert "391" in ask()
