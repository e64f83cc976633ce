# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which point is tried next, so that few have to be: each costs a restart of the group (controller only).

Along a row a point that is right makes every smaller one right, and one that is wrong every larger one wrong. So a row
is searched for its largest point that is right: from the top at first, then from where an earlier row ended that has
graphs, or none, as this one has: what breaks is their capture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.tandem.spark.plugins.plugin_utils.tune_points import GRAPHS, Matrix, Point, Row

# Whether a point is right. One of which nothing could be said counts as wrong until it is tried anew.
Outcomes = Mapping[Point, bool]


@dataclass(frozen=True)
class Bounds:
    """Of a row, as places in the rising sequences: the largest that is right (-1: none), the next that is wrong."""

    right: int
    wrong: int

    @property
    def found(self) -> bool:
        return self.wrong - self.right <= 1


def bounds(matrix: Matrix, row: Row, outcomes: Outcomes) -> Bounds:
    tried = {place: outcomes.get(Point(row, n)) for place, n in enumerate(matrix.sequences)}
    right = max((place for place, good in tried.items() if good), default=-1)
    wrong = (place for place, good in tried.items() if good is False and place > right)
    return Bounds(right, min(wrong, default=len(matrix.sequences)))


def not_monotone(matrix: Matrix, row: Row, outcomes: Outcomes) -> list[int]:
    """The sequences that are wrong although a larger number of them is right: the search assumes there are none."""
    right = bounds(matrix, row, outcomes).right
    return [n for n in matrix.sequences[: max(right, 0)] if outcomes.get(Point(row, n)) is False]


def next_point(matrix: Matrix, outcomes: Outcomes, every: bool = False) -> Point | None:
    """The next point; None when nothing is left to be known. every: search nothing, try them all."""
    if every:
        largest_first = sorted(matrix.points(), key=lambda point: -point.max_num_seqs)
        return next((point for point in largest_first if point not in outcomes), None)
    expected: dict[bool, int] = {}
    for row in matrix.rows:
        known = bounds(matrix, row, outcomes)
        if not known.found:
            place = _probe(known, expected.get(row.mode in GRAPHS), len(matrix.sequences))
            return Point(row, matrix.sequences[place])
        expected[row.mode in GRAPHS] = known.right
    return None


def _probe(known: Bounds, expected: int | None, count: int) -> int:
    """A place between the bounds. expected: where an earlier row ended that is like this one."""
    if expected is not None:
        for place in (expected, expected + 1):
            if known.right < place < known.wrong:
                return place
    if known == Bounds(-1, count):
        return count - 1
    return (known.right + known.wrong) // 2


def left(matrix: Matrix, outcomes: Outcomes, every: bool = False) -> tuple[int, int]:
    """(the fewest, the most) points that are still to be tried, if all rows end at the same place."""
    places = range(-1, len(matrix.sequences))
    counts = [_count(matrix, outcomes, every, lambda place, end=end: place <= end) for end in places]
    return min(counts), max(counts)


def _count(matrix: Matrix, outcomes: Outcomes, every: bool, right: Callable[[int], bool]) -> int:
    known, count = dict(outcomes), 0
    while (point := next_point(matrix, known, every)) is not None:
        known[point] = right(matrix.sequences.index(point.max_num_seqs))
        count += 1
    return count


def why_not_tried(matrix: Matrix, point: Point, outcomes: Outcomes) -> str:
    """What made a point needless, or that its turn has not come."""
    place = matrix.sequences.index(point.max_num_seqs)
    known = bounds(matrix, point.row, outcomes)
    if place <= known.right:
        return f"{matrix.sequences[known.right]} is right"
    if place >= known.wrong:
        return f"{matrix.sequences[known.wrong]} is not right"
    return "its turn has not come"


def cost(left: tuple[int, int], measured_s: float | None, expected_s: float | None) -> str:
    """What is left in words. measured_s: seconds that a point took here; expected_s: what the last roll-out took."""
    fewest, most = left
    if not most:
        return "nothing, every point is known"
    points = f"{most} point{'' if most == 1 else 's'}" if fewest == most else f"{fewest} to {most} points"
    each = measured_s or expected_s
    if not each:
        return f"{points}, each a restart of the group; how long that takes here is not known yet"
    by = "as measured here" if measured_s else "as long as the last roll-out took, and the measuring"
    times = [_duration(count * each) for count in dict.fromkeys((fewest, most))]
    return f"{points} of about {_duration(each)} each ({by}), {' to '.join(times)}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
