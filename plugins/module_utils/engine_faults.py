# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of an engine's log that mean the end, and the finding that explains each."""

from __future__ import annotations

import re

# Specific causes before the general errors that follow from them: of several found the first in this order is told.
# Not here, because good boots print them: shm_broadcast's 60 s lines, NV_ERR_NO_MEMORY, missing tcmalloc.
FATAL = tuple(
    (finding_id, re.compile(pattern))
    for finding_id, pattern in (
        ("engine.flashinfer.top_k", r"requires a FlashInfer DSV4 sparse MLA decode specialization"),
        (
            "engine.deepgemm.arch",
            r"(?:DG_HOST_\w+|[Dd]eep_?[Gg][Ee][Mm][Mm]|csrc/).*Unsupported architecture",
        ),
        ("engine.flashinfer.arch", r"No supported CUDA architectures found for major versions"),
        ("engine.ptxas.too_old", r"ptxas fatal|PTXASError|Internal Triton PTX codegen error"),
        ("engine.model_runner.v1", r"Model Runner V1 does not support"),
        ("engine.kv_cache.dtype", r"only supports fp8 kv-cache"),
        (
            "engine.kv_cache.too_small",
            r"No available memory for the cache blocks|larger than the (?:available KV cache memory|maximum number of "
            r"tokens that can be stored in KV cache)",
        ),
        ("engine.memory.not_free", r"Free memory on device .*is less than desired GPU memory utilization"),
        (
            "engine.ray.memory_monitor",
            r"ray\.exceptions\.OutOfMemoryError|was killed due to the node running low on memory",
        ),
        (
            "engine.memory.killed",
            r"killed by the OOM killer|Failed with result 'oom-kill'|Out of memory: Killed process",
        ),
        ("engine.memory.registration", r"ibv_reg_mr\w* failed with error Cannot allocate memory"),
        ("engine.memory.cuda", r"CUDA error: out of memory|CUDA out of memory|\bOutOfMemoryError\b"),
        ("engine.shm.removed", r"SemLock\._rebuild|FileNotFoundError.*'/?(?:psm_|mp-|sem\.)"),
        ("engine.disk.full", r"No space left on device"),
        ("engine.nccl.queue_pair", r"ibv_modify_qp failed"),
        ("engine.nccl.error", r"NCCL error: |ncclUnhandledCudaError|ncclSystemError|ncclInternalError"),
        (
            "engine.rendezvous",
            r"DistStoreError|[Tt]imed out after .* waiting for clients|client socket has timed out",
        ),
        ("engine.port_taken", r"[Aa]ddress already in use|EADDRINUSE"),
        ("engine.max_model_len", r"User-specified max_model_len .* is greater than the derived"),
        ("engine.environment.empty", r"Invalid value '' for|invalid literal for int\(\) with base 10: ''"),
        (
            "engine.command_line",
            r"vllm(?: serve)?: error:|api_server\.py: error:|error: unrecognized arguments",
        ),
        ("engine.configuration", r"validation errors? for \w+(?:Config|Args)\b"),
        ("engine.checkpoint.broken", r"SafetensorError|Error while deserializing header"),
        (
            "engine.checkpoint.missing",
            r"LocalEntryNotFoundError|Cannot find an appropriate cached snapshot|Repo id must be in the form|"
            r"does not appear to have a file named|is not a local folder and is not a valid model identifier",
        ),
        ("engine.driver.too_old", r"container was built for NVIDIA Driver Release"),
        ("engine.driver.mismatch", r"Driver/library version mismatch|API mismatch: client has version"),
        ("engine.image.arch", r"exec format error|Exec format error"),
        ("engine.container.snap", r"open /usr/bin/nvidia-cuda-mps-control: no such file or directory"),
        (
            "engine.container.gpu",
            r"could not select device driver|unresolvable CDI devices|unknown or invalid runtime name: nvidia",
        ),
        ("engine.container.image", r"No such image: |Unable to find image '|image not known"),
        ("engine.container.name", r"The container name \S+ is already in use"),
        ("engine.container.refused", r"(?:docker|podman): Error response from daemon: "),
        ("engine.ray.version", r"Version mismatch: The cluster was started with"),
        ("engine.ray.missing", r"Failed to import Ray: "),
        ("engine.ray.platform", r"current platform \S+ does not support ray"),
        ("engine.ray.resources", r"Cannot provide a placement group"),
        ("engine.ray.timeout", r"RayChannelTimeoutError|RayCgraphCapacityExceeded"),
        ("engine.rpc_timeout", r"RPC call to \w+ timed out"),
        ("engine.rpc_timeout", r"ERROR .*\bTimeoutError$"),
        ("engine.peer_lost", r"(?:gloo|pair\.cc|NCCL|TCPStore).*Connection (?:closed|reset) by peer"),
        (
            "engine.rank_died",
            r"(?:Worker proc |RayWorkerProc rank=)\S+ died unexpectedly|ray\.exceptions\.ActorDiedError",
        ),
        ("engine.cuda", r"CUDA error: |AcceleratorError"),
        (
            "engine.died",
            r"EngineCore encountered a fatal error|EngineDeadError|EngineCore failed to start|"
            r"Engine core initialization failed|WorkerProc (?:hit an exception|initialization failed|failed to start)",
        ),
    )
)


def fatal_in(line: str) -> int | None:
    """The place in FATAL of the cause that a line tells, None for a harmless line."""
    return next((place for place, fault in enumerate(FATAL) if fault[1].search(line)), None)
