# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem collective`: this rank's part of a measured all-reduce, with the torch of the Python that runs it.

Every rank runs it at the same time. Alone it needs the engine's Python and the rank's environment:

    PYTHONPATH=/opt/tandem/lib /opt/tandem/current/runtime/bin/python -m tandem collective --ranks 2
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from . import collective, loaded_nccl

NAME = "collective"
HELP = "measure an all-reduce with the other ranks (with the engine's Python, while the engine is stopped)"
ERRORS = (collective.CollectiveError,)

BACKENDS = ("nccl", "gloo")
# A small all-reduce takes as long as its launch, whose time scatters within a batch of milliseconds: a batch is long
# enough for a hundred wake-ups of torch's and NCCL's own threads, and the middle one of several counts.
BATCH_S, BATCHES = 0.1, 9
MOST, LEAST = 5000, 3  # all-reduces of a batch


def configure(parser: argparse.ArgumentParser) -> None:
    master = (
        f"{os.environ.get('TANDEM_MASTER_ADDR', '127.0.0.1')}:{os.environ.get('TANDEM_MASTER_PORT', '25000')}"
    )
    parser.add_argument("--ranks", type=int, required=True, help="how many ranks take part")
    parser.add_argument(
        "--rank", type=int, default=int(os.environ.get("TANDEM_NODE_RANK", "0")), help="this one"
    )
    parser.add_argument("--master", default=master, help="address and port of rank 0 (%(default)s)")
    parser.add_argument("--backend", choices=BACKENDS, default="nccl")
    parser.add_argument("--sizes", default=",".join(collective.DEFAULT_SIZES), help="bytes (%(default)s)")
    parser.add_argument(
        "--join-timeout", type=float, default=60, help="seconds to wait for the others (%(default)g)"
    )


def run(arguments: argparse.Namespace) -> int:
    sizes = collective.sizes_of(arguments.sizes.split(","))
    problems = loaded_nccl.preload_problems()
    if arguments.ranks < 2:
        problems.append(f"{arguments.ranks} ranks are no group: an all-reduce needs 2 or more.")
    if not 0 <= arguments.rank < arguments.ranks:
        problems.append(
            f"Rank {arguments.rank} is none of {arguments.ranks} ranks, which are counted from 0."
        )
    if problems:
        raise collective.CollectiveError("\n".join(problems))
    result = measure(arguments, sizes)
    print(f"{collective.RESULT}{json.dumps(result)}", flush=True)
    return 0


def _torch() -> Any:
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise collective.CollectiveError(
            f"{sys.executable} has no torch ({error}). Run this with the engine's own Python, "
            "/opt/tandem/current/runtime/bin/python."
        ) from error
    return torch


def measure(arguments: argparse.Namespace, sizes: Sequence[int]) -> dict[str, Any]:
    """{rank, ranks, backend, torch, points[{bytes, us, runs}], wrong[bytes]}; us is of the slowest rank."""
    torch = _torch()
    device = None  # the processor
    if arguments.backend == "nccl":
        device = torch.device("cuda", arguments.rank % _gpus(torch))
        torch.cuda.set_device(device)
    try:
        torch.distributed.init_process_group(
            arguments.backend,
            init_method=f"tcp://{arguments.master}",
            rank=arguments.rank,
            world_size=arguments.ranks,
            timeout=timedelta(seconds=arguments.join_timeout),
            device_id=device,
        )
        points, wrong = [], []
        for size in sizes:
            measured, right = point(torch, device, size, arguments.rank, arguments.ranks)
            points.append(measured)
            wrong += [] if right else [size]
        torch.distributed.barrier()
    except (RuntimeError, ValueError) as error:
        raise collective.CollectiveError(
            f"The ranks did not all-reduce ({type(error).__name__}): {str(error).splitlines()[0].rstrip('.')}. "
            f"See that each of the {arguments.ranks} ranks was started within {arguments.join_timeout:g} s."
        ) from error
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    return {
        "rank": arguments.rank,
        "ranks": arguments.ranks,
        "backend": arguments.backend,
        "torch": str(torch.__version__),
        "points": points,
        "wrong": wrong,
    }


def _gpus(torch: Any) -> int:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise collective.CollectiveError("torch sees no GPU, which NCCL needs. Look at `nvidia-smi`.")
    return count


def point(torch: Any, device: Any, size: int, rank: int, ranks: int) -> tuple[dict[str, Any], bool]:
    """One size: {bytes, us, runs} of one all-reduce on the slowest rank, and whether the sum is right."""
    data = torch.full((size // 4,), float(rank + 1), dtype=torch.float32, device=device)
    torch.distributed.all_reduce(data)
    right = bool((data == ranks * (ranks + 1) / 2).all())
    data.zero_()  # sums of sums would leave the range of numbers
    # The first batch of full length only warms up; the few runs before it say how many that takes.
    runs = _runs(torch, _timed(torch, data, LEAST), device)
    runs = _runs(torch, _timed(torch, data, runs), device)
    batches = sorted(_timed(torch, data, runs) for _batch in range(BATCHES))
    seconds = _slowest(torch, batches[BATCHES // 2], device)
    return {"bytes": size, "us": seconds * 1e6, "runs": runs * BATCHES}, right


def _runs(torch: Any, seconds: float, device: Any) -> int:
    """How many all-reduces make a batch. The ranks agree on it, since each must run as often as the others."""
    return max(LEAST, min(MOST, int(BATCH_S / max(_slowest(torch, seconds, device), 1e-6))))


def _timed(torch: Any, data: Any, runs: int) -> float:
    """Seconds of one all-reduce out of `runs` in a row; by the GPU's own clock where there is one."""
    torch.distributed.barrier()
    if data.is_cuda:
        began, ended = (torch.cuda.Event(enable_timing=True) for _end in range(2))
        torch.cuda.synchronize(data.device)
        began.record()
        _repeat(torch, data, runs)
        ended.record()
        torch.cuda.synchronize(data.device)
        return began.elapsed_time(ended) / 1e3 / runs
    start = time.perf_counter()
    _repeat(torch, data, runs)
    return (time.perf_counter() - start) / runs


def _repeat(torch: Any, data: Any, runs: int) -> None:
    for _run in range(runs):
        torch.distributed.all_reduce(data)


def _slowest(torch: Any, seconds: float, device: Any) -> float:
    value = torch.tensor([seconds], dtype=torch.float64, device=device)
    torch.distributed.all_reduce(value, op=torch.distributed.ReduceOp.MAX)
    return float(value.item())
