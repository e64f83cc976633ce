# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tune.yml tries of a profile, and what each point changes in it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils import planning
from ansible_collections.tandem.spark.plugins.plugin_utils import profile as profiles
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_points as tune
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SHIPPED = profiles.runnable(planning.PROFILES)
DSPARK = {"method": "dspark", "draft_sample_method": "probabilistic"}


def profile(name="v4-flash-next", **flags):
    return profiles.merged(profiles.described(name, planning.PROFILES), {"engine": {"flags": flags}})


def rows(made):
    return [(row.mode, row.k, row.method) for row in made.rows]


def test_the_default_is_laid_around_what_the_profile_has():
    made = tune.matrix(profile(), tune.Wish())
    assert made.sequences == (2, 4, 8, 16)
    assert rows(made) == [
        (mode, k, "dspark") for mode in ("FULL_AND_PIECEWISE", "PIECEWISE", "NONE") for k in (5, 3, 7)
    ]


@pytest.mark.parametrize(
    ("flags", "rule", "modes", "ks", "sequences"),
    [
        (
            {"max-num-seqs": 6},
            "any",
            ["FULL_AND_PIECEWISE", "PIECEWISE", "NONE"],
            [5, 3, 7],
            (2, 4, 6, 8, 16),
        ),
        (
            {"enforce-eager": True},
            "equals_block",
            ["EAGER", "FULL_AND_PIECEWISE", "PIECEWISE", "NONE"],
            [5],
            None,
        ),
        (
            {"compilation-config": '{"cudagraph_mode": "FULL"}'},
            "at_least_block",
            ["FULL", "FULL_AND_PIECEWISE", "PIECEWISE", "NONE"],
            [5, 7],
            None,
        ),
        ({"speculative-config": None}, "any", ["FULL_AND_PIECEWISE", "PIECEWISE", "NONE"], [0], None),
        (
            {"speculative-config": {"method": "dspark", "num_speculative_tokens": 1}},
            "any",
            ["FULL_AND_PIECEWISE", "PIECEWISE", "NONE"],
            [1, 3],
            None,
        ),
    ],
)  # one row a line
def test_what_follows_from_a_profile(flags, rule, modes, ks, sequences):
    made = tune.matrix({**profile(**flags), "speculation": {"k_rule": rule}}, tune.Wish())
    assert list(dict.fromkeys(row.mode for row in made.rows)) == modes
    assert list(dict.fromkeys(row.k for row in made.rows)) == ks
    assert made.sequences == (sequences or (2, 4, 8, 16))


def test_without_a_gpu_there_are_no_graphs_to_try():
    assert {row.mode for row in tune.matrix(profile("rehearsal"), tune.Wish()).rows} == {"EAGER"}


def test_a_wish_counts_alone_and_once():
    wish = tune.Wish(
        (16, 2, 2),
        ("none", "NONE"),
        (0, 5),
        ({"method": "dspark"}, {"method": "ngram", "prompt_lookup_max": 4}),
    )
    made = tune.matrix(profile(), wish)
    assert made.sequences == (2, 16)
    assert [(row.mode, row.k, row.drafted) for row in made.rows] == [
        ("NONE", 0, "none"),
        # What the profile says of its own method is laid under it.
        ("NONE", 5, "dspark draft_sample_method=probabilistic"),
        ("NONE", 5, "ngram prompt_lookup_max=4"),
    ]


@pytest.mark.parametrize(
    ("wish", "flags", "told"),
    [
        (tune.Wish(max_num_seqs=(0, 4)), {}, "tandem_tune_max_num_seqs has 0"),
        (tune.Wish(k=(-1,)), {}, "tandem_tune_k has -1"),
        (
            tune.Wish(modes=("eager", "FULL_EVERYTHING")),
            {},
            "tandem_tune_cudagraph_modes has FULL_EVERYTHING",
        ),
        (tune.Wish(drafts=({"num_speculative_tokens": 3, "method": "mtp"},)), {}, "say it in tandem_tune_k"),
        (tune.Wish(drafts=({},)), {}, "wanted a map with a method"),
        (tune.Wish(k=(3,)), {"speculative-config": None}, "the profile has no speculative-config"),
    ],
)
def test_what_cannot_be_tried_is_told(wish, flags, told):
    with pytest.raises(tune.TuneError, match=told):
        tune.matrix(profile(**flags), wish)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(tune.TuneError) as error:
        tune.matrix(profile(), tune.Wish((0,), ("x",), (-1,), ({},)))
    assert str(error.value).count("tandem_tune_") == 4


@pytest.mark.parametrize(
    ("flags", "mode", "k", "draft", "laid"),
    [
        ({}, "FULL_AND_PIECEWISE", 5, DSPARK, {}),
        ({}, "NONE", 5, DSPARK, {"compilation-config": {"cudagraph_mode": "NONE"}}),
        ({}, "EAGER", 5, DSPARK, {"enforce-eager": True}),
        ({}, "FULL_AND_PIECEWISE", 0, None, {"speculative-config": None}),
        (
            {},
            "FULL_AND_PIECEWISE",
            7,
            {"method": "ngram"},
            {
                "speculative-config": {
                    "method": "ngram",
                    "num_speculative_tokens": 7,
                    "draft_sample_method": None,
                }
            },
        ),
        (
            {"enforce-eager": True},
            "PIECEWISE",
            5,
            DSPARK,
            {"enforce-eager": None, "compilation-config": {"cudagraph_mode": "PIECEWISE"}},
        ),
        ({"enforce-eager": True}, "EAGER", 5, DSPARK, {}),
        (
            {"compilation-config": {"cudagraph_mode": "FULL", "use_inductor": True}},
            "NONE",
            5,
            DSPARK,
            {"compilation-config": {"cudagraph_mode": "NONE"}},
        ),
        ({"compilation-config": {"cudagraph_mode": "FULL"}}, "EAGER", 5, DSPARK, {"enforce-eager": True}),
        # JSON of a map is a map: nothing else of it is lost.
        (
            {"compilation-config": '{"cudagraph_mode": "FULL", "level": 3}'},
            "NONE",
            5,
            DSPARK,
            {"compilation-config": {"cudagraph_mode": "NONE", "level": 3}},
        ),
        ({"compilation-config": '{"cudagraph_mode": "FULL"}'}, "FULL", 5, DSPARK, {}),
    ],
)  # one row a line
def test_a_point_changes_its_axes_and_nothing_else(flags, mode, k, draft, laid):
    row = tune.Row(mode, k, json.dumps(draft, sort_keys=True) if k else "")
    base = profile(**flags)
    assert tune.overrides(tune.Point(row, 2), base) == ({"engine": {"flags": laid}} if laid else {})
    more = tune.overrides(tune.Point(row, 16), base)
    assert more == {"engine": {"flags": {**laid, "max-num-seqs": 16}}}
    after = profiles.merged(base, more)["engine"]["flags"]
    assert tune.mode_of(after) == mode and after["max-num-seqs"] == 16
    assert ("speculative-config" in after) == bool(k)
    kept = {name: value for name, value in base["engine"]["flags"].items() if name not in tune.AXES}
    assert {name: value for name, value in after.items() if name not in tune.AXES} == kept


@pytest.mark.parametrize("name", SHIPPED)
def test_every_default_point_of_what_ships_is_planned_or_refused_with_a_finding(name):
    """As the playbook plans it: laid over the inventory's own overrides."""
    hosts = ["spark-a", "spark-b"]
    laid = {"engine": {"flags": {"max-num-batched-tokens": 4096}}}
    given_ = {"tandem_profile": name, "tandem_profile_overrides": laid}
    # What only whoever takes an image can say: which one it is, and that its licence is accepted.
    if image := profiles.described(name, planning.PROFILES)["runtime"].get("image"):
        laid["runtime"] = {"image": {"digest": f"{image.get('digest_begins', 'sha256:'):0<71}"}}
        given_["tandem_accept_licenses"] = [image["name"], image["licence"]]
    base = planning.make("tandem", hosts, dict.fromkeys(hosts, given_), dict.fromkeys(hosts)).profile
    for point in tune.matrix(base, tune.Wish()).points():
        tried = tune.overrides(point, base)
        made = planning.make("tandem", hosts, dict.fromkeys(hosts, given_), dict.fromkeys(hosts), tried)
        assert [note.id for note in made.findings if note.severity == "error"] == [], point
        flags = made.profile["engine"]["flags"]
        assert (flags["max-num-seqs"], flags["max-num-batched-tokens"]) == (point.max_num_seqs, 4096)
        # What is offered to the inventory makes the very same profile.
        offered = {**given_, "tandem_profile_overrides": made.overrides}
        again = planning.make("tandem", hosts, dict.fromkeys(hosts, offered), dict.fromkeys(hosts))
        assert again.profile == made.profile


def test_a_point_that_the_engine_cannot_run_is_refused_by_the_plan():
    hosts, tried = ["a", "b"], {"engine": {"flags": {"speculative-config": {"num_speculative_tokens": 0}}}}
    made = planning.make("tandem", hosts, dict.fromkeys(hosts, {}), dict.fromkeys(hosts), tried)
    assert "profile.speculation.k" in [note.id for note in made.findings]


def test_points_have_names_of_their_own_and_come_back_from_their_files():
    wish = tune.Wish(
        (2, 16), tune.MODES, (0, 5), (DSPARK, {"method": "dspark", "draft_sample_method": "greedy"})
    )
    points = tune.matrix(profile(), wish).points()
    assert len({point.name for point in points}) == len(points)
    assert all(set(point.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for point in points)
    assert [tune.point_of(json.loads(json.dumps(point.as_dict()))) for point in points] == points


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"max_num_seqs": 2},
        None,
        {"max_num_seqs": "2", "cudagraph_mode": "NONE", "k": 0, "draft": None},
        {"max_num_seqs": 2, "cudagraph_mode": "ALL", "k": 0, "draft": None},
        {"max_num_seqs": 2, "cudagraph_mode": "NONE", "k": 5, "draft": {}},
    ],
)
def test_what_is_no_point_is_told(told):
    with pytest.raises(ValueError, match="no point|no draft"):
        tune.point_of(told)


def test_what_a_result_holds_for_makes_another_stack():
    base = profile()
    first = tune.stack_id(["engine", "weights", tune.others(base)])
    same = profiles.merged(base, {"engine": {"flags": {"max-num-seqs": 16}}, "summary": "other words"})
    assert tune.stack_id(["engine", "weights", tune.others(same)]) == first
    others = [
        ["other engine", "weights", tune.others(base)],
        ["engine", "weights", tune.others(profile(**{"block-size": 64}))],
        ["engine", "weights", tune.others(profiles.merged(base, {"engine": {"environment": {"X": 1}}}))],
        ["engine", "weights", tune.others(profiles.merged(base, {"proof": {"one_by_one": 9}}))],
    ]
    assert len({tune.stack_id(parts) for parts in others} | {first}) == 5


maps = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda below: st.dictionaries(st.text("abc", min_size=1, max_size=1), below, max_size=3),
    max_leaves=8,
)
whole = st.dictionaries(st.text("abc", min_size=1, max_size=1), maps, max_size=3)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(whole, whole)
def test_a_difference_is_what_leads_there(before, after):
    assert profiles.merged(before, profiles.difference(before, after)) == after
    assert profiles.difference(after, after) == {}
