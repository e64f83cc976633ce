# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the bench as it is kept on the controller: two ranks, every kind of row, one row that does not count."""

from __future__ import annotations

import random

from ansible_collections.tandem.spark.plugins.module_utils.bench_plan import plan_of
from ansible_collections.tandem.spark.plugins.module_utils.bench_summary import row_of
from ansible_collections.tandem.spark.plugins.module_utils.telemetry import summarise
from ansible_collections.tandem.spark.plugins.plugin_utils.bench_record import reference_of

K = 5
LENGTHS = {
    "code, reasoning off": 5.5,
    "code, reasoning on": 3.7,
    "prose, reasoning off": 3.2,
    "prose, reasoning on": 2.7,
}
HOSTS = ("spark-a", "spark-b")


def drawn(row, number, rng, steps_per_s, void=None):
    length = LENGTHS.get(row.name, 3.2) * rng.uniform(0.97, 1.03)
    each = steps_per_s * length / row.concurrency**0.35
    drafts = round(row.max_tokens / length)
    accepted = round(drafts * (length - 1))
    size = row.prompt_tokens or 80
    stream = {
        "prompt_tokens": size,
        "completion_tokens": row.max_tokens,
        "ttft_s": round(0.2 + size / 1700, 3),
        "tokens_per_s": round(each, 2),
        "finish_reason": "length",
        "verdict": "correct",
        "why": "sane text, nothing was expected",
        "fault": None,
        "reached": True,
        "text": "The lamp stood where the river bends <b>and</b> nobody had lit it for a year.",
        "reasoning": "",
    }
    places = [round(drafts * (length - 1) / K * (1.5 - place / K)) for place in range(K)]
    speculation = {
        "drafts": drafts,
        "draft_tokens": drafts * K,
        "accepted_tokens": accepted,
        "acceptance": round(accepted / drafts / K, 4),
        "mean_accepted_length": round(1 + accepted / drafts, 4),
        "per_position": places,
        "generation_tokens": row.max_tokens * row.concurrency,
        "reset": False,
    }
    counted = {
        "speculation": speculation,
        "prompt_tokens": size,
        "cached_tokens": 0,
        "preemptions": 0,
        "reset": False,
    }
    return {
        "row": row.name,
        "number": number,
        "at": "2026-11-30T12:00:00Z",
        "seconds": 7.0,
        "tokens_per_s": round(each * row.concurrency, 2),
        "streams": [stream] * row.concurrency,
        "asked": row.concurrency,
        "succeeded": row.concurrency,
        "counted": counted,
        "void": void,
        "client_cpu": 0.01,
    }


def sample(at_s, clock, power, used=95.0):
    gpu = {
        "utilization_percent": used,
        "clock_mhz": clock,
        "power_w": power,
        "temperature_c": 58.0,
        "reasons": [],
    }
    ports = {
        name: {"sent_bytes": round(at_s * 7e7), "received_bytes": round(at_s * 7e7)}
        for name in ("a/1", "b/1")
    }
    engine = {
        "kv_cache_usage": 0.2,
        "running": 1,
        "waiting": 0,
        "preemptions": 0,
        "generation_tokens": at_s * 40,
    }
    return {
        "at_s": float(at_s),
        "gpus": [gpu],
        "memory": {"available_gib": 11.0, "cached_gib": 2.0, "swap_used_gib": 0.0, "pages_in": 3},
        "hcas": ports,
        "netdevs": {"enp1s0f0np0": {"sent_bytes": round(at_s * 1e4), "received_bytes": 0, "errors": 0}},
        "engine": {**engine, "started": 1.0},
    }


def record(
    at="2026-11-30T12:00:00Z", steps_per_s=13.4, clocks=(2411.0, 2409.0), profile="v4-flash-main-ray", **more
):
    rng = random.Random(at)
    rows, draws = [], []
    for row in plan_of({"draws": 3}).rows:
        void = (
            {"kind": "degenerate", "reason": "1 of 8 texts are degenerate: counts on"}
            if row.concurrency == 8
            else None
        )
        found = [drawn(row, number, rng, steps_per_s, void) for number in range(1, row.draws + 1)]
        draws += found
        rows.append(row_of(row, found))
    telemetry = {}
    for host, clock in zip(HOSTS, clocks, strict=True):
        samples = [
            sample(at_s, clock + rng.uniform(-5, 5), 39 + rng.uniform(-2, 2)) for at_s in range(0, 400, 2)
        ]
        telemetry[host] = {"summary": summarise(samples), "samples": samples}
    stack = {
        "release": "0123456789abcdef",
        "profile": profile,
        "max_num_seqs": 2,
        "engine": "0.33.0",
        "nccl": "2.30.7",
        "graphs": True,
        "ranks": {host: {"kernel": "6.17.0-1026-nvidia", "driver": "580.173.02"} for host in HOSTS},
    }
    return {
        "version": 1,
        "kind": "bench",
        "collection": "0.1.0",
        "group": "tandem",
        "hosts": list(HOSTS),
        "looked_at": list(HOSTS),
        "at": at,
        "url": "http://127.0.0.1:8888",
        "server": {"version": "0.33.0", "max_model_len": 393216},
        "stack": {"fingerprint": "fedcba9876543210", "given": stack},
        "summaries": rows,
        "draws": draws,
        "ended": None,
        "telemetry": telemetry,
        "quality": [{"name": "math", "asked": 4, "right": 3, "wrong": ["What is 15 % of 240? answers 35"]}],
        "profile": reference_of(profile, None),
        "findings": [],
        **more,
    }
