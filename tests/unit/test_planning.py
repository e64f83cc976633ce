# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an inventory's variables to the profile that counts, and what is wrong with it."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils import planning

HOSTS = ["spark-a", "spark-b"]
OURS = {"ours": {"base": "v4-flash-next", "engine": {"flags": {"max-num-seqs": 1}}}}


def made(**variables) -> planning.Planned:
    return planning.make("tandem", HOSTS, dict.fromkeys(HOSTS, variables), dict.fromkeys(HOSTS))


def errors(planned: planning.Planned) -> list[str]:
    return [note.id for note in planned.findings if note.severity == "error"]


def test_the_default_as_it_ships():
    planned = made()
    assert errors(planned) == [] and planned.profile["name"] == "v4-flash-next" and planned.changed == []


def test_a_profile_of_the_inventory_and_what_overrides_change_in_it():
    flags = {"max-model-len": 65536, "block-size": None}
    planned = made(
        tandem_profile="ours", tandem_profiles=OURS, tandem_profile_overrides={"engine": {"flags": flags}}
    )
    assert errors(planned) == []
    assert (planned.profile["name"], planned.profile["engine"]["flags"]["max-num-seqs"]) == ("ours", 1)
    assert planned.changed == [
        ("engine.flags.block-size", 256, None),
        ("engine.flags.max-model-len", 393216, 65536),
    ]


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"tandem_profile": "v4-flash-nxt"}, ["plan.profile.unknown"]),
        ({"tandem_profile": "ours", "tandem_profiles": {"ours": {"base": "x"}}}, ["plan.profile.wrong"]),
        ({"tandem_profiles": ["ours"]}, ["plan.variable.wrong"]),
        ({"tandem_profile": "v4-flash"}, ["profile.not_runnable"]),
        ({"tandem_profile_overrides": {"name": "mine"}}, []),
        (
            {
                "tandem_profile_overrides": {
                    "engine": {"flags": {"kv-cache-dtype": "fp16"}},
                    "tensor_parallel_size": 3,
                }
            },
            ["profile.ranks.heads", "profile.kv_cache.dtype", "plan.ranks.tensor_parallel"],
        ),
    ],
)  # one row a line
def test_what_is_wrong_is_found(variables, wanted):
    assert errors(made(**variables)) == wanted


def test_an_unknown_profile_is_told_the_known_ones():
    (note,) = made(tandem_profile="x", tandem_profiles=OURS).findings
    assert "v4-flash-next" in note.remedy and "ours" in note.remedy and "two-sparks" not in note.remedy
