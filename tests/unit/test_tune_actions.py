# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of tune.yml on the controller: what is next, what is kept, what is told."""

from __future__ import annotations

from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import tune_next, tune_record, tune_report
from ansible_collections.tandem.spark.plugins.plugin_utils import planning, tune_picture
from ansible_collections.tandem.spark.plugins.plugin_utils import profile as profiles
from test_tune_records import FAST, PROVEN, REJECTED, UP

PROFILE = profiles.described("v4-flash-next", planning.PROFILES)
WISH = {
    "group": "tandem",
    "stack": ["engine", "weights"],
    "max_num_seqs": [2, 16],
    "cudagraph_modes": ["FULL_AND_PIECEWISE", "NONE"],
    "k": [5],
}


def act(kind, args, check_mode=False):
    """(the result, what was printed)"""
    task = mock.Mock(args=args, check_mode=check_mode, async_val=0, delegate_to=None)
    action = kind.ActionModule(task, *(mock.Mock() for _each in range(5)))
    action._display = mock.Mock()
    result = action.run(task_vars={"inventory_hostname": "spark-a"})
    return result, "".join(call.args[0] for call in action._display.display.call_args_list)


def following(folder, **more):
    return act(tune_next, {**WISH, "profile": PROFILE, "folder": str(folder), **more})


def record(told, check_mode=False, **more):
    args = {"folder": told["folder"], "point": told["point"], "state": "ended", **more}
    return act(tune_record, args, check_mode)[0]


def test_a_whole_search_step_by_step(tmp_path):
    told, _said = following(tmp_path)
    since, tried = told["since"], []
    while told["point"]:
        tried.append((told["point"]["cudagraph_mode"], told["point"]["max_num_seqs"]))
        record(told, state="begun")
        wrong = told["point"]["cudagraph_mode"] != "NONE" and told["point"]["max_num_seqs"] > 2
        raw = {**UP, "rounds": PROVEN, "speed": None if wrong else FAST}
        kept = record(told, raw=raw, verdict=REJECTED if wrong else {})
        assert kept["outcome"] == ("wrong" if wrong else "right") and kept["digest"] == "0123456789abcdef"
        told, _said = following(tmp_path, since=since)
    assert tried == [("FULL_AND_PIECEWISE", 16), ("FULL_AND_PIECEWISE", 2), ("NONE", 16)]
    assert told["left"] == [0, 0] and told["tried"] == {} and told["name"] == ""
    result, said = act(tune_report, {"found": told, "title": "Tuning", "prefer": "aggregate"})
    assert result["best"] == {
        "max_num_seqs": 16,
        "cudagraph_mode": "NONE",
        "k": 5,
        "draft": {"method": "dspark", "draft_sample_method": "probabilistic"},
    }
    assert result["overrides"] == UP["plan"]["overrides"] and result["warnings"] == []
    assert [path.rpartition("/")[2] for path in result["files"]] == ["tune.svg", "tune.md"]
    assert "| degenerate" not in said and "| wrong" in said and result["files"][0] in said


def test_another_stack_is_another_folder_and_uses_nothing(tmp_path):
    told, _said = following(tmp_path)
    record(told, raw={**UP, "rounds": PROVEN}, verdict=REJECTED)
    here, other = following(tmp_path)[0], following(tmp_path, stack=["other engine", "weights"])[0]
    assert here["folder"] == told["folder"] != other["folder"]
    assert here["point"]["max_num_seqs"] == 2 and other["point"] == told["point"]


def test_what_is_known_and_what_it_costs_is_told_before(tmp_path):
    told, _said = following(tmp_path, expected_s=600)
    record(told, raw={**UP, "rounds": PROVEN}, verdict=REJECTED)
    _told, said = following(tmp_path, expected_s=600, tell_all=True)
    row = "FULL_AND_PIECEWISE, dspark draft_sample_method=probabilistic, k=5: max_num_seqs 2, 16 (wrong)"
    assert row in said and "points of about 10 min each" in said and told["folder"] in said


def test_a_broken_file_is_a_warning(tmp_path):
    told, _said = following(tmp_path)
    path = record(told, raw={**UP, "rounds": PROVEN}, verdict=REJECTED)["path"]
    with open(path, "w") as stream:
        stream.write("{")
    again, _said = following(tmp_path)
    assert again["point"] == told["point"] and path in again["warnings"][0]


def test_a_wish_that_cannot_be_is_told_before_anything_is_touched(tmp_path):
    told, _said = following(tmp_path, cudagraph_modes=["FULL_EVERYTHING"], k=[-1])
    assert told["failed"] and told["msg"].startswith("Nothing was touched. tandem_tune_k has -1")


def test_check_mode_keeps_nothing(tmp_path):
    told, _said = following(tmp_path)
    assert record(told, check_mode=True, raw=UP, verdict=REJECTED)["outcome"] == "wrong"
    result, _said = act(tune_report, {"found": told, "title": "x", "prefer": "stream"}, check_mode=True)
    assert result["files"] == [] and result["best"] is None and list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_rest_is_written(tmp_path, monkeypatch):
    told, _said = following(tmp_path)
    record(told, raw={**UP, "rounds": PROVEN, "speed": FAST})
    monkeypatch.setattr(tune_picture, "Figure", None)
    result, _said = act(tune_report, {"found": told, "title": "x", "prefer": "aggregate"})
    assert [path.rpartition("/")[2] for path in result["files"]] == ["tune.md"]
    assert result["warnings"][0].startswith("No picture: The controller's Python has no matplotlib")


@pytest.mark.parametrize("point", [{}, {"max_num_seqs": 2, "cudagraph_mode": "?", "k": 0, "draft": None}])
def test_what_is_no_point_is_refused(tmp_path, point):
    result = act(tune_record, {"folder": str(tmp_path), "point": point, "state": "begun"})[0]
    assert result["failed"] and "no point" in result["msg"]
