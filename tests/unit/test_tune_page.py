# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table, the choice, the ways out and the picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_page, tune_picture
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import Matrix, Point, Row, TuneError

FULL, NONE = (Row(mode, 5, '{"method": "dspark"}') for mode in ("FULL_AND_PIECEWISE", "NONE"))
MATRIX = Matrix((FULL, NONE), (2, 8, 16))
WAYS_OUT = "Two ways out are known: eager mode"


def right(sequences, alone, together):
    speed = {
        "1": {"tokens_per_s": alone, "verify_steps_per_s": 13.5},
        str(sequences): {"tokens_per_s": together, "acceptance": 0.901},
    }
    flags = {"max-num-seqs": sequences}
    return {
        "outcome": "right",
        "speed": speed,
        "seconds": {"all": 384.5},
        "reason": "5 of 5",
        "overrides": {"engine": {"flags": flags}},
    }


def wrong(reason="16 of 16 answers degenerate", **more):
    return {"outcome": "wrong", "stage": "proof", "degenerate": True, "reason": reason, "speed": {}, **more}


REPORTED = {
    Point(FULL, 16): wrong(),
    Point(FULL, 8): wrong("8 of 8 answers degenerate"),
    Point(FULL, 2): right(2, 72.8, 120.0),
    Point(NONE, 16): right(16, 55.0, 269.0),
}


def found(records, prefer="aggregate"):
    outcomes = {point: record["outcome"] == "right" for point, record in records.items()}
    return tune_page.Found(MATRIX, records, outcomes, prefer)


def lines(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_the_table_of_what_was_reported():
    heads, _rule, *rows = lines(tune_page.table(found(REPORTED)))
    assert heads == list(tune_page.HEADINGS)
    assert rows == [
        ["FULL_AND_PIECEWISE", "dspark", "5", "2", "correct", "72.8", "120.0", "90.1%", "13.5", "384"],
        ["FULL_AND_PIECEWISE", "dspark", "5", "8", "degenerate", "", "", "", "", ""],
        ["FULL_AND_PIECEWISE", "dspark", "5", "16", "degenerate", "", "", "", "", ""],
        ["NONE", "dspark", "5", "2", "not tried: 16 is right", "", "", "", "", ""],
        ["NONE", "dspark", "5", "8", "not tried: 16 is right", "", "", "", "", ""],
        ["NONE", "dspark", "5", "16 *", "correct", "55.0", "269.0", "90.1%", "13.5", "384"],
    ]
    assert (
        len({len(line) for line in tune_page.table(found(REPORTED)).splitlines()}) == 1
    )  # it can be read as it stands


@pytest.mark.parametrize(("prefer", "chosen"), [("aggregate", Point(NONE, 16)), ("stream", Point(FULL, 2))])
def test_the_fastest_right_point_is_offered_as_it_goes_into_an_inventory(prefer, chosen):
    told = found(REPORTED, prefer)
    assert tune_page.best(told) == chosen
    page = tune_page.page(told, "Tuning", "tune.svg")
    offered = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    assert offered == {
        "tandem_profile_overrides": {"engine": {"flags": {"max-num-seqs": chosen.max_num_seqs}}}
    }
    assert str(chosen) in page and "![Tuning](tune.svg)" in page


def test_what_is_fast_and_wrong_is_never_chosen():
    fast = {**right(16, 99.0, 300.0), "outcome": "wrong", "degenerate": True, "stage": "measuring"}
    told = found({Point(FULL, 16): fast, Point(FULL, 2): right(2, 72.8, 120.0)})
    assert tune_page.best(told) == Point(FULL, 2)
    assert "300" not in tune_page.table(told)
    alone = found({Point(FULL, 16): fast})
    assert tune_page.best(alone) is None and tune_page.snippet(alone) is None
    assert "nothing is offered" in tune_page.page(alone, "x", None)


def test_of_two_alike_the_one_with_fewer_sequences_is_chosen():
    told = found({Point(NONE, 16): right(16, 50.0, 100.0), Point(FULL, 8): right(8, 50.0, 100.0)})
    assert tune_page.best(told) == Point(FULL, 8)


def test_a_point_of_another_matrix_is_not_chosen():
    told = found({Point(NONE, 64): right(64, 90.0, 900.0), Point(FULL, 2): right(2, 72.8, 120.0)})
    assert tune_page.best(told) == Point(FULL, 2)


@pytest.mark.parametrize(
    ("records", "said", "unsaid"),
    [
        (REPORTED, [WAYS_OUT], ["the cause is another one"]),
        ({Point(NONE, 16): wrong()}, [WAYS_OUT, "the cause is another one"], []),
        ({Point(FULL, 2): wrong()}, [WAYS_OUT, "the cause is another one"], []),
        (
            {Point(FULL, 16): wrong("no KV", degenerate=False, stage="start")},
            ["does not run: no KV"],
            [WAYS_OUT],
        ),
        ({Point(FULL, 16): wrong("2 of 16 answers wrong", degenerate=False)}, ["wrong: 2 of 16"], [WAYS_OUT]),
        ({Point(FULL, 16): {"outcome": "refused", "reason": "k"}}, ["does not fit: k"], [WAYS_OUT]),
        ({Point(FULL, 16): {"outcome": "unproven", "reason": "lost"}}, ["unproven: lost"], []),
        ({Point(FULL, 16): {"outcome": "begun"}}, ["never ended: no reason was kept"], []),
        (
            {Point(FULL, 8): right(8, 1.0, 2.0), Point(FULL, 2): wrong()},
            ["2 is not right although more is"],
            [],
        ),
        ({Point(FULL, 8): {"outcome": "right"}}, ["nothing is offered"], []),
        ({}, ["nothing is offered", "its turn has not come"], []),
    ],
)
def test_what_is_said_besides(records, said, unsaid):
    page = tune_page.page(found(records), "Tuning", None)
    assert [text for text in said if text not in page] == []
    assert [text for text in unsaid if text in page] == []


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    "records", [REPORTED, {}, {Point(NONE, 16): {"outcome": "right"}}, {Point(FULL, 2): wrong()}]
)
def test_the_picture_stands_for_itself(records):
    drawn = tune_picture.svg(found(records), "Tuning of <v4> & others")
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    texts = {"".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")}
    assert {"Tuning of <v4> & others", "max_num_seqs", "tok/s", "NONE, dspark, k=5"} <= texts
    assert ("not right" in texts) == any(record["outcome"] == "wrong" for record in records.values())
    assert ("chosen" in texts) == bool(tune_page.best(found(records)))
    links = re.findall(rb'(?:href|src)="([^"]*)"', drawn)
    assert [
        link for link in links if not link.startswith(b"#")
    ] == []  # nothing is fetched by who looks at it
    assert tune_picture.svg(found(records), "Tuning of <v4> & others") == drawn


def test_without_matplotlib_that_is_said(monkeypatch):
    monkeypatch.setattr(tune_picture, "Figure", None)
    with pytest.raises(TuneError, match="no matplotlib"):
        tune_picture.svg(found(REPORTED), "x")
