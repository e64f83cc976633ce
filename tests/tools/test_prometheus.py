# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of role telemetry under promtool, and in a real Prometheus that scrapes pages as nodes have them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from ansible_collections.tandem.spark.plugins.module_utils import guard_page  # noqa: E402 - after the path to it
from bench_engine import BenchEngine  # noqa: E402 - after the path to it
from telemetry_files import render  # noqa: E402 - after the path to it
from test_telemetry_files import SNAPSHOT  # noqa: E402 - after the path to it

TOOLS = Path(__file__).parents[2] / "build" / "tools" / "usr" / "bin"
LABELS = 'tandem_group="tandem"'
# (alert, the series that raise it, and since which minute; with `healthy` in their place nothing is raised)
ALERTS = [
    ("TandemNoRightAnswer", {f"tandem_guard_healthy{{{LABELS}}}": "0x30"}),
    (
        "TandemStalled",
        {
            f"vllm:num_requests_running{{{LABELS}}}": "2x30",
            f"vllm:generation_tokens_total{{{LABELS}}}": "500x30",
            f"vllm:prompt_tokens_total{{{LABELS}}}": "900x30",
        },
    ),
    ("TandemEngineUnseen", {f'up{{{LABELS},tandem_job="engine"}}': "0x30"}),
    ("TandemGuardUnseen", {f'up{{{LABELS},tandem_job="guard"}}': "0x30"}),
    ("TandemRecoveries", {f"tandem_guard_recoveries_total{{{LABELS}}}": "0x9 1x5 4x20"}),
    ("TandemRankSilent", {f'tandem_guard_rank_age_seconds{{{LABELS},rank="1"}}': "35x30"}),
    ("TandemMemoryShort", {f'tandem_guard_rank_memory_available_gib{{{LABELS},rank="1"}}': "0.4x30"}),
    (
        "TandemDraftUseless",
        {
            f"vllm:spec_decode_num_accepted_tokens_total{{{LABELS}}}": "0+1x30",
            f"vllm:spec_decode_num_draft_tokens_total{{{LABELS}}}": "0+50x30",
        },
    ),
    ("TandemKvPressure", {f"vllm:num_preemptions_total{{{LABELS}}}": "0x9 5x20"}),
]
HEALTHY = {
    f"tandem_guard_healthy{{{LABELS}}}": "1x30",
    f"vllm:num_requests_running{{{LABELS}}}": "2x30",
    f"vllm:generation_tokens_total{{{LABELS}}}": "0+900x30",
    f"vllm:prompt_tokens_total{{{LABELS}}}": "0+900x30",
    f'up{{{LABELS},tandem_job="engine"}}': "1x30",
    f'up{{{LABELS},tandem_job="guard"}}': "1x30",
    f"tandem_guard_recoveries_total{{{LABELS}}}": "0x9 1x20",
    f'tandem_guard_rank_age_seconds{{{LABELS},rank="1"}}': "1x30",
    f'tandem_guard_rank_memory_available_gib{{{LABELS},rank="1"}}': "9x30",
    f"vllm:spec_decode_num_accepted_tokens_total{{{LABELS}}}": "0+30x30",
    f"vllm:spec_decode_num_draft_tokens_total{{{LABELS}}}": "0+50x30",
    f"vllm:num_preemptions_total{{{LABELS}}}": "3x30",
}


def promtool(*words):
    return subprocess.run([TOOLS / "promtool", *map(str, words)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "prometheus-rules.yml"
    path.write_text(render("prometheus-rules.yml.j2"))
    return path


def test_promtool_takes_rules_and_targets(rules, tmp_path):
    done = promtool("check", "rules", rules)
    assert done.returncode == 0, done.stderr
    config = tmp_path / "prometheus.yml"
    config.write_text(f"rule_files: [{rules}]\n{render('prometheus-scrape.yml.j2')}")
    done = promtool("check", "config", config)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_refuses_a_broken_rule(tmp_path):
    path = tmp_path / "broken.yml"
    path.write_text(
        render("prometheus-rules.yml.j2").replace("tandem_guard_healthy == 0", "tandem_guard_healthy ==")
    )
    assert promtool("check", "rules", path).returncode != 0


def raised(rules, folder, series):
    """Which alerts the series raise within half an hour, asked of promtool one by one."""
    found = []
    for alert, _series in ALERTS:
        test = {
            "rule_files": [str(rules)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": name, "values": values} for name, values in series.items()],
                    "promql_expr_test": [
                        {
                            "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                            "eval_time": "28m",
                            "exp_samples": [{"labels": "{}", "value": 1}],
                        }
                    ],
                }
            ],
        }
        path = folder / f"{alert}.yml"
        path.write_text(yaml.safe_dump(test))
        if promtool("test", "rules", path).returncode == 0:
            found.append(alert)
    return found


@pytest.mark.parametrize(("alert", "series"), ALERTS, ids=[alert for alert, _ in ALERTS])
def test_an_alert_is_raised_by_what_it_is_for(rules, tmp_path, alert, series):
    # A rise is seen for ten minutes only, so the preemption comes later in the half hour.
    series = {name: values.replace("0x9 5x20", "0x22 5x7") for name, values in series.items()}
    assert raised(rules, tmp_path, series) == [alert]


def test_a_healthy_group_raises_none(rules, tmp_path):
    assert raised(rules, tmp_path, HEALTHY) == []


@pytest.fixture
def pages():
    """The page of an engine that generates, and that of its guard, on one port."""
    engine = BenchEngine()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            engine.generated += 40
            engine.drafts += 10
            text = (engine.metrics() + guard_page.metrics(SNAPSHOT)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_real_prometheus_scrapes_and_computes(rules, pages, tmp_path):
    config = tmp_path / "prometheus.yml"
    scrape = render("prometheus-scrape.yml.j2", engine=pages, guard=pages, interval_s=1)
    config.write_text(f"global: {{evaluation_interval: 1s}}\nrule_files: [{rules}]\n{scrape}")
    port = 19090
    words = [
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen([TOOLS / "prometheus", *words], stdout=log, stderr=log)
    try:
        assert wait(lambda: ask(port, "tandem:mean_accepted_length:ratio5m"), 90) == pytest.approx(4.0)
        assert ask(port, 'tandem_guard_healthy{tandem_group="tandem"}') == 1
        assert ask(port, "tandem:draft_acceptance:ratio5m") == pytest.approx(0.6)
        assert ask(port, 'sum(up{tandem_job="engine"})') == 1
        assert ask(port, "sum(vllm:generated_tokens_total)") is None  # a name that is not there has no value
    finally:
        process.terminate()
        process.wait(timeout=30)
        log.close()


def ask(port, expression):
    try:
        with urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}", timeout=5
        ) as response:
            found = json.load(response)["data"]["result"]
    except OSError:
        return None
    return float(found[0]["value"][1]) if found else None


def wait(probe, limit_s):
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        found = probe()
        if found is not None and found == found:  # NaN until there are two readings
            return found
        time.sleep(1)
    raise AssertionError(f"no value within {limit_s} s")
