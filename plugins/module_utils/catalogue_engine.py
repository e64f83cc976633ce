# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about an engine that does not come up, or dies: the cause behind its last words."""

from __future__ import annotations

from .catalogue import Entry

FIELD = "field reports of two-Spark owners"
VLLM = "vLLM 0.33.0 source"


def _fatal(summary: str, remedy: str, source: str, scope: str = "node", fixed_by: str | None = None) -> Entry:
    return Entry("error", scope, summary, remedy, fixed_by, source, lasts="start")


ENTRIES = {
    "engine.flashinfer.top_k": _fatal(
        "FlashInfer has no sparse MLA kernel for this draft length",
        "Install FlashInfer 0.6.18 or newer (vLLM 0.29.0 and later pin it), or serve without speculation",
        "vLLM v1/attention/backends/mla; flashinfer-ai/flashinfer#4380",
    ),
    "engine.deepgemm.arch": _fatal(
        "DeepGEMM was built without kernels for this GPU",
        "Install a vLLM whose DeepGEMM has the sm120 kernels (0.28.0 or newer; 0.27.1 has none)",
        "vllm-project/vllm#52938",
    ),
    "engine.flashinfer.arch": _fatal(
        "FlashInfer was asked to compile for another GPU generation",
        "Set FLASHINFER_CUDA_ARCH_LIST=12.1a in the engine's environment and clear its JIT cache",
        "vllm-project/vllm#31740",
    ),
    "engine.ptxas.too_old": _fatal(
        "Triton's own ptxas does not know this GPU",
        "Set TRITON_PTXAS_PATH to the ptxas of CUDA 12.9 or newer (/usr/local/cuda/bin/ptxas)",
        "vllm-project/vllm#30163",
    ),
    "engine.model_runner.v1": _fatal(
        "Speculation needs vLLM's V2 model runner, which is off",
        "Take VLLM_USE_V2_MODEL_RUNNER=0 out of the engine's environment; the V2 runner needs Triton",
        VLLM,
    ),
    "engine.kv_cache.dtype": _fatal(
        "This model's attention takes an fp8 KV cache only",
        "Set kv-cache-dtype to fp8",
        VLLM,
    ),
    "engine.kv_cache.too_small": _fatal(
        "The memory left for the KV cache is too small for one request",
        "Lower max-model-len, or raise gpu-memory-utilization while the host keeps its headroom",
        VLLM,
    ),
    "engine.memory.not_free": _fatal(
        "Less memory is free at the start than the engine is told to take",
        "See who holds it with `nvidia-smi` and `ps aux --sort=-rss | head` (an EngineCore of an earlier start?). "
        "Drop the page cache, or lower gpu-memory-utilization",
        FIELD,
    ),
    "engine.memory.cuda": _fatal(
        "The GPU ran out of memory",
        "Lower gpu-memory-utilization or max-num-seqs; see who else holds memory with `nvidia-smi`",
        FIELD,
    ),
    "engine.memory.killed": _fatal(
        "The kernel killed the engine for want of memory",
        "Lower gpu-memory-utilization, set MAX_JOBS=2 for compilers, and look at `journalctl -k -g oom`",
        FIELD,
    ),
    "engine.memory.registration": _fatal(
        "RDMA memory could not be registered",
        "Check the kernel first: 7.0.0-1019 reserves memory for KHO (`grep Cma /proc/meminfo`, boot with kho=off). "
        "Then LimitMEMLOCK of the unit in /proc/PID/limits",
        "NVIDIA/NV-Kernels#590",
    ),
    "engine.shm.removed": _fatal(
        "Shared memory or a semaphore vanished while the engine ran",
        "Run the engine as a system user, or set RemoveIPC=no in /etc/systemd/logind.conf: a logout removed them",
        FIELD,
    ),
    "engine.disk.full": _fatal(
        "No space is left for the engine's files",
        "Look at `df -h /dev/shm /var /tmp`; shared memory needs 200 MB and more",
        FIELD,
    ),
    "engine.nccl.queue_pair": _fatal(
        "NCCL could not connect the ranks over RDMA",
        "Compare the GIDs on both nodes (`show_gids`): a GID of :: is an empty index. Address the rails with the "
        "fabric role and leave NCCL_IB_GID_INDEX unset unless one index is right everywhere",
        FIELD,
        scope="group",
        fixed_by="fabric",
    ),
    "engine.nccl.error": _fatal(
        "NCCL failed",
        "Set NCCL_DEBUG=INFO in the engine's environment and start again; the line before the error names the cause",
        FIELD,
        scope="group",
    ),
    "engine.rendezvous": _fatal(
        "The ranks did not find each other",
        "Check that all ranks were started, that the head's rail address answers a ping from the workers, and that "
        "both rails are up (`ip -br addr`)",
        VLLM,
        scope="group",
    ),
    "engine.rpc_timeout": _fatal(
        "A rank did not answer in time: the group is wedged",
        "Look at the other ranks' journals for the first error, then stop and start all ranks together. "
        "NCCL 2.28.9 with CUDA graphs over two nodes does this; 2.30.4 does not",
        "vllm-project/vllm#52504",
        scope="group",
    ),
    "engine.peer_lost": _fatal(
        "The connection to another rank broke",
        "Look at the other rank's journal for the first error and at the rails (`ip -br link`); "
        "then start all ranks together",
        "vLLM 0.32.0, measured on two ranks",
        scope="group",
    ),
    "engine.rank_died": _fatal(
        "The process of a rank died",
        "Look further up in this journal for the reason, and at `journalctl -k` for a killed process or an Xid; "
        "then start all ranks together",
        "vLLM 0.32.0, measured on two ranks",
    ),
    "engine.port_taken": _fatal(
        "A port that the engine needs is taken",
        "Find its owner with `ss -ltnp` and stop it, or choose another port",
        VLLM,
    ),
    "engine.max_model_len": _fatal(
        "max-model-len is longer than the model allows",
        "Set max-model-len to at most max_position_embeddings of the checkpoint's config.json",
        VLLM,
    ),
    "engine.environment.empty": _fatal(
        "A variable in the engine's environment is set to nothing",
        "Leave the variable out: an empty value is not the default",
        FIELD,
    ),
    "engine.command_line": _fatal(
        "The engine does not accept its command line",
        "Compare the flag with `vllm serve --help=all` of the installed release",
        VLLM,
    ),
    "engine.configuration": _fatal(
        "The engine does not accept its configuration",
        "The lines below the error name the field and what it was given",
        VLLM,
    ),
    "engine.checkpoint.broken": _fatal(
        "A file of the checkpoint is damaged",
        "Run `site.yml -e tandem_checkpoint_verify=sha256`: every byte is read, and what is damaged comes from another "
        "rank or from tandem_checkpoint_source",
        FIELD,
    ),
    "engine.checkpoint.missing": _fatal(
        "The checkpoint is not where the engine looks for it",
        "Run site.yml: a rank that lacks the weights takes them from one that has them. Where none has, set "
        "tandem_checkpoint_source (docs/weights.md)",
        FIELD,
    ),
    "engine.driver.too_old": _fatal(
        "The container wants a newer NVIDIA driver",
        "Use an image built for the installed driver, or upgrade the driver on every rank",
        FIELD,
    ),
    "engine.driver.mismatch": _fatal(
        "The NVIDIA kernel module and the user-space libraries are of different versions",
        "Reboot into the installed driver (`cat /proc/driver/nvidia/version` shows the loaded one)",
        FIELD,
    ),
    "engine.image.arch": _fatal(
        "The program was built for another processor",
        "Use the arm64 image or wheel on a Spark",
        FIELD,
    ),
    "engine.container.image": _fatal(
        "The image of this release is not on this node any more",
        "Run site.yml, which brings it from another rank, or pulls it by its digest. `docker image prune -a` takes "
        "images that no container uses, as between two starts",
        "docker(1)",
    ),
    "engine.container.snap": _fatal(
        "Docker from snap was asked for the GPU: it does not see the files of the node's driver",
        "`snap remove docker` and install docker.io or Docker's own packages, then nvidia-container-toolkit",
        FIELD,
    ),
    "engine.container.gpu": _fatal(
        "Docker does not know how to give a container the GPU",
        "`nvidia-ctk runtime configure --runtime=docker` and restart docker, or `nvidia-ctk cdi generate "
        "--output=/etc/cdi/nvidia.yaml`; after a change of the driver the latter is wanted anew",
        "NVIDIA container toolkit",
    ),
    "engine.container.name": _fatal(
        "A container of the rank's own name is there already",
        "Remove it (`docker rm -f tandem-head tandem-worker`): the unit does so before each start, and could not",
        "docker(1)",
    ),
    "engine.container.refused": _fatal(
        "Docker refused to start the container",
        "Its last words name what it misses; `journalctl -u docker -n 50` has more",
        "docker(1)",
    ),
    "engine.ray.missing": _fatal(
        "The engine has no Ray",
        "Take an engine whose list pins ray, or set rendezvous to nnodes and distributed-executor-backend to mp",
        VLLM,
        scope="group",
    ),
    "engine.ray.platform": _fatal(
        "This build of vLLM does not run over Ray",
        "Set rendezvous to nnodes and distributed-executor-backend to mp: the build for CPUs knows no device of Ray",
        "vLLM 0.32.0 v1/executor/ray_utils.py",
        scope="group",
    ),
    "engine.ray.resources": _fatal(
        "Ray found fewer GPUs in its cluster than the engine has ranks",
        "See that the unit of every rank is up and joined (`journalctl -u tandem-worker`), and that its address is the "
        "one of its first rail",
        "vLLM 0.32.0 v1/executor/ray_utils.py",
        scope="group",
    ),
    "engine.ray.memory_monitor": _fatal(
        "Ray killed a rank because the node's memory looks full, which the page cache alone does here",
        "Set RAY_memory_monitor_refresh_ms to 0, as the units of this collection do",
        FIELD,
        scope="group",
    ),
    "engine.ray.timeout": _fatal(
        "A rank did not answer over Ray in time: the group is wedged, or still compiles",
        "Look at the other ranks' journals for the first error; RAY_CGRAPH_get_timeout says how long is waited",
        FIELD,
        scope="group",
    ),
    "engine.ray.version": _fatal(
        "The ranks run different versions of Ray or Python",
        "Install the same wheelhouse on every rank",
        FIELD,
        scope="group",
        fixed_by="runtime",
    ),
    "engine.cuda": _fatal(
        "CUDA reported an error",
        "Look for an Xid in `journalctl -k -g NVRM` on the same minute",
        FIELD,
    ),
    "engine.died": _fatal(
        "The engine died",
        "The first error in its journal, on any rank, is the cause",
        VLLM,
    ),
    "engine.unit.missing": _fatal(
        "There is no unit {unit}",
        "Run site.yml, which writes it, or correct the name",
        "systemd",
        fixed_by="engine",
    ),
    "engine.unit.ended": _fatal(
        "{unit} ended ({state}) instead of serving",
        "Read its last lines; `journalctl -u {unit} -n 200` has more",
        "systemd",
    ),
    "engine.boot.parted": _fatal(
        "The rank on {anew} was started anew, and that on {head} does not take it back",
        "Stop and start all ranks together, as site.yml and start.yml do",
        "measured with vLLM 0.32.0: the head says that it is healthy, and its new worker waits in the rendezvous",
        scope="group",
    ),
    "engine.boot.timeout": _fatal(
        "The engine is not ready after {seconds} s",
        "Watch it ({watch}). If it goes on, as the first start does that compiles every kernel, raise "
        "engine.start_timeout_s of the profile; if nothing moves, stop all ranks and run again",
        "two-Spark owners: a first start of 36 minutes behind a watchdog of 20",
        scope="group",
    ),
}
