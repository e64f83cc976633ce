# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of a node, and what they say together."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import telemetry
from ansible_collections.tandem.spark.plugins.module_utils.commands import Answer
from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import EngineMetricsError
from ansible_collections.tandem.spark.plugins.module_utils.prometheus_text import parse

CSV = (
    "index, pstate, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], utilization.memory [%], "
    "temperature.gpu, clocks_event_reasons.active\n"
    "0, P0, {clock} MHz, {power} W, {used} %, 0 %, 58, {mask}\n"
)
PAGE = "vllm:generation_tokens_total {tokens}\nvllm:kv_cache_usage_perc {kv}\nvllm:num_requests_running 1\n"


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def node(tmp_path):
    write(tmp_path, "proc/meminfo", "MemTotal: 127000000 kB\nMemAvailable: 10485760 kB\nCached: 2097152 kB\n")
    write(tmp_path, "proc/vmstat", "pswpin 10\n")
    port = "sys/class/infiniband/rocep1s0f0/ports/1"
    write(tmp_path, f"{port}/counters/port_xmit_data", "1000000000")
    write(tmp_path, f"{port}/counters/port_rcv_data", "0")
    write(tmp_path, f"{port}/hw_counters/out_of_sequence", "3")
    for name in ("tx_bytes", "rx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped"):
        write(tmp_path, f"sys/class/net/enp1s0f0np0/statistics/{name}", "5")
    return tmp_path


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


HEALTHY = CSV.format(clock=2411, power=39.1, used=95, mask="0x0")
COUNTED = PAGE.format(tokens=5, kv=0.4)


def world(root, clock, csv=HEALTHY, page=COUNTED):
    def fetch(_url, **_options):
        if page is None:
            raise EngineMetricsError("nobody there")
        return parse(page)

    return telemetry.World(str(root), lambda *_: Answer(0, csv), fetch, clock, clock.sleep)


def test_a_sample_holds_what_is_there(node):
    told = telemetry.sample(world(node, Clock()), "http://x")
    assert told["gpus"][0]["clock_mhz"] == 2411 and told["gpus"][0]["reasons"] == []
    assert told["memory"] == {"available_gib": 10, "cached_gib": 2, "swap_used_gib": None, "pages_in": 10}
    assert told["hcas"] == {
        "rocep1s0f0/1": {"sent_bytes": 4000000000, "received_bytes": 0, "out_of_sequence": 3}
    }
    assert told["netdevs"] == {"enp1s0f0np0": {"sent_bytes": 5, "received_bytes": 5, "errors": 20}}
    assert told["engine"]["generation_tokens"] == 5 and told["engine"]["drafts"] is None


def test_a_node_where_nothing_can_be_read_is_unknown(tmp_path):
    told = telemetry.sample(world(tmp_path, Clock(), csv="", page=None), "http://x")
    assert told["gpus"] == [] and told["hcas"] == {} and told["engine"] is None
    assert set(told["memory"].values()) == {None}
    summary = telemetry.summarise([told, told])
    assert summary["clock_mhz"] is None and summary["pages_in"] is None and summary["engine"] is None
    json.dumps(summary)


@pytest.mark.parametrize("text", ["", "minus", "-"])
def test_a_counter_that_is_no_number_is_left_out(node, text):
    write(node, "sys/class/infiniband/rocep1s0f0/ports/1/counters/port_xmit_data", text)
    assert "sent_bytes" not in telemetry.sample(world(node, Clock()))["hcas"]["rocep1s0f0/1"]


def look(at_s, sent, errors=0, used=95, clock=2400, reasons=(), tokens=0, started=1.0):
    gpu = {
        "utilization_percent": used,
        "clock_mhz": clock,
        "power_w": 39.0,
        "temperature_c": 58,
        "reasons": reasons,
    }
    engine = {
        "kv_cache_usage": 0.5,
        "running": 1,
        "waiting": 0,
        "preemptions": 0,
        "generation_tokens": tokens,
    }
    return {
        "at_s": at_s,
        "gpus": [gpu],
        "memory": {"available_gib": 9.0, "cached_gib": 1.0, "swap_used_gib": 0, "pages_in": 7},
        "hcas": {"a/1": {"sent_bytes": sent, "received_bytes": 0, "out_of_sequence": errors}},
        "netdevs": {},
        "engine": {**engine, "started": started},
    }


def test_a_summary_of_what_was_busy_and_what_rose():
    summary = telemetry.summarise(
        [
            look(0, 0, used=0, clock=208),
            look(10, 10**9, errors=2, clock=2400, tokens=100),
            look(20, 2 * 10**9, errors=2, clock=2410, reasons=("sw_thermal_slowdown",), tokens=300),
        ]
    )
    assert (summary["samples"], summary["busy_samples"], summary["seconds"]) == (3, 2, 20)
    assert summary["clock_mhz"] == {"low": 2400, "median": 2405, "high": 2410}
    assert summary["reasons"] == {"sw_thermal_slowdown": 0.5}
    assert summary["hcas"]["a/1"] == {"sent_gbps": 0.8, "received_gbps": 0, "errors": {"out_of_sequence": 2}}
    assert summary["engine"]["generation_tokens"] == 300 and summary["engine"]["restarts"] == 0


def test_counters_that_begin_anew_do_not_count_backwards():
    summary = telemetry.summarise([look(0, 10**9, tokens=500), look(10, 10**6, tokens=20, started=2.0)])
    assert summary["hcas"]["a/1"]["sent_gbps"] == 0 and summary["engine"]["generation_tokens"] == 0
    assert summary["engine"]["restarts"] == 1


def test_no_sample_at_all():
    assert telemetry.summarise([])["samples"] == 0


def test_it_watches_for_its_time_or_until_it_is_told(node, tmp_path):
    clock = Clock()
    options = {"interval_s": 2, "url": None}
    assert len(telemetry.watch(world(node, clock), seconds=7, stop_file=None, **options)) == 4
    stop = tmp_path / "stop"
    stop.touch()  # of an earlier run

    class Told(Clock):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.now > 103:
                stop.touch()

    told = Told()
    assert len(telemetry.watch(world(node, told), seconds=7, stop_file=str(stop), **options)) == 2
