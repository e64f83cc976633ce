# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""start.yml and rollback.yml over two pretend nodes: engines that differ are named, and nothing is stopped."""

from __future__ import annotations

import pretend_tune as pretend
import pytest

EARLIER = "fedcba9876543210"
ENGINE = {
    "installed": True,
    "path": "/opt/tandem/runtime/x",
    "fingerprint": "f" * 64,
    "packages": {"torch": "2.14.0", "vllm": "0.33.0"},
    "files": {"torch": "a", "vllm": "b"},
    "changed_since": [],
}
CHANGED = {
    **ENGINE,
    "fingerprint": "0" * 64,
    "packages": {"torch": "2.13.0", "vllm": "0.33.0"},
    "files": {"torch": "c", "vllm": "d"},
    "changed_since": ["torch is 2.14.0 on the day it was installed and 2.13.0 on this one"],
}


@pytest.fixture(scope="module", params=["start", pytest.param("rollback", marks=pytest.mark.long)])
def pair(request, tmp_path_factory):
    return pretend.Pair(tmp_path_factory.mktemp(request.param), request.param, {})


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        (
            CHANGED,
            "The ranks do not have the same engine: torch is 2.14.0 on spark-a and 2.13.0 on spark-b; "
            "vllm 0.33.0 has other files on spark-a than on spark-b; spark-b is not as it was installed "
            "(torch is 2.14.0 on the day it was installed and 2.13.0 on this one). Nothing was stopped.",
        ),
        (
            {"installed": False, "path": "/opt/tandem/runtime/y"},
            "spark-b has no engine in /opt/tandem/runtime/y. Nothing was stopped.",
        ),
    ],
)
def test_engines_that_differ_are_named_and_nothing_is_touched(pair, worker, told):
    pair.set(proven=[pretend.PROVEN, EARLIER], engines={pretend.HEAD: ENGINE, pretend.WORKER: worker})
    done = pair.run()
    assert done.returncode != 0 and told in " ".join(done.stdout.split()), done.stdout + done.stderr
    assert pair.state["steps"] == [] and pair.state["history"] == []


def test_equal_engines_are_no_reason_to_stop(pair):
    pair.set(proven=[pretend.PROVEN, EARLIER], engines=dict.fromkeys(pretend.HOSTS, ENGINE))
    done = pair.run()
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = EARLIER if "rollback" in pair.inventory.parent.name else pretend.PROVEN
    assert pair.state["current"] == pair.state["applied"] == wanted
