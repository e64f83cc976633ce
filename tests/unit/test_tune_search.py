# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search finds what trying every point would, with fewer of them; and says what it costs."""

from __future__ import annotations

import math

import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils import tune_search as search
from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import Matrix, Point, Row
from hypothesis import given, settings
from hypothesis import strategies as st

FULL, PIECEWISE, NONE = (Row(mode, 0, "") for mode in ("FULL_AND_PIECEWISE", "PIECEWISE", "NONE"))
SEQUENCES = (2, 4, 8, 10, 12, 16)


def run(matrix, right, every=False, known=()):
    """The points that are tried, in order; `right` says of each whether it is."""
    outcomes, tried = dict(known), []
    while (point := search.next_point(matrix, outcomes, every)) is not None:
        assert point not in outcomes, "a point is paid for twice"
        outcomes[point] = right(point)
        tried.append((point.row.mode, point.max_num_seqs))
    return tried, outcomes


def as_reported(point):
    """Two Sparks: graphs above two sequences were degenerate, sixteen without graphs were right (seed 000)."""
    return point.row == NONE or point.max_num_seqs <= 2


def test_the_reported_table_is_found_with_less_than_half_of_its_points():
    matrix = Matrix((FULL, PIECEWISE, NONE), SEQUENCES)
    tried, outcomes = run(matrix, as_reported)
    assert tried == [
        ("FULL_AND_PIECEWISE", 16),
        ("FULL_AND_PIECEWISE", 8),
        ("FULL_AND_PIECEWISE", 2),
        ("FULL_AND_PIECEWISE", 4),
        # It has graphs too, so the search begins where the first row ended.
        ("PIECEWISE", 2),
        ("PIECEWISE", 4),
        ("NONE", 16),
    ]
    largest = [search.bounds(matrix, row, outcomes).right for row in matrix.rows]
    assert largest == [0, 0, 5]
    assert search.why_not_tried(matrix, Point(FULL, 12), outcomes) == "4 is not right"
    assert search.why_not_tried(matrix, Point(NONE, 4), outcomes) == "16 is right"


def test_a_second_row_of_the_same_mode_begins_where_the_first_ended():
    matrix = Matrix((FULL, Row("FULL_AND_PIECEWISE", 3, '{"method": "mtp"}')), SEQUENCES)
    tried, _outcomes = run(matrix, as_reported)
    assert tried[4:] == [("FULL_AND_PIECEWISE", 2), ("FULL_AND_PIECEWISE", 4)]


def test_every_point_is_tried_where_nothing_is_to_be_assumed():
    matrix = Matrix((FULL, NONE), (2, 4, 16))
    tried, _outcomes = run(matrix, as_reported, every=True)
    assert sorted(tried) == sorted((point.row.mode, point.max_num_seqs) for point in matrix.points())
    assert [n for _mode, n in tried] == [16, 16, 4, 4, 2, 2]


def test_a_row_that_is_not_monotone_is_told():
    matrix = Matrix((FULL,), (2, 4, 8))
    outcomes = {Point(FULL, 2): False, Point(FULL, 8): True, Point(FULL, 4): True}
    assert search.not_monotone(matrix, FULL, outcomes) == [2]
    assert search.next_point(matrix, outcomes) is None
    assert search.not_monotone(matrix, FULL, {Point(FULL, 8): False, Point(FULL, 2): True}) == []


rows = st.lists(
    st.tuples(st.sampled_from(["FULL", "PIECEWISE", "NONE"]), st.integers(1, 9)),
    min_size=1,
    max_size=6,
    unique=True,
).map(lambda pairs: tuple(Row(mode, k, '{"method": "mtp"}') for mode, k in pairs))


@settings(max_examples=60, deadline=None)
@given(rows, st.lists(st.integers(1, 64), min_size=1, max_size=12, unique=True), st.data())
def test_the_largest_right_point_of_each_row_is_found_within_the_promised_cost(rows, sequences, data):
    matrix = Matrix(rows, tuple(sorted(sequences)))
    ends = {row: data.draw(st.integers(-1, len(sequences) - 1)) for row in rows}

    def right(point):
        return matrix.sequences.index(point.max_num_seqs) <= ends[point.row]

    tried, outcomes = run(matrix, right)
    assert {row: search.bounds(matrix, row, outcomes).right for row in rows} == ends
    # Bisection, and at most the look at the top and at where another row ended besides.
    assert len(tried) <= len(rows) * (math.ceil(math.log2(len(sequences) + 1)) + 2)


@settings(max_examples=60, deadline=None)
@given(rows, st.lists(st.integers(1, 64), min_size=1, max_size=12, unique=True), st.data())
def test_the_cost_that_is_told_before_holds_where_rows_end_alike(rows, sequences, data):
    matrix = Matrix(rows, tuple(sorted(sequences)))
    end = data.draw(st.integers(-1, len(sequences) - 1))
    fewest, most = search.left(matrix, {})
    tried, outcomes = run(matrix, lambda point: matrix.sequences.index(point.max_num_seqs) <= end)
    assert fewest <= len(tried) <= most
    assert search.left(matrix, outcomes) == (0, 0)


def test_a_run_that_was_cut_off_goes_on_with_what_is_left():
    matrix = Matrix((FULL, PIECEWISE, NONE), SEQUENCES)
    tried, outcomes = run(matrix, as_reported)
    for done in range(len(tried)):
        half = dict(list(outcomes.items())[:done])
        assert run(matrix, as_reported, known=half.items())[0] == tried[done:]


@pytest.mark.parametrize(
    ("left", "measured", "expected", "told"),
    [
        ((0, 0), 60, 60, "nothing, every point is known"),
        (
            (1, 1),
            None,
            None,
            "1 point, each a restart of the group; how long that takes here is not known yet",
        ),
        (
            (3, 7),
            None,
            660,
            "3 to 7 points of about 11 min each (as long as the last roll-out took, and the measuring), "
            "33 min to 77 min",
        ),
        ((2, 9), 720.0, 660, "2 to 9 points of about 12 min each (as measured here), 24 min to 1 h 48 min"),
        ((4, 4), 20.0, None, "4 points of about 20 s each (as measured here), 80 s"),
    ],
)
def test_the_cost_in_words(left, measured, expected, told):
    assert search.cost(left, measured, expected) == told
