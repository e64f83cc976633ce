# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the bench: kept, read, compared with those of others, explained, and shown."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pretend_bench
import pytest
from ansible_collections.tandem.spark.plugins.plugin_utils import (
    bench_charts,
    bench_compare,
    bench_evidence,
    bench_files,
    bench_record,
    bench_report,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench")
    for at, steps in (
        ("2026-11-28T12:00:00Z", 13.0),
        ("2026-11-29T12:00:00Z", 13.6),
        ("2026-11-30T12:00:00Z", 13.4),
    ):
        bench_files.keep(str(root), pretend_bench.record(at, steps))
    result = {
        "task": "gsm8k",
        "figure": "exact_match,strict-match",
        "value": 0.91,
        "error": 0.02,
        "questions": 100,
    }
    bench_files.keep(
        str(root),
        {
            "version": 1,
            "kind": "evaluation",
            "group": "tandem",
            "at": "2026-11-30T13:00:00Z",
            "stack": {},
            "results": [result],
        },
    )
    (root / "broken.json").write_text("{")
    (root / "other.json").write_text("[1]")
    (root / "old.json").write_text(json.dumps({"kind": "bench", "version": 0, "group": "tandem"}))
    return root


@pytest.fixture(scope="module")
def written(folder):
    return bench_report.files(str(folder), "tandem", True)


class Page(HTMLParser):
    """Everything that the page would fetch, and the tags that were left open."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        wanted = {"src", "href", "xlink:href"}
        self.fetched += [value for name, value in attrs if name in wanted and not value.startswith("#")]
        if tag not in ("meta", "br", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass


def text_of(written, kind):
    (text,) = [content.decode() for path, content in written[0].items() if path.suffix == kind]
    return text


def test_the_page_is_one_file_with_its_pictures_in_it(written):
    page = text_of(written, ".html")
    parsed = Page(page)
    assert parsed.fetched == [] and parsed.open == []
    assert page.count("<svg") == 7 and "<script" not in page
    assert "&lt;b&gt;and&lt;/b&gt;" in page and "<b>and</b>" not in page  # what a model wrote stays text
    assert "does not count: 1 of 8 texts are degenerate: counts on" in page
    assert "gsm8k" in page and "3 of 4" in page and "v4-flash-main-ray" in page


def test_markdown_names_pictures_that_are_written_too(written):
    text = text_of(written, ".md")
    names = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(names) == 7 and set(names) <= {path.name for path in written[0]}
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows and all(re.sub(r"\\\|", "", row).endswith("|") for row in rows)


def test_the_same_runs_give_the_same_bytes(folder, written):
    assert bench_report.files(str(folder), "tandem", True)[0] == written[0]


def test_files_that_are_no_runs_are_left_out_and_told(written):
    assert [line.split(" ")[0] for line in written[2]] == ["broken.json", "old.json"]


def test_an_older_run_can_be_named_and_one_that_is_not_there_is_told(folder):
    _, told, _ = bench_report.files(str(folder), "tandem", False, "tandem-20261128T120000Z.json")
    assert told["record"]["at"] == "2026-11-28T12:00:00Z" and told["earlier"] == []
    with pytest.raises(bench_report.ReportError, match="tandem-20261130T120000Z.json"):
        bench_report.files(str(folder), "tandem", False, "nowhere.json")
    with pytest.raises(bench_report.ReportError, match="Run bench.yml first"):
        bench_report.files(str(folder), "other", False)


def test_without_matplotlib_it_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setattr(bench_charts, "matplotlib", None)
    with pytest.raises(bench_charts.ChartsError, match="pip install"):
        bench_report.files(str(folder), "tandem", True)
    pages, _, _ = bench_report.files(str(folder), "tandem", False)
    assert b"<svg" not in b"".join(pages.values())


def test_a_run_of_which_nothing_counts_can_be_shown(tmp_path):
    void = pretend_bench.record()
    for row in void["summaries"]:
        row.update(void="all requests failed", per_position=None, figures=dict.fromkeys(row["figures"]))
    void.update(telemetry={}, draws=[], ended="connection refused", quality=[])
    bench_files.keep(str(tmp_path), void)
    page = text_of(bench_report.files(str(tmp_path), "tandem", True), ".html")
    assert "The run ended early: connection refused" in page and "None were drawn" in page


def test_the_terminal_page_has_ranges():
    page = bench_record.page(pretend_bench.record()["summaries"])
    assert re.search(r"^code, reasoning off +\d+\.\d–\d+\.\d ", page, re.MULTILINE)
    assert "8 streams: void, 1 of 8 texts" in page


# -- beside others -------------------------------------------------------------------------------------------


def reference(**own):
    return {"series": "x", "concurrency": 1, "method": "m", "source": "s", **own}


def row(name="prose, reasoning off", kind="series", **own):
    span = {"low": 40.0, "median": 42.0, "high": 44.0}
    figures = {"tokens_per_s": span, "ttft_s": {"low": 3.5, "median": 3.6, "high": 3.7}}
    own = {"concurrency": 1, "prompt_tokens": None, "k": 5, "max_num_seqs": 2, "figures": figures, **own}
    return {"name": name, "kind": kind, **own}


@pytest.mark.parametrize(
    ("own", "theirs", "fitting"),
    [
        (row(), reference(series="prose, reasoning off", tokens_per_s=[43]), True),
        (row(), reference(series="code, reasoning off", tokens_per_s=[43]), False),
        (
            row("prefill of 6K", "prefill", prompt_tokens=6000),
            reference(prompt_tokens=[6000], prefill_s=[3.6]),
            True,
        ),
        (
            row("prefill of 6K", "prefill", prompt_tokens=6000),
            reference(prompt_tokens=[24000], prefill_s=[13]),
            False,
        ),
        (
            row("context of 8K", "context", prompt_tokens=8000),
            reference(prompt_tokens=[4000, 131000], tokens_per_s=[73, 78]),
            True,
        ),
        (
            row("context of 2K", "context", prompt_tokens=2000),
            reference(prompt_tokens=[4000, 131000], tokens_per_s=[73, 78]),
            False,
        ),
        (row("4 streams", "concurrency", concurrency=4), reference(concurrency=4, tokens_per_s=[62.8]), True),
        (
            row("4 streams", "concurrency", concurrency=4),
            reference(concurrency=8, tokens_per_s=[62.8]),
            False,
        ),
        (row("1 stream", "concurrency"), reference(tokens_per_s=[72], acceptance=[0.9]), False),
    ],
)
def test_only_what_is_alike_is_compared(own, theirs, fitting):
    assert bool(bench_compare.against_references([own], [theirs])) is fitting


@pytest.mark.parametrize(
    ("theirs", "ratio", "slower"),
    [
        ([43], 0.977, False),
        ([84], 0.5, True),
        ([30, 50], 1.05, False),
        ([45], 0.933, False),
        ([21], 2.0, False),
    ],
)
def test_slower_is_what_no_draw_reaches(theirs, ratio, slower):
    (found,) = bench_compare.against_references(
        [row()], [reference(series=row()["name"], tokens_per_s=theirs)]
    )
    assert (found["ratio"], found["slower"]) == (ratio, slower)


def test_of_times_the_lower_is_the_better():
    own = row("prefill of 6K", "prefill", prompt_tokens=6000)
    (found,) = [
        each
        for each in bench_compare.against_references(
            [own], [reference(prompt_tokens=[6000], prefill_s=[1.8])]
        )
        if each["figure"] == "ttft_s"
    ]
    assert (found["ratio"], found["slower"]) == (0.5, True)


def test_what_is_known_to_differ_is_told():
    own = row(k=7, reasoning_effort="low")
    theirs = reference(k=5, max_num_seqs=16, reasoning_effort="low")
    assert bench_compare.differences(own, theirs) == ["k 7 instead of 5", "max_num_seqs 2 instead of 16"]


def test_the_published_figures_are_those_of_the_profile():
    found = bench_record.reference_of("v4-flash-next", None)
    assert found["compared_with"] == "v4-flash-main-ray" and found["reference"][0]["tokens_per_s"] == [72.77]
    assert bench_record.reference_of("nobody", None)["reference"] == []
    assert bench_record.reference_of(None, None)["reference"] == []


# -- why -----------------------------------------------------------------------------------------------------


def why(record, comparisons=()):
    return bench_evidence.evidence(record, comparisons)


def told(**own):
    """A run whose head's telemetry is as given."""
    record = pretend_bench.record()
    record["telemetry"]["spark-a"]["summary"] = {**record["telemetry"]["spark-a"]["summary"], **own}
    return record


def span(value):
    return {"low": value, "median": value, "high": value}


def finding(name, severity="error", evidence="seen"):
    return {
        "id": name,
        "severity": severity,
        "hosts": ["spark-b"],
        "summary": "s",
        "evidence": evidence,
        "remedy": "r",
    }


PORT = {"sent_gbps": 1.0, "received_gbps": 1.0, "errors": {}}


@pytest.mark.parametrize(
    ("record", "subject", "said"),
    [
        (told(clock_mhz=span(799)), "clocks", "799 MHz"),
        (told(clock_mhz=span(1300)), "clocks", "1300 MHz"),
        (told(reasons={"hw_thermal_slowdown": 0.4}), "clocks", "hw_thermal_slowdown in 40% of the samples"),
        (told(power_w=span(19)), "power", "busy at 19 W"),
        (told(pages_in=90000), "memory and page cache", "90000 pages"),
        (told(hcas={"a/1": {**PORT, "errors": {"out_of_sequence": 7}}}), "rails", "out_of_sequence by 7"),
        (told(hcas={"a/1": PORT, "b/1": {**PORT, "sent_gbps": 0.0}}), "rails", "b/1"),
        (
            told(hcas={"a/1": {**PORT, "sent_gbps": 0.0}}, netdevs={"e": {"sent_gbps": 1.1}}),
            "transport",
            "sockets",
        ),
        (
            told(engine={"preemptions": 3, "kv_cache_usage": span(0.5)}),
            "KV pressure",
            "3 sequences were preempted",
        ),
        (told(engine={"preemptions": 0, "kv_cache_usage": span(0.99)}), "KV pressure", "full to 99%"),
        (pretend_bench.record(findings=[finding("nccl.transport.socket")]), "transport", "doctor: s (seen)"),
        (pretend_bench.record(findings=[finding("fabric.mtu.small", "warning")]), "MTU", "doctor"),
        (pretend_bench.record(findings=[finding("fabric.rail.down")]), "rails", "doctor"),
        (pretend_bench.record(findings=[finding("driver.kernel.kho_cma")]), "driver", "doctor"),
        (
            pretend_bench.record(findings=[finding("memory.host.exhausted")]),
            "memory and page cache",
            "doctor",
        ),
    ],
)
def test_what_was_seen_speaks_for_its_cause(record, subject, said):
    found = [each for each in why(record).found if each.subject == subject]
    assert any(said in each.what for each in found), why(record).found


def test_a_healthy_run_has_little_to_blame_and_says_what_was_looked_at():
    answer = why(pretend_bench.record())
    assert [each.subject for each in answer.found] == ["queue"]  # two sequences at once, and sixteen streams
    assert {"transport", "rails", "clocks", "power", "KV pressure", "driver", "MTU"} <= set(answer.clear)


def test_the_strongest_comes_first():
    record = told(clock_mhz=span(650), pages_in=5)
    record["findings"] = [finding("fabric.rail.half_port", "warning"), finding("host.something", "error")]
    weights = [each.weight for each in why(record).found]
    assert weights == sorted(weights, reverse=True) and why(record).found[0].subject == "clocks"
    assert "host.something" not in str(why(record).found)


def test_a_rate_is_taken_apart_into_steps_and_tokens_for_each():
    record = pretend_bench.record(steps_per_s=6.0)
    rows = [row for row in record["summaries"] if row["kind"] == "series"]
    compared = bench_compare.against_references(rows, record["profile"]["reference"])
    found = why(record, compared).found
    assert any(re.match(r"Each verify step takes longer: (5\.[89]|6\.[01])", each.what) for each in found)
    assert not any(each.subject == "acceptance" for each in found)
    for each in compared:
        if each["figure"] == "mean_accepted_length":
            each.update(ratio=0.6, ours=span(2.0), theirs=span(3.3))
    assert any(each.subject == "acceptance" and "60%" in each.what for each in why(record, compared).found)


def test_what_could_not_be_seen_is_unknown_and_not_clear():
    record = pretend_bench.record(telemetry={}, looked_at=["spark-a"])
    answer = why(record)
    assert {"clocks", "power", "transport", "rails", "KV pressure", "driver", "MTU"} <= set(answer.unknown)
    assert not set(answer.unknown) & set(answer.clear)
    assert "spark-b" in answer.unknown["driver"]


# -- the files -----------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(bench_files.BenchFilesError, match="tandem_bench_folder"):
        bench_files.keep(str(tmp_path / "file"), pretend_bench.record())


def test_a_group_gives_the_file_its_name(tmp_path):
    path = bench_files.keep(str(tmp_path), pretend_bench.record(group="a/../b"))
    assert path.parent == tmp_path and path.name == "a_.._b-20261130T120000Z.json"
