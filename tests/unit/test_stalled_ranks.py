# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank keeps the others waiting, and what shows that an engine still works."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import compilers
from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import Progress
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.module_utils.signs_of_life import Signs, Watch
from ansible_collections.tandem.spark.plugins.module_utils.stalled_ranks import name_ranks

STALL = finding("engine.warmup.stalled", evidence="0 of 3 requests answered", phase="long", seconds="600")
WAITS = [
    "(EngineCore pid=7) INFO 11-29 18:48:40 [shm_broadcast.py:871] No available shared memory broadcast block found in "
    "60 seconds. This typically happens when some processes are hanging or doing some time-consuming work"
] * 2
IDLE = ["(Worker_TP1 pid=9) INFO 11-29 18:40:00 [gpu_model_runner.py:1] KV cache is ready", ""]
DEAD = ["(Worker_TP1 pid=9) ERROR torch.AcceleratorError: CUDA error: out of memory"]


@pytest.mark.parametrize(
    ("journals", "hosts", "said"),
    [
        (
            {"spark-a": WAITS, "spark-b": IDLE},
            ("spark-b",),
            [
                "0 of 3",
                "spark-a has waited for another process for 120 s",
                "its last line: (Worker_TP1",
                "KV cache is ready",
            ],
        ),
        ({"spark-a": WAITS, "spark-b": DEAD}, ("spark-b",), ["spark-b failed: (Worker_TP1 pid=9) ERROR"]),
        ({"spark-a": WAITS, "spark-b": WAITS}, (), ["spark-b has waited"]),
        ({"spark-a": IDLE, "spark-b": []}, (), ["spark-b does not say that it waits; its last line: none"]),
        ({"spark-a": DEAD, "spark-b": IDLE, "spark-c": WAITS}, ("spark-a",), ["spark-a failed"]),
        ({}, (), ["0 of 3 requests answered"]),
    ],
)
def test_the_rank_that_stalls_is_named_from_the_journals(journals, hosts, said):
    named = name_ranks(STALL, journals)
    assert (named.id, named.hosts, named.summary) == (STALL.id, hosts, STALL.summary)
    assert all(words in named.evidence for words in said), named.evidence


def test_compilers_at_work(tmp_path):
    for pid, name in {"12": "python3", "40": "nvcc", "41": "ptxas", "self": "cicc"}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{name}\n")
    (tmp_path / "99").mkdir()  # gone in the middle
    assert compilers.at_work(str(tmp_path)) == {40: "nvcc", 41: "ptxas"}
    assert compilers.at_work(str(tmp_path / "none")) == {}


A, B = Progress(1, 1, 0.1, 0), Progress(1, 2, 0.1, 0)


@pytest.mark.parametrize(
    ("looks", "moved"),
    [
        ([Signs(A, {}), Signs(A, {})], False),
        ([Signs(A, {}), Signs(B, {})], True),
        ([Signs(A, {}), Signs(Progress(1, 1, 0.2, 0), {})], True),
        ([Signs(A, {}), Signs(None, {}, "404"), Signs(A, {})], False),
        ([Signs(A, {}), Signs(None, {}, "404"), Signs(B, {})], True),
        ([Signs(None, {}, "404"), Signs(A, {})], False),
        ([Signs(A, {}), Signs(A, {7: "nvcc"})], True),
        ([Signs(None, {7: "nvcc"}), Signs(None, {8: "nvcc"})], True),
        ([Signs(A, {7: "nvcc"}), Signs(A, {7: "nvcc"})], False),
    ],
)
def test_what_is_a_sign_of_life(monkeypatch, looks, moved):
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    remaining = iter(looks)
    watch = Watch(lambda: next(remaining))
    for _ in looks[:-1]:
        watch.look()
    before = watch._moved
    watch.look()
    assert (watch._moved > before) is moved


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        (Signs(A, {}), "the engine has counted 1 prompt and 1 generated tokens"),
        (
            Signs(Progress(), {9: "ptxas", 8: "nvcc", 7: "nvcc"}),
            "an unknown number of generated tokens; nvcc, ptxas at work",
        ),
        (Signs(None, {}, "http://h/metrics cannot be read: HTTP 404"), "cannot be read: HTTP 404"),
    ],
)
def test_signs_in_words(signs, said):
    assert str(signs).endswith(said)
