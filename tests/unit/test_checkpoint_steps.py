# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who gives weights to whom, from what was found on every rank."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.filter.checkpoint import FilterModule

steps = FilterModule().filters()["checkpoint_steps"]
PINNED, OTHER = "a" * 40, "b" * 40
NOTHING = {"giver": None, "source": "", "takers": []}


def look(ok=True, revision="r1", listed=None, sums=None):
    return {
        "ok": ok,
        "revision": revision if ok else "",
        "listed": listed and {"revision": listed, "digest": "d"},
        "sha256": sums or {},
    }


BAD = look(ok=False, listed=PINNED)
BOTH = {"giver": "a", "source": "hub", "takers": ["b"]}
GONE = {"ok": False, "revision": "", "sha256": {}, "listed": None}


@pytest.mark.parametrize(
    ("a", "b", "source", "verify", "expected"),
    [
        # Every rank has them: nothing is looked for, and nothing is downloaded, whoever put them there.
        (look(), look(), "", "headers", NOTHING),
        (look(), look(), "hub", "headers", NOTHING),
        (look(listed=PINNED), look(listed=PINNED), "hub", "sha256", NOTHING),
        # None has them.
        (GONE, GONE, "", "headers", NOTHING),
        (GONE, GONE, "hub", "headers", {"giver": "a", "source": "hub", "takers": ["b"]}),
        (GONE, GONE, "/mnt/usb", "headers", {"giver": "a", "source": "/mnt/usb", "takers": ["b"]}),
        # One has them, the head or not (field case 119): the other one takes them, and nothing is downloaded.
        (look(), GONE, "", "headers", {"giver": "a", "source": "", "takers": ["b"]}),
        (GONE, look(), "hub", "headers", {"giver": "b", "source": "", "takers": ["a"]}),
        (BAD, look(listed=PINNED), "", "sha256", {"giver": "b", "source": "", "takers": ["a"]}),
        # Both are whole and differ: who is right is known only by a list.
        (look(), look(revision="r2"), "", "headers", NOTHING),
        (look(), look(revision="r2"), "hub", "headers", NOTHING),
        (
            look(),
            look(revision="r2", listed=PINNED),
            "",
            "headers",
            {"giver": "b", "source": "", "takers": ["a"]},
        ),
        (look(sums={"x": "1"}), look(sums={"x": "2"}), "", "sha256", NOTHING),
        (look(sums={"x": "1"}), look(sums={"x": "2"}), "hub", "sha256", BOTH),
        # Another revision of the profile, after one that was brought.
        (
            look(listed=OTHER),
            look(listed=OTHER),
            "hub",
            "headers",
            {"giver": "a", "source": "hub", "takers": ["b"]},
        ),
        (
            look(listed=OTHER),
            look(listed=PINNED),
            "hub",
            "headers",
            {"giver": "b", "source": "", "takers": ["a"]},
        ),
        (look(listed=OTHER), look(listed=OTHER), "", "headers", NOTHING),
    ],
)
def test_two_ranks(a, b, source, verify, expected):
    assert steps({"a": a, "b": b}, source, PINNED, verify, "") == expected


def test_an_operators_list_says_who_is_right():
    looks = {"a": look(ok=False), "b": look()}
    assert steps(looks, "", None, "sha256", "/srv/SHA256SUMS") == {
        "giver": "b",
        "source": "",
        "takers": ["a"],
    }
    assert steps({"a": look(), "b": look()}, "hub", PINNED, "sha256", "/srv/SHA256SUMS") == NOTHING


def test_a_branch_is_not_asked_for_in_every_run():
    assert (
        steps({"a": look(listed=PINNED), "b": look(listed=PINNED)}, "hub", "main", "headers", "") == NOTHING
    )


@pytest.mark.parametrize("source", ["", "hub"])
def test_no_rank_and_four_ranks(source):
    assert steps({}, source, PINNED, "headers", "") == NOTHING
    looks = {"a": GONE, "b": look(), "c": look(), "d": GONE}
    assert steps(looks, source, PINNED, "headers", "") == {"giver": "b", "source": "", "takers": ["a", "d"]}
