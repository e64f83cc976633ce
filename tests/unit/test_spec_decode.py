# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of speculation: sums, ratios, the difference of two readings, and a start in between."""

from __future__ import annotations

import json

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import (
    EngineMetricsError,
    Progress,
    fetch,
    metrics_url,
    progress_of,
)
from ansible_collections.tandem.spark.plugins.module_utils.prometheus_text import parse
from ansible_collections.tandem.spark.plugins.module_utils.spec_decode import counters_of, earlier, report

LABELS = 'engine="{engine}",model_name="deepseek-v4-flash"'


def page(drafts=None, per_position=(), generated=None, engine=0, created=None, started=None) -> str:
    """What vLLM prints, by the names of 0.26 to 0.33."""
    labels = LABELS.format(engine=engine)
    lines = ["# HELP process_start_time_seconds Start time", "# TYPE process_start_time_seconds gauge"]
    if started is not None:
        lines.append(f"process_start_time_seconds {started:e}")
    counts = {}
    if drafts is not None:
        counts = {
            "spec_decode_num_drafts": drafts,
            "spec_decode_num_draft_tokens": drafts * len(per_position),
            "spec_decode_num_accepted_tokens": sum(per_position),
        }
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{place}"}} {count}.0'
            for place, count in enumerate(per_position)
        ]
    if generated is not None:
        counts["generation_tokens"] = generated
    for name, count in counts.items():
        lines.append(f"vllm:{name}_total{{{labels}}} {count}.0")
        if created is not None:
            lines.append(f"vllm:{name}_created{{{labels}}} {created:e}")
    return "\n".join(lines) + "\n"


def read(text, since=None):
    result, findings = report(counters_of(parse(text)), since and earlier(since), "The page")
    return result, [found.id for found in findings]


def test_the_figures_of_one_reading():
    result, findings = read(page(200, (160, 120, 20, 2), 502, created=1.7e9))
    assert {key: value for key, value in result.items() if key != "counters"} == {
        "drafts": 200,
        "draft_tokens": 800,
        "accepted_tokens": 302,
        "acceptance": 0.3775,
        "mean_accepted_length": 2.51,
        "per_position": [160, 120, 20, 2],
        "generation_tokens": 502,
        "reset": False,
    }
    assert findings == []


def test_engines_are_summed_and_positions_are_put_in_order():
    text = page(10, (5,) * 12, 70) + page(30, (20, 10), 60, engine=1)
    result, _ = read("\n".join(reversed(text.splitlines())))
    assert (result["drafts"], result["draft_tokens"], result["generation_tokens"]) == (40, 180, 130)
    assert result["per_position"] == [25, 15, *[5] * 10]


FIGURES = ("drafts", "draft_tokens", "accepted_tokens", "acceptance", "mean_accepted_length", "per_position")


@pytest.mark.parametrize(
    ("text", "figures", "findings"),
    [
        (page(generated=581), (None,) * 6, ["speculation.off"]),
        ("node_load1 0.5\n", (None,) * 6, ["speculation.unknown"]),
        ("", (None,) * 6, ["speculation.unknown"]),
        (page(0, (0, 0), 0), (0, 0, 0, None, None, [0, 0]), []),
        (page(0, (0, 0), 44), (0, 0, 0, None, None, [0, 0]), ["speculation.idle"]),
        ("vllm:spec_decode_num_drafts_total NaN\n", (None,) * 6, ["speculation.unknown"]),
        ("vllm:spec_decode_num_drafts_total +Inf\n", (None,) * 6, ["speculation.unknown"]),
        (
            "vllm:spec_decode_num_draft_tokens_total 1.2e+03\nvllm:spec_decode_num_accepted_tokens_total 3e2\n",
            (None, 1200, 300, 0.25, None, None),
            [],
        ),
        (
            'vllm:spec_decode_num_drafts_total 7\nvllm:spec_decode_num_accepted_tokens_per_pos_total{position="x"} 1\n'
            'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="99999999999"} 1\n',
            (7, None, None, None, None, None),
            [],
        ),
        (page(100, (60, 20, 0), 200), (100, 300, 80, 0.2667, 1.8, [60, 20, 0]), ["speculation.tail"]),
        (page(99, (60, 20, 0), 200), (99, 297, 80, 0.2694, 1.8081, [60, 20, 0]), []),
        (page(100, (100, 95), 300), (100, 200, 195, 0.975, 2.95, [100, 95]), ["speculation.nearly_all"]),
    ],
)
def test_what_is_not_there_is_null_and_said(text, figures, findings):
    result, found = read(text)
    assert tuple(result[key] for key in FIGURES) == figures
    assert found == findings


FIRST = page(200, (160, 120), 500, started=1.795e9)


@pytest.mark.parametrize(
    ("later", "drafts", "per_position", "generated", "reset"),
    [
        (page(260, (200, 130), 600, started=1.795e9), 60, [40, 10], 100, False),
        (FIRST, 0, [0, 0], 0, False),
        (page(260, (200, 130), 600), 60, [40, 10], 100, False),
        (page(260, (200, 130), 600, started=1.796e9), 260, [200, 130], 600, True),
        (page(20, (12, 8), 40, started=1.795e9), 20, [12, 8], 40, True),
        (page(260, (200, 110), 600), 260, [200, 110], 600, True),
        (page(260, (200,), 600), 260, [200], 600, True),
        (page(260, (200, 130), 400), 260, [200, 130], 400, True),
        (page(generated=600), None, None, 600, True),
    ],
)
def test_the_difference_to_an_earlier_reading(later, drafts, per_position, generated, reset):
    first, _ = read(FIRST)
    result, findings = read(later, json.loads(json.dumps(first)))
    assert (result["drafts"], result["per_position"], result["generation_tokens"]) == (
        drafts,
        per_position,
        generated,
    )
    assert result["reset"] is reset is ("speculation.reset" in findings)


def test_readings_can_be_chained():
    first, _ = read(FIRST)
    second, _ = read(page(260, (200, 130), 600, started=1.795e9), first)
    third, _ = read(page(270, (205, 135), 620, started=1.795e9), second)
    assert (third["drafts"], third["accepted_tokens"], third["reset"]) == (10, 10, False)


def test_without_the_start_of_the_process_the_counters_tell_their_age():
    first, _ = read(page(200, (160,), 500, created=1.7863175e9))
    assert read(page(260, (200,), 600, created=1.7863175e9), first)[0]["reset"] is False
    assert read(page(260, (200,), 600, created=1.7863999e9), first)[0]["reset"] is True


def test_an_idle_draft_is_seen_in_the_difference():
    first, _ = read(FIRST)
    result, findings = read(page(200, (160, 120), 700, started=1.795e9), first)
    assert (result["acceptance"], result["mean_accepted_length"]) == (None, None)
    assert findings == ["speculation.idle"]


@pytest.mark.parametrize(
    "since", [{"a": 1}, {"counters": 3}, {"drafts": "many"}, {"drafts": 3, "per_position": 4}]
)
def test_what_is_no_earlier_result(since):
    with pytest.raises(ValueError, match="since h.* whole earlier result"):
        earlier(since)


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/metrics"])
def test_the_url_may_be_given_in_every_way(url):
    assert metrics_url(url) == "http://h:1/metrics"


def test_the_page_is_fetched():
    with s.ChatServer(lambda _request, _stop: s.response(FIRST.encode(), kind="text/plain")) as server:
        assert progress_of(fetch(f"{server.url}/v1", timeout=30)) == Progress(generation_tokens=500.0)
    assert server.headers[0].startswith(b"GET /metrics HTTP/1.1")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (s.response(b"", "404 Not Found"), "HTTP 404 Not Found"),
        (s.response(b"<html>", kind="text/html"), "line 1 is no metric"),
        (s.response(b"x 1\n" * 5_000_000), "more than 16777216 bytes"),
        (s.response(b"x 1\n", size=100), "cut in the middle"),
        (b"", "RemoteDisconnected"),
    ],
)
def test_a_page_that_cannot_be_read(answer, said):
    with s.ChatServer(lambda _request, _stop: answer) as server:
        with pytest.raises(EngineMetricsError, match=said):
            fetch(server.url, timeout=30)
