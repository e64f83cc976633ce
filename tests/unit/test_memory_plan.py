# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an engine fits unified memory, and what the memory of a running host means."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import host_memory
from ansible_collections.tandem.spark.plugins.module_utils.memory_plan import (
    GIB,
    MemoryPlanError,
    Wish,
    plan,
)

# A start as it was measured: 0.78 of 121.69 GiB, 79.17 of weights, 10.04 GiB of KV cache with 1,412,421 tokens.
HEALTHY = Wish(
    mem_total_gib=121.69,
    mem_available_gib=116.2,
    weights_gib_per_rank=79.17,
    gpu_memory_utilization=0.78,
    max_model_len=1_000_000,
    max_num_seqs=6,
    kv_bytes_per_token=7632,
)


def ids(findings) -> list[str]:
    return [each.id for each in findings]


def test_a_measured_start_is_planned_as_it_was():
    planned = plan(HEALTHY)
    assert planned.fits and planned.findings == ()
    assert planned.kv_gib == pytest.approx(10.04, abs=0.05)
    assert planned.kv_tokens == pytest.approx(1_412_421, rel=0.005)
    assert (planned.concurrency, planned.left_for_host_gib) == (1.41, 21.28)
    assert "1.41 requests of 1000000" in planned.reason


@pytest.mark.parametrize("share", [0.75, 0.77, 0.78, 0.80, 0.835, 0.85, 0.87])
@pytest.mark.parametrize("total", [119.0, 121.0, 121.69])
def test_no_utilization_is_judged_by_itself(total, share):
    planned = plan(
        replace(HEALTHY, mem_total_gib=total, mem_available_gib=total, gpu_memory_utilization=share)
    )
    assert planned.left_for_host_gib == pytest.approx(total * (1 - share), abs=0.01)
    assert planned.fits == (planned.kv_tokens >= 1_000_000)
    assert set(ids(planned.findings)) <= {"memory.plan.kv_short"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # 79.07 GiB of weights and 8.33 GiB of cache fit; what resets such a host is no matter of a plan.
        (
            {
                "weights_gib_per_rank": 79.07,
                "gpu_memory_utilization": None,
                "kv_cache_bytes": int(8.33 * GIB),
                "max_model_len": 131_072,
            },
            [],
        ),
        # 0.87 wants 105.87 GiB where 101.3 to 102.2 are free after the cache was dropped.
        ({"gpu_memory_utilization": 0.87, "mem_available_gib": 102.2}, ["memory.plan.not_free"]),
        ({"gpu_memory_utilization": 0.87, "mem_available_gib": 101.3}, ["memory.plan.not_free"]),
        ({"gpu_memory_utilization": 0.82, "mem_available_gib": 102.2}, ["memory.plan.tight"]),
        # The host is exhausted by a load that goes on.
        ({"mem_available_gib": 0}, ["memory.plan.not_free"]),
        # Half the memory as shared memory.
        ({"shm_gib": 64}, ["memory.plan.shm"]),
        ({"shm_gib": 16}, []),
        ({"shm_gib": 10}, []),
        # A burst of 7.4 GiB needs more than was left; 3.9 GiB left were healthy all the same.
        ({"mem_available_gib": 94.92 + 7}, ["memory.plan.tight"]),
        ({"mem_available_gib": 94.92 + 3.9}, ["memory.plan.tight"]),
        ({"mem_available_gib": 94.92 + 8}, []),
        ({"mem_available_gib": 94.92 + 2}, ["memory.plan.tight"]),
        ({"mem_available_gib": 94.92 + 1.9}, ["memory.plan.no_headroom"]),
        ({"mem_available_gib": 94.92 + 1.9, "headroom_gib": 1}, ["memory.plan.tight"]),
        # The 64 GB model.
        ({"mem_total_gib": 59.6, "mem_available_gib": 56}, ["memory.plan.no_kv"]),
        (
            {
                "mem_total_gib": 59.6,
                "mem_available_gib": 56,
                "weights_gib_per_rank": 30,
                "max_model_len": 262_144,
                "gpu_memory_utilization": 0.75,
            },
            [],
        ),
        (
            {
                "mem_total_gib": 59.6,
                "mem_available_gib": 56,
                "gpu_memory_utilization": None,
                "kv_cache_bytes": GIB,
                "max_model_len": 1000,
            },
            ["memory.plan.not_free"],
        ),
        # A cache of fixed size: the utilization only admits.
        ({"gpu_memory_utilization": None, "kv_cache_bytes": 12 * GIB}, []),
        ({"gpu_memory_utilization": 0.835, "kv_cache_bytes": 12 * GIB}, []),
        ({"gpu_memory_utilization": 0.97, "kv_cache_bytes": 12 * GIB}, ["memory.plan.not_free"]),
        ({"gpu_memory_utilization": None, "kv_cache_bytes": 30 * GIB}, ["memory.plan.no_headroom"]),
        ({"gpu_memory_utilization": 0.74}, ["memory.plan.kv_short"]),
        # All at once.
        (
            {"gpu_memory_utilization": 0.74, "mem_available_gib": 91, "shm_gib": 64},
            ["memory.plan.no_headroom", "memory.plan.kv_short", "memory.plan.shm"],
        ),
    ],
)
def test_plans(change, expected):
    planned = plan(replace(HEALTHY, **change))
    assert ids(planned.findings) == expected
    errors = [each.summary for each in planned.findings if each.severity == "error"]
    assert planned.fits == (not errors)
    assert all(summary in planned.reason for summary in errors)


def test_the_way_out_is_one():
    change = {"mem_available_gib": 102.2, "max_model_len": 500_000}
    (found,) = plan(replace(HEALTHY, gpu_memory_utilization=0.87, **change)).findings
    assert "105.87 GiB, and 102.2 of 121.69" in found.summary
    assert "up to 0.82 " in found.remedy
    assert plan(replace(HEALTHY, gpu_memory_utilization=0.82, **change)).fits
    assert not plan(replace(HEALTHY, gpu_memory_utilization=0.83, **change)).fits
    (found,) = plan(replace(HEALTHY, gpu_memory_utilization=None, kv_cache_bytes=20 * GIB, **change)).findings
    largest = int(found.remedy.partition("up to ")[2].split()[0])
    assert plan(replace(HEALTHY, gpu_memory_utilization=None, kv_cache_bytes=largest, **change)).fits
    (found, *_more) = plan(replace(HEALTHY, mem_available_gib=60)).findings
    assert "no setting helps" in found.remedy


def test_what_is_not_said_is_unknown():
    planned = plan(replace(HEALTHY, kv_bytes_per_token=None))
    assert (planned.fits, planned.kv_tokens, planned.concurrency) == (True, None, None)
    assert "stays unknown" in planned.reason
    assert plan(replace(HEALTHY, max_model_len=None)).concurrency is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mem_total_gib": 0}, ["mem_total_gib is 0"]),
        (
            {"mem_total_gib": math.nan, "weights_gib_per_rank": math.inf},
            ["mem_total_gib is nan", "weights_gib_per_rank is inf"],
        ),
        ({"mem_available_gib": -1, "headroom_gib": -2}, ["mem_available_gib is -1", "headroom_gib is -2"]),
        ({"mem_available_gib": 130}, ["mem_available_gib is 130, more than mem_total_gib"]),
        ({"gpu_memory_utilization": 78}, ["gpu_memory_utilization is 78, and is a share"]),
        ({"gpu_memory_utilization": 1.01}, ["gpu_memory_utilization is 1.01"]),
        ({"gpu_memory_utilization": 0}, ["gpu_memory_utilization is 0"]),
        ({"gpu_memory_utilization": None}, ["neither gpu_memory_utilization nor kv_cache_bytes"]),
        (
            {
                "kv_cache_bytes": 0,
                "max_model_len": -1,
                "max_num_seqs": 0,
                "kv_bytes_per_token": 0,
                "shm_gib": 0,
            },
            [
                "kv_cache_bytes is 0",
                "max_model_len is -1",
                "max_num_seqs is 0",
                "kv_bytes_per_token is 0",
                "shm_gib is 0",
            ],
        ),
        (
            {"overhead_gib": math.nan, "kv_cache_bytes": 10**400},
            ["overhead_gib is nan", "kv_cache_bytes is 1000"],
        ),
        ({"mem_total_gib": "121"}, ["mem_total_gib is 121"]),
    ],
)
def test_numbers_that_cannot_be_planned_with(change, said):
    with pytest.raises(MemoryPlanError) as error:
        plan(replace(HEALTHY, **change))
    for words in said:
        assert words in str(error.value)
    assert str(error.value).count(";") == len(said) - 1


@pytest.mark.parametrize(
    ("reading", "state", "expected"),
    [
        ({"available_gib": 110.0}, "roomy", []),
        # 4.8 GiB in swap, 4 KiB read back within a second: tight for hours, and healthy.
        (
            {"available_gib": 3.9, "pages_before": 1000, "pages_after": 1001, "seconds": 1.0},
            "healthy-tight",
            [],
        ),
        (
            {"available_gib": 3.9, "pages_before": 0, "pages_after": 5000, "seconds": 10.0},
            "swapping",
            ["memory.host.swapping"],
        ),
        # While weights are loaded 50 GB may go out to swap and come back.
        (
            {"available_gib": 3.9, "pages_before": 0, "pages_after": 5000, "seconds": 1.0, "loading": True},
            "loading",
            [],
        ),
        ({"available_gib": 0.0, "loading": True}, "exhausted", ["memory.host.exhausted"]),
        ({"available_gib": None}, "unknown", []),
        # Counters that began anew, or no time between them.
        ({"available_gib": 20.0, "pages_before": 5000, "pages_after": 0, "seconds": 1.0}, "roomy", []),
        ({"available_gib": 20.0, "pages_before": 0, "pages_after": 5000, "seconds": 0.0}, "roomy", []),
    ],
)
def test_the_memory_of_a_host(reading, state, expected):
    judged = host_memory.judge(**reading)
    assert (judged.state, ids(judged.findings)) == (state, expected)


@pytest.mark.parametrize(
    ("text", "pages"),
    [("pgpgin 5\npswpin 42\npswpout 7\n", 42), ("", None), ("pswpin x\n", None), ("\0", None)],
)
def test_pages_that_came_back_from_swap(text, pages):
    assert host_memory.pages_in(text) == pages


KILL = "oom-kill:constraint={},nodemask=(null),cpuset=/,global_oom,task_memcg=/a,task=VLLM::Worker_TP,pid={},uid=998"


def test_a_kill_on_the_whole_host():
    log = [KILL.format("CONSTRAINT_NONE", 4242), KILL.format("CONSTRAINT_MEMCG", 7), "\0oom-kill:", ""]
    (found,) = host_memory.killed_by_oom(log)
    assert (found.id, found.severity) == ("memory.host.oom", "error")
    assert "VLLM::Worker_TP, pid 4242" in found.summary and "clock caps" in found.remedy


def test_lines_of_the_driver_are_counted_and_not_judged():
    line = "NVRM: x: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from f(p) @ a.c:1"
    assert host_memory.no_memory_lines([line] * 55 + ["NVRM: fine", "NV_ERR_NO_MEMORY"]) == 55
    assert host_memory.no_memory_lines([]) == 0
