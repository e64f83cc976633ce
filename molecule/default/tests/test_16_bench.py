# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bench.yml on a pair that serves: what the real engine counted, what does not count, the page, an evaluation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from urllib.parse import quote

import pytest

from conftest import API, LAB_PROGRAM, NODES, PROJECT, ask, lab, play, shell, wait_for

HEAD = NODES[0]
PROMETHEUS = PROJECT / "build" / "tools" / "usr" / "bin" / "prometheus"
LAB_TASKS = PROJECT / "molecule" / "lab" / "evaluations"
SIZES = {
    "tandem_bench_series": ["prose, reasoning off", "prose, reasoning on", "code, reasoning off"],
    "tandem_bench_concurrency": [1, 4],
    "tandem_bench_prefill": [600],
    "tandem_bench_context": [1500, 131000],
    "tandem_bench_draws": 2,
    "tandem_bench_long_draws": 1,
    "tandem_bench_max_tokens": 64,
    "tandem_bench_concurrency_max_tokens": 32,
    "tandem_bench_context_max_tokens": 48,
    "tandem_bench_total_timeout_s": 1200,
}


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


def bench(folder, **more):
    return play(
        "playbooks/bench.yml", "-e", json.dumps({**SIZES, "tandem_bench_folder": str(folder), **more})
    )


def records(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("tandem-*Z.json"))]


@pytest.fixture(scope="module")
def record(folder):
    units = {node: shell(node, "systemctl show -p InvocationID tandem-head tandem-worker") for node in NODES}
    run = bench(folder)
    assert run.code == 0, run.text
    assert "prose, reasoning off, draw 2 of 2" in run.text  # told while it ran
    assert units == {
        node: shell(node, "systemctl show -p InvocationID tandem-head tandem-worker") for node in NODES
    }
    print("\n" + run.text[run.text.index("row  ") :][:2000])
    (kept,) = records(folder)
    return kept


def rows(record):
    return {row["name"]: row for row in record["summaries"]}


def test_tokens_are_those_that_the_engine_counted(record):
    for drawn in record["draws"]:
        if drawn["void"] is None:
            told = sum(stream["completion_tokens"] for stream in drawn["streams"])
            counted = drawn["counted"]["speculation"]["generation_tokens"]
            # A probe of the guard may fall into a draw.
            assert told <= counted <= told * 1.05 + 32, drawn["row"]
            assert drawn["counted"]["cached_tokens"] <= 32
    assert any(
        sum(stream["completion_tokens"] for stream in drawn["streams"])
        == drawn["counted"]["speculation"]["generation_tokens"]
        for drawn in record["draws"]
        if drawn["void"] is None
    )


def test_fixed_lengths_are_kept_and_every_request_succeeded(record):
    four = rows(record)["4 streams"]
    assert four["void"] is None and four["success_rate"] == 1 and four["k"] == 5
    for drawn in record["draws"]:
        if drawn["row"] == "4 streams":
            assert {stream["completion_tokens"] for stream in drawn["streams"]} == {32}
    assert rows(record)["prefill of 600"]["figures"]["prompt_tokens"]["median"] == pytest.approx(600, rel=0.2)


def test_steps_times_length_is_the_rate(record):
    row = rows(record)["prose, reasoning off"]
    figures = row["figures"]
    assert row["void"] is None and figures["mean_accepted_length"]["low"] >= 1
    product = figures["verify_steps_per_s"]["median"] * figures["mean_accepted_length"]["median"]
    assert product == pytest.approx(figures["tokens_per_s"]["median"], rel=0.2)


def test_a_loop_is_fast_and_does_not_count(record):
    """The lab's checkpoint answers a wish for code with a loop, which its draft guesses without a fault."""
    assert "degenerate" in rows(record)["code, reasoning off"]["void"]


def test_what_does_not_fit_is_not_asked(record):
    assert rows(record)["context of 131K"]["void"] == "not asked: the server takes 4096 tokens at most"


def test_the_nodes_were_watched_meanwhile(record):
    for node in NODES:
        summary = record["telemetry"][node]["summary"]
        assert summary["samples"] > 5 and summary["available_gib"]["low"] > 0
    assert record["telemetry"][HEAD]["summary"]["engine"]["generation_tokens"] > 300
    assert shell(HEAD, "ls /run/tandem-telemetry.stop", check=False) == ""


def test_the_questions_of_five_classes_were_asked(record):
    assert [each["name"] for each in record["quality"]] == [
        "math",
        "code",
        "factual",
        "reasoning",
        "instruction",
    ]


def test_the_report_says_it_all_in_one_file(record, folder):
    run = play("playbooks/report.yml", "-e", json.dumps({"tandem_bench_folder": str(folder)}))
    assert run.code == 0, run.text
    (page,) = folder.glob("*.html")
    text = page.read_text()
    assert text.count("<svg") >= 4 and "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text).replace(
        API, ""
    )
    assert "does not count" in text and "no RDMA port" in text
    again = play("playbooks/report.yml", "-e", json.dumps({"tandem_bench_folder": str(folder)}))
    assert again.code == 0 and set(again.changed.values()) == {0}, again.text


def test_in_check_mode_nothing_is_asked(folder, record):
    run = play("playbooks/bench.yml", "--check", "-e", json.dumps({"tandem_bench_folder": str(folder)}))
    assert run.code == 0 and len(records(folder)) == 1, run.text


def test_a_bench_of_a_pair_that_restarts_goes_on_afterwards(folder, record):
    """The time is over after one row; the same command asks the rest."""
    small = {
        "tandem_bench_series": ["prose, reasoning off", "prose, reasoning on"],
        "tandem_bench_concurrency": [],
        "tandem_bench_prefill": [],
        "tandem_bench_context": [],
        "tandem_bench_quality": False,
    }
    cut_off = bench(folder, **small, tandem_bench_total_timeout_s=12)
    assert cut_off.code != 0 and "goes on where it ended" in cut_off.text, cut_off.text
    on = bench(folder, **small)
    assert on.code == 0 and "draws are there" in on.text, on.text
    assert all(row["void"] is None for row in records(folder)[-1]["summaries"])


def test_every_metric_of_rules_and_dashboard_is_on_the_real_pages(tmp_path):
    run = play("playbooks/telemetry.yml", "-e", json.dumps({"tandem_telemetry_folder": str(tmp_path)}))
    assert run.code == 0, run.text
    wanted = set()
    for name in ("prometheus-rules.yml", "grafana-dashboard.json"):
        wanted |= set(re.findall(r"\b(?:vllm:|tandem_guard_)[a-z_0-9]+", (tmp_path / name).read_text()))
    pages = [
        lab("client", "--", "curl", "-s", "-m", "10", f"{address}/metrics")
        for address in (API, API.replace(":8888", ":25002"))
    ]
    there = {
        re.split(r"[{ ]", line)[0] for page in pages for line in page.splitlines() if not line.startswith("#")
    }
    assert wanted and wanted <= there, wanted - there
    again = play("playbooks/telemetry.yml", "-e", json.dumps({"tandem_telemetry_folder": str(tmp_path)}))
    assert set(again.changed.values()) == {0}


def test_a_real_prometheus_scrapes_the_engine_and_the_guards(tmp_path):
    run = play("playbooks/telemetry.yml", "-e", json.dumps({"tandem_telemetry_folder": str(tmp_path)}))
    assert run.code == 0, run.text
    rules = f"global: {{evaluation_interval: 2s}}\nrule_files: [{tmp_path}/prometheus-rules.yml]\n"
    scrape = (
        (tmp_path / "prometheus-scrape.yml")
        .read_text()
        .replace("scrape_interval: 10s", "scrape_interval: 2s")
    )
    (tmp_path / "prometheus.yml").write_text(rules + scrape)
    words = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    words += ["--web.listen-address=127.0.0.1:19091"]
    command = [sys.executable, str(LAB_PROGRAM), "client", "--", str(PROMETHEUS), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            asked = partial(queried, 'sum by (tandem_job) (up{tandem_group="tandem"})')
            up = wait_for("targets that are up", lambda: (found := asked()) and len(found) == 2 and found, 60)
            assert sorted(up.values()) == [1.0, 2.0]  # one engine, a guard on each rank
            assert ask() and "391" in ask()
            wait_for("tokens that were counted", lambda: queried("sum(vllm:generation_tokens_total) > 0"), 30)
            assert queried("tandem_guard_healthy == 1")
            assert not queried('ALERTS{alertstate="firing",severity="critical"}')
        finally:
            lab("client", "--", "pkill", "-f", f"storage.tsdb.path={tmp_path}", check=False)
            process.terminate()


def queried(expression):
    """{labels: value} of an expression, asked of the Prometheus in the network of the nodes' clients."""
    url = f"http://127.0.0.1:19091/api/v1/query?query={quote(expression)}"
    text = lab("client", "--", "curl", "-s", "-m", "5", url, check=False)
    try:
        found = json.loads(text)["data"]["result"]
    except (ValueError, LookupError, TypeError):
        return {}
    return {json.dumps(each["metric"], sort_keys=True): float(each["value"][1]) for each in found}


def test_lm_eval_asks_a_small_task_of_ones_own(folder):
    """Products, which the lab's checkpoint knows: it answers all of them."""
    run = play(
        "playbooks/evaluate.yml",
        "-e",
        json.dumps(
            {
                "tandem_bench_folder": str(folder),
                "tandem_evaluate_tasks": ["tandem_products"],
                "tandem_evaluate_task_folder": str(LAB_TASKS),
                "tandem_evaluate_limit": 8,
                "tandem_evaluate_max_tokens": 64,
            }
        ),
    )
    assert run.code == 0, run.text
    (kept,) = [json.loads(path.read_text()) for path in folder.glob("*-evaluation.json")]
    (line,) = [each for each in kept["results"] if each["figure"].startswith("exact_match")]
    assert (line["value"], line["questions"]) == (1.0, 8)
