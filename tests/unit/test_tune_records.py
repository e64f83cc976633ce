# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a point, and what another run makes of it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_records as records
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import Point, Row, TuneError

ROW = Row("NONE", 5, '{"method": "dspark"}')
POINT, OTHER = Point(ROW, 16), Point(ROW, 8)
PLAN = {"engine_yaml": "max-num-seqs: 16\n", "overrides": {"engine": {"flags": {"max-num-seqs": 16}}}}
UP = {
    "plan": PLAN,
    "release": {"digest": "0123456789abcdef"},
    "switch": {"seconds": {"stopped": 3.0, "switched": 0.5, "started": 1.0}},
    "boot": {"ready": True, "seconds": 200.0},
    "warm_up": {"ok": True, "phases": [{"seconds": 30.0}, {"seconds": 50.5}]},
}
PROVEN = {
    "conclusion": {"outcome": "proven", "reason": "5 of 5"},
    "seconds": 60.0,
    "cases": [{"verdict": "correct"}],
}


def row(streams, tokens_per_s, void=None):
    figures = {"tokens_per_s": {"low": 1.0, "median": tokens_per_s, "high": 999.0}, "acceptance": None}
    return {"concurrency": streams, "void": void, "figures": figures}


def draw(seconds, verdict):
    return {"seconds": seconds, "void": None, "streams": [{"verdict": "correct"}, {"verdict": verdict}]}


FAST = {"summaries": [row(1, 55.0), row(16, 269.0)], "draws": [draw(30.0, "correct"), draw(10.0, "correct")]}
NONSENSE_MEANWHILE = {
    "summaries": [row(1, 55.0), row(16, 300.0, "1 of 16 texts are degenerate")],
    "draws": [draw(1.0, "correct"), draw(9.0, "degenerate")],
}
REJECTED = {"outcome": "rejected", "reason": "16 of 16\n answers degenerate"}
LOST = {"outcome": "unproven", "reason": "spark-b was lost"}


def test_a_point_that_went_all_the_way():
    record = records.judged({**UP, "rounds": PROVEN, "speed": FAST}, {})
    assert (record["outcome"], record["stage"], record["reason"]) == ("right", "done", "5 of 5")
    assert record["overrides"] == PLAN["overrides"] and record["digest"] == "0123456789abcdef"
    assert record["speed"]["16"] == {"tokens_per_s": 269.0, "acceptance": None} and not record["degenerate"]
    parts = {"stop": 3.0, "start": 201.0, "warm_up": 80.5, "proof": 60.0, "measuring": 40.0}
    assert record["seconds"] == {**parts, "all": 384.5}


NONSENSE = {
    "conclusion": {"outcome": "rejected"},
    "cases": [{"verdict": "correct"}, {"verdict": "degenerate"}],
}


@pytest.mark.parametrize(
    ("raw", "verdict", "outcome", "stage", "degenerate"),
    [
        (
            {"plan": {"failed": True, "findings": [{"id": "profile.speculation.k"}]}},
            LOST,
            "refused",
            "plan",
            False,
        ),
        ({"plan": {"failed": True}}, LOST, "unproven", "plan", False),
        ({"plan": PLAN, "release": {"unreachable": True}}, LOST, "unproven", "release", False),
        ({**UP, "boot": {"failed": True, "ready": False}, "warm_up": {}}, REJECTED, "wrong", "start", False),
        ({**UP, "boot": {"failed": True, "ready": False}, "warm_up": {}}, LOST, "unproven", "start", False),
        ({**UP, "warm_up": {"ok": False}}, LOST, "unproven", "warm-up", False),
        (UP, LOST, "unproven", "nccl", False),
        ({**UP, "rounds": NONSENSE}, REJECTED, "wrong", "proof", True),
        (
            {**UP, "rounds": PROVEN, "speed": NONSENSE_MEANWHILE},
            REJECTED,
            "wrong",
            "measuring",
            True,
        ),
        ({name: None for name in UP}, LOST, "unproven", "plan", False),
    ],
)
def test_what_failed_and_where(raw, verdict, outcome, stage, degenerate):
    record = records.judged(raw, verdict)
    assert (record["outcome"], record["stage"], record["degenerate"]) == (outcome, stage, degenerate)
    assert record["reason"] == " ".join(verdict["reason"].split())


def kept(tmp_path, *pairs):
    for point, record in pairs:
        records.write(tmp_path, point, {"reason": "why", **record})
    return records.read(tmp_path)


@pytest.mark.parametrize(
    ("record", "in_this_run", "in_another"),
    [
        ({"outcome": "right"}, True, True),
        ({"outcome": "wrong"}, False, False),
        ({"outcome": "refused"}, False, False),
        ({"outcome": "unproven"}, False, None),
        ({"outcome": "begun", "attempts": 1}, None, None),
        ({"outcome": "begun", "attempts": 2}, False, False),
    ],
)
def test_what_another_run_need_not_try(tmp_path, record, in_this_run, in_another):
    began = records.now()
    found = kept(tmp_path, (POINT, record))
    assert found.outcomes(began).get(POINT) is in_this_run
    assert found.outcomes(records.now()).get(POINT) is in_another


def test_a_point_that_was_begun_twice_and_never_ended_is_left_alone(tmp_path):
    for attempt in (1, 2):
        assert records.read(tmp_path).outcomes(records.now()).get(POINT) is None
        record = records.begun(tmp_path, POINT)
        assert record["attempts"] == attempt
        records.write(tmp_path, POINT, record)
    assert records.read(tmp_path).outcomes(records.now())[POINT] is False
    # One that ended begins to count anew.
    records.write(tmp_path, OTHER, {"outcome": "unproven", "reason": "x"})
    assert records.begun(tmp_path, OTHER)["attempts"] == 1


def test_a_run_gives_up_where_point_after_point_shows_nothing(tmp_path):
    began = records.now()
    points = [Point(ROW, n) for n in (2, 4, 8, 16)]
    found = kept(tmp_path, *((point, {"outcome": "unproven"}) for point in points[:2]))
    assert found.gives_up(began) is None
    found = kept(tmp_path, (points[2], {"outcome": "unproven"}))
    assert "3 points in a row" in found.gives_up(began)
    assert found.gives_up(records.now()) is None  # another run tries again
    found = kept(tmp_path, (points[3], {"outcome": "wrong"}))
    assert found.gives_up(began) is None


def test_a_file_is_whole_or_not_there(tmp_path):
    path = records.write(tmp_path / "new", POINT, {"outcome": "right", "reason": "why"})
    assert json.loads(path.read_text())["point"] == POINT.as_dict()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"point": 1, "outcome": "right"}',
        "[" * 100_000,
        json.dumps({"point": POINT.as_dict(), "outcome": "good", "at": "2026"}),
        json.dumps({"point": POINT.as_dict(), "outcome": "right"}),
        json.dumps({"point": POINT.as_dict(), "at": "2026"}),
        "\udcff",
    ],
)
def test_what_is_no_result_is_passed_over_and_told(tmp_path, text):
    (tmp_path / "broken.json").write_bytes(text.encode(errors="surrogateescape"))
    found = kept(tmp_path, (OTHER, {"outcome": "right"}))
    assert list(found.records) == [OTHER]
    assert len(found.troubles) == 1 and "broken.json" in found.troubles[0]


def test_a_disk_that_refuses_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TuneError, match="could not be written"):
        records.write(tmp_path / "file" / "folder", POINT, {"outcome": "right"})
    assert records.read(tmp_path / "missing").records == {}


def test_what_does_not_count_has_no_speed():
    record = records.judged({**UP, "rounds": PROVEN, "speed": NONSENSE_MEANWHILE}, REJECTED)
    assert list(record["speed"]) == ["1"]
