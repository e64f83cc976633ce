# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of vLLM ranks: facts, stages and last words. The lines are vLLM's format strings filled in."""

# ruff: noqa: E501 - log lines are as long as they are

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.engine_faults import FATAL
from ansible_collections.tandem.spark.plugins.module_utils.engine_log import read_log
from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE

STARTED = (
    "(APIServer pid=11) INFO 11-29 10:00:01 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.33.0"
)
STALLED = (
    "(EngineCore pid=12) INFO 11-29 10:05:00 [shm_broadcast.py:111] No available shared memory broadcast block found in "
    "60 seconds. This typically happens when some processes are hanging or doing some time-consuming work."
)
HEAD = [
    STARTED,
    "(APIServer pid=11) INFO 11-29 10:00:01 [api_utils.py:286] non-default args: {'model_tag': '/srv/models/x'}",
    "(EngineCore pid=12) INFO 11-29 10:00:09 [core.py:140] Initializing a V1 LLM engine (v0.33.0) with config: model='x'",
    "(Worker pid=13) INFO 11-29 10:00:12 [parallel_state.py:1846] world_size=2 rank=0 local_rank=0 "
    "distributed_init_method=tcp://192.168.177.1:25000 backend=nccl",
    "(Worker pid=13) INFO 11-29 10:00:15 [pynccl.py:148] vLLM is using nccl==2.30.7",
    "(Worker_TP0 pid=13) INFO 11-29 10:00:16 [model_runner.py:400] Loading model from scratch...",
    "Loading safetensors checkpoint shards:  65% Completed | 31/48 [02:10<01:11,  4.19s/it]",
    "Loading safetensors checkpoint shards: 100% Completed | 48/48 [03:21<00:00,  4.19s/it]",
    "(Worker_TP0 pid=13) INFO 11-29 10:03:38 [default_loader.py:507] Loading weights took 201.12 seconds",
    "(Worker_TP0 pid=13) INFO 11-29 10:03:44 [dspark.py:569] DSpark draft model loaded: 2391 params",
    "(Worker_TP0 pid=13) INFO 11-29 10:03:45 [default_loader.py:507] Loading weights took 8.92 seconds",
    "(Worker_TP0_EP0 pid=13) INFO 11-29 10:03:46 [model_runner.py:429] Model loading took 79.17 GiB memory and 214.5 seconds",
    "(Worker_TP0 pid=13) INFO 11-29 10:04:01 [monitor.py:53] torch.compile took 13.01 s in total",
    STALLED,
    "(Worker_TP0 pid=13) INFO 11-29 10:05:20 [gpu_worker.py:773] Available KV cache memory: 10.04 GiB",
    "(EngineCore pid=12) INFO 11-29 10:05:21 [kv_cache_utils.py:1148] GPU KV cache size: 1,412,421 tokens, "
    "Maximum concurrency for 1,000,000 tokens per request: 1.41x",
    "Capturing CUDA graphs (decode, FULL):  60%|██████    | 9/15 [00:19<00:12,  2.09s/it]",
    "(Worker_TP0 pid=13) INFO 11-29 10:05:58 [model_runner.py:1164] Graph capturing finished in 37 secs, took 1.62 GiB",
    "(EngineCore pid=12) INFO 11-29 10:06:00 [core.py:396] init engine (profile, create kv cache, warmup model) took 78.0 s",
    "(APIServer pid=11) INFO 11-29 10:06:03 [entry.py:139] Starting vLLM server on http://0.0.0.0:8888",
    "INFO:     Started server process [11]",
    "INFO:     Application startup complete.",
]
STAGES = [
    *("starting",) * 3,
    "waiting for the other rank",
    "joined the other rank",
    *("loading weights",) * 4,
    *("loading the draft",) * 2,
    "profiling memory",
    *("compiling",) * 2,
    *("sizing the KV cache",) * 2,
    "capturing graphs",
    *("warmed up",) * 2,
    *("starting the API",) * 2,
    "serving",
]
WORKER = [
    "(MainProcess pid=21) INFO 11-29 10:00:02 [serve.py:225] Launching vLLM (v0.33.0) headless multiproc executor, with head "
    "node address 192.168.177.1:25000 for torch.distributed process group.",
    "(Worker pid=22) INFO 11-29 10:00:12 [parallel_state.py:1846] world_size=2 rank=1 local_rank=0 "
    "distributed_init_method=tcp://192.168.177.1:25000 backend=nccl",
    "(Worker_TP1_EP1 pid=22) INFO 11-29 10:03:43 [model_runner.py:429] Model loading took 79.17 GiB memory and 216.1 seconds",
    "(Worker_TP1_EP1 pid=22) INFO 11-29 10:05:20 [gpu_worker.py:773] Available KV cache memory: 10.11 GiB",
    "(Worker_TP1_EP1 pid=22) INFO 11-29 10:05:58 [model_runner.py:1164] Graph capturing finished in 37 secs, took 1.62 GiB",
]
DEAD = [
    "(EngineCore pid=12) ERROR 11-29 10:30:00 [core.py:1512] EngineCore encountered a fatal error.",
    "(EngineCore pid=12) ERROR 11-29 10:30:00 [core.py:1512]     raise TimeoutError",
    "(EngineCore pid=12) ERROR 11-29 10:30:00 [core.py:1512] TimeoutError: RPC call to execute_model timed out.",
]


def test_a_heads_boot_is_read_whole():
    log = read_log(HEAD).as_dict()
    assert log == {
        "version": "0.33.0",
        "rank": 0,
        "stage": "serving",
        "reached": "serving",
        "progress": None,
        "model_gib": 79.17,
        "load_seconds": 214.5,
        "kv_gib": 10.04,
        "kv_tokens": 1_412_421,
        "max_concurrency": 1.41,
        "nccl": "2.30.7",
        "draft_loaded": True,
        "graphs": {"seconds": 37.0, "gib": 1.62},
        "stalled_s": 0,
        "ready": True,
        "fatal": None,
    }


@pytest.mark.parametrize(("lines", "stage"), [(n + 1, stage) for n, stage in enumerate(STAGES)])
def test_each_phase_has_its_name(lines, stage):
    log = read_log(HEAD[:lines])
    assert (log.stage, log.ready, log.fatal) == (stage, stage == "serving", None)


@pytest.mark.parametrize(
    ("lines", "progress"), [(7, (31, 48)), (8, (48, 48)), (10, None), (17, (9, 15)), (18, None)]
)
def test_progress_belongs_to_its_phase(lines, progress):
    assert read_log(HEAD[:lines]).progress == progress


def test_a_worker_is_read_but_never_called_ready():
    log = read_log(WORKER)
    assert (log.version, log.rank, log.model_gib, log.load_seconds, log.kv_gib) == (
        "0.33.0",
        1,
        79.17,
        216.1,
        10.11,
    )
    assert (log.stage, log.ready, log.kv_tokens, log.nccl) == ("warmed up", False, None, None)


@pytest.mark.parametrize(
    "prefix",
    [
        "Nov 29 10:00:01 spark-a vllm[11]: ",
        "2026-11-29T10:00:01+0000 spark-a vllm[11]: ",
        "10:00:01.465506009Z ",
        "\x1b[0;36m",
        "spark-a-1  | ",
    ],
)
def test_prefixes_of_journals_and_containers_do_not_matter(prefix):
    assert read_log(prefix + line for line in HEAD) == read_log(HEAD)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("Model loading took 80.99 GiB and 25.139530 seconds", "model_gib", 80.99),
        ("Model loading took 80.99 GiB and 25.139530 seconds", "load_seconds", 25.13953),
        ("Loading weights took 116.23 seconds", "load_seconds", 116.23),
        ("GPU KV cache size: 220,037 tokens", "kv_tokens", 220_037),
        ("Maximum concurrency for 1,000,000 tokens/request: 1.41x", "max_concurrency", 1.41),
        ("Maximum concurrency for 32,768 tokens per request: 6.72x", "max_concurrency", 6.72),
        ("[cpu_worker.py:260] Explicitly set (1.0/13.71) GiB for KV cache on node 0.", "kv_gib", 1.0),
        (
            "CPU KV cache size: 1,048,576 tokens, Maximum concurrency for 4,096 tokens per request: 256.00x",
            "kv_tokens",
            1_048_576,
        ),
        ("mtp.py:474] MTP draft model loaded: 39 params", "draft_loaded", True),
        ("Initializing a V1 LLM engine (v0.26.0) with config: model='x'", "version", "0.26.0"),
        ("  ▀▀  version 0.1.dev16268+g76b70802d.d20260526", "version", "0.1.dev16268+g76b70802d.d20260526"),
    ],
)
def test_both_spellings_are_read(line, name, value):
    assert getattr(read_log([line]), name) == value


def test_a_part_of_a_log_leaves_the_rest_unknown():
    log = read_log(["nothing of interest"])
    assert (log.stage, log.version, log.kv_gib, log.graphs, log.fatal) == (
        "not started",
        None,
        None,
        None,
        None,
    )


def test_only_the_newest_start_counts():
    log = read_log([*HEAD, *DEAD, *HEAD[:4]])
    assert (log.stage, log.ready, log.kv_gib, log.fatal) == ("waiting for the other rank", False, None, None)


def test_a_stopped_engine_is_no_longer_ready():
    log = read_log([*HEAD, "INFO:     Application shutdown complete."])
    assert (log.stage, log.ready, log.fatal) == ("stopped", False, None)


def test_the_cause_is_told_and_not_the_errors_that_follow():
    log = read_log([*HEAD, *DEAD, "INFO:     Application shutdown complete."])
    assert (log.stage, log.reached, log.ready) == ("failed", "serving", False)
    assert log.fatal.id == "engine.rpc_timeout"
    assert log.fatal.line.endswith("RPC call to execute_model timed out.")
    assert {"id", "line", "cause", "remedy"} == set(log.as_dict()["fatal"])


@pytest.mark.parametrize(
    ("after", "stalled_s"),
    [
        ([STALLED], 60),
        ([STALLED] * 3, 180),
        ([STALLED, 'INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 200 OK', STALLED], 120),
        (
            [
                STALLED,
                "(APIServer pid=11) INFO [loggers.py:335] Engine 000: Avg generation throughput: 5.6 tokens/s",
            ],
            0,
        ),
        (
            [
                STALLED,
                "(APIServer pid=11) INFO [loggers.py:335] Engine 000: Avg generation throughput: 0.0 tokens/s",
            ],
            60,
        ),
    ],
)
def test_a_stall_is_counted_but_is_no_end(after, stalled_s):
    log = read_log([*HEAD, *after])
    assert (log.stalled_s, log.ready, log.fatal) == (stalled_s, True, None)


@pytest.mark.parametrize(
    "line",
    [
        STALLED,
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from x",
        "(Worker pid=13) WARNING [cpu_worker.py:114] libtcmalloc is not found in LD_PRELOAD.",
        "(APIServer pid=11) ERROR [serving.py:274] Error with model error=ErrorInfo(message='The model `x` does not exist.')",
        "(APIServer pid=11) WARNING [system_utils.py:255] This can cause fd limit errors like `OSError: [Errno 24]`.",
        'INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
    ],
)
def test_harmless_lines_are_harmless(line):
    assert read_log([*HEAD, line]).fatal is None


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "RuntimeError: X on SM120 requires a FlashInfer DSV4 sparse MLA decode specialization for",
            "engine.flashinfer.top_k",
        ),
        ('DG_HOST_UNREACHABLE("Unsupported architecture");', "engine.deepgemm.arch"),
        (
            "RuntimeError: No supported CUDA architectures found for major versions [10].",
            "engine.flashinfer.arch",
        ),
        ("ptxas fatal: Value 'sm_121a' is not defined for option 'gpu-name'", "engine.ptxas.too_old"),
        (
            "ValueError: Model Runner V1 does not support: dspark speculative decoding",
            "engine.model_runner.v1",
        ),
        ("AssertionError: the layout only supports fp8 kv-cache, got auto", "engine.kv_cache.dtype"),
        ("ValueError: No available memory for the cache blocks.", "engine.kv_cache.too_small"),
        (
            "ValueError: Free memory on device cuda:0 (9.1/121.6 GiB) on startup is less than desired GPU memory utilization (0.9)",
            "engine.memory.not_free",
        ),
        ("torch.AcceleratorError: CUDA error: out of memory", "engine.memory.cuda"),
        (
            "tandem-head.service: A process of this unit has been killed by the OOM killer.",
            "engine.memory.killed",
        ),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "engine.memory.registration"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/psm_1a2b3c'", "engine.shm.removed"),
        ("OSError: [Errno 28] No space left on device", "engine.disk.full"),
        (
            "NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev rocep1s0f0:1",
            "engine.nccl.queue_pair",
        ),
        ("RuntimeError: NCCL error: unhandled system error", "engine.nccl.error"),
        (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
            "engine.rendezvous",
        ),
        ("OSError: [Errno 98] Address already in use", "engine.port_taken"),
        (
            "Value error, User-specified max_model_len (2000000) is greater than the derived max_model_len",
            "engine.max_model_len",
        ),
        ("ValueError: Invalid value '' for VLLM_USE_X", "engine.environment.empty"),
        (
            "vllm serve: error: argument --compilation-config/-cc: 1 validation error for CompilationConfig",
            "engine.command_line",
        ),
        ("vllm: error: unrecognized arguments: --swap-space", "engine.command_line"),
        ("pydantic_core.ValidationError: 1 validation error for SpeculativeConfig", "engine.configuration"),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: invalid JSON",
            "engine.checkpoint.broken",
        ),
        ("LocalEntryNotFoundError: Cannot find an appropriate cached snapshot", "engine.checkpoint.missing"),
        (
            "ERROR: This container was built for NVIDIA Driver Release 590.48 or later",
            "engine.driver.too_old",
        ),
        ("Failed to initialize NVML: Driver/library version mismatch", "engine.driver.mismatch"),
        ("exec /entrypoint.bash: exec format error", "engine.image.arch"),
        ("RuntimeError: Version mismatch: The cluster was started with:", "engine.ray.version"),
        ("(EngineCore pid=1) ERROR 08-15 11:20:19 [core.py:1361] TimeoutError", "engine.rpc_timeout"),
        (
            "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:60839.",
            "engine.peer_lost",
        ),
        (
            "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
            "engine.rank_died",
        ),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "engine.cuda"),
        ("RuntimeError: Engine core initialization failed. See root cause above.", "engine.died"),
    ],
)
def test_last_words_name_their_cause(line, cause):
    log = read_log([*HEAD[:6], line])
    assert (log.stage, log.fatal.id) == ("failed", cause)
    assert log.fatal.finding().remedy


def test_every_cause_is_in_the_catalogue():
    assert {finding_id for finding_id, _ in FATAL} <= set(CATALOGUE)
