# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboard and the rules ask for metrics that exist."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils import guard_page
from telemetry_files import dashboard_expressions, metrics_in, render

# Of vLLM 0.26 to 0.33; the scenario `default` compares with the real page.
VLLM = {
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
}
SNAPSHOT = {
    "rank": 0,
    "state": "ready",
    "recoveries": 0,
    "failures": 0,
    "answer": {"right_age_s": 3.0, "seconds": 0.4, "tokens_per_s": 40.0},
    "ranks_seen": [{"age_s": 0.0, "unit": "active", "facts": {"memory_available_gib": 9.0}}],
}
RULES = [
    rule for group in yaml.safe_load(render("prometheus-rules.yml.j2"))["groups"] for rule in group["rules"]
]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}


def known():
    page = guard_page.metrics(SNAPSHOT)
    guard = {line.split(" ")[0].split("{")[0] for line in page.splitlines() if not line.startswith("#")}
    return VLLM | guard | RECORDED


@pytest.mark.parametrize("expression", dashboard_expressions())
def test_every_query_of_the_dashboard_asks_for_what_exists(expression):
    assert metrics_in(expression) and metrics_in(expression) <= known()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("record") or rule["alert"])
def test_every_rule_asks_for_what_exists(rule):
    assert metrics_in(rule["expr"]) <= known()
    if "alert" in rule:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_a_metric_that_is_not_there_is_seen():
    assert not metrics_in("rate(vllm:generated_tokens_total[1m])") <= known()


def test_the_targets_are_the_head_and_every_guard():
    jobs = yaml.safe_load(render("prometheus-scrape.yml.j2"))["scrape_configs"]
    assert [job["job_name"] for job in jobs] == ["tandem-engine-tandem", "tandem-guard-tandem"]
    assert jobs[0]["static_configs"][0]["labels"] == {"tandem_group": "tandem", "tandem_job": "engine"}
