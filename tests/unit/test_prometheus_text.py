# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text format of Prometheus, as it is and as it is not."""

from __future__ import annotations

import math

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.prometheus_text import PrometheusTextError, parse


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("x 3", {}, 3.0),
        ("x 3.0", {}, 3.0),
        ("x\t3.", {}, 3.0),
        ("x .5", {}, 0.5),
        ("x -1.5e-3", {}, -0.0015),
        ("x 1.79597781778e+09", {}, 1795977817.78),
        ("x{} 3", {}, 3.0),
        ('x{a="b"} 3', {"a": "b"}, 3.0),
        ('x{a="b"}3', {"a": "b"}, 3.0),
        ('x {a="b",} 3', {"a": "b"}, 3.0),
        ('x{ a = "b" , c = "" } 3', {"a": "b", "c": ""}, 3.0),
        (
            r'x{a="say \"hi\"",b="C:\\new",c="two\nlines"} 3',
            {"a": 'say "hi"', "b": "C:\\new", "c": "two\nlines"},
            3.0,
        ),
        ('x{a="}, {b=\\"1\\"} # 9"} 3', {"a": '}, {b="1"} # 9'}, 3.0),
        ('x{a="größe \u2028 x"} 3', {"a": "größe \u2028 x"}, 3.0),
        ('x{a="b"} 3 1795977817780', {"a": "b"}, 3.0),
        ('x{le="1.0"} 3 # {trace_id="ab c"} 0.67 1795977817.1', {"le": "1.0"}, 3.0),
        ("x +Inf", {}, math.inf),
        ("x -Inf", {}, -math.inf),
        ("  x 3  \r", {}, 3.0),
    ],
)
def test_a_sample(line, labels, value):
    (sample,) = parse(f"# HELP x y\n# TYPE x counter\n\n{line}\n# EOF\n").samples("x")
    assert (sample.labels, sample.value) == (labels, value)


def test_not_a_number():
    page = parse("x NaN\ny +Inf\n")
    assert math.isnan(page.samples("x")[0].value)
    assert (page.total("x"), page.total("y")) == (None, None)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "x",
            "3",
            "x three",
            "x{ 3",
            "x{a} 3",
            "x{a=b} 3",
            'x{a="b} 3',
            'x{a="b" c="d"} 3',
            "x 3 soon",
            "x3.0e",
        ),
        *(
            "<html>",
            "HTTP/1.1 200 OK",
            "x 0x10",
            "x 1_000",
            '{"error": "Unauthorized"}',
            "größe 3",
            "x 3 # "[:4] + "4 5",
        ),
    ],
)
def test_what_is_no_sample(line):
    with pytest.raises(PrometheusTextError, match="line 2 is no metric"):
        parse(f"y 1\n{line}\n")


def test_totals_are_sums_over_labels_of_exactly_one_name():
    page = parse(
        'x_total{engine="0",p="0"} 3\nx_total{engine="1",p="0"} 4\nx_total{engine="1",p="1"} 5\n'
        'x_created{engine="0"} 1.7e9\nx 100\nx_total_bytes 100\n'
    )
    assert page.total("x_total") == 12
    assert page.by_label("x_total", "p") == {"0": 7, "1": 5}
    assert (page.total("y_total"), page.by_label("y_total", "p")) == (None, {})


def test_a_long_line_is_read_in_no_time():
    with pytest.raises(PrometheusTextError):
        parse("x{" + 'a="\\\\",' * 50_000 + " 3")
    with pytest.raises(PrometheusTextError):
        parse("x" + " " * 200_000 + "{")
