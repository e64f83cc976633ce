# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem collective` against a plain all-reduce loop timed by CUDA events; needs two NVIDIA GPUs and torch.

    python3 tests/gpu/collective.py

A launch takes another time in each process (core, memory node, clock) and drifts. So both are measured in turn: in
the same two processes (`together`: does the method agree?), and each in processes of its own (`apart`: do the
programs?). Medians over the rounds are compared; the lowest and highest of the plain loop say how well it agrees with
itself. Exits 1 where a median differs by more than the limit, or a transport is not the one that was forced.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import tempfile
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = (8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
MARK = "PLAIN "
LIMIT = 0.10
TIMEOUT_S = 280
TRANSPORTS = {
    "p2p": {},
    "socket": {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_NET": "Socket",
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
    },
}


def plain(torch, device, size: int) -> float:
    """Microseconds of one all-reduce: a loop between two events, and nothing else."""
    count = 2000 if size <= 1 << 20 else 200 if size <= 16 << 20 else 20
    data = torch.zeros(size // 4, dtype=torch.float32, device=device)
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _warm_up in range(min(count, 50)):
        torch.distributed.all_reduce(data)
    torch.distributed.barrier()
    torch.cuda.synchronize()
    began.record()
    for _run in range(count):
        torch.distributed.all_reduce(data)
    ended.record()
    torch.cuda.synchronize()
    return began.elapsed_time(ended) * 1e3 / count


def rank(arguments: argparse.Namespace) -> None:
    """One of two processes. Rank 0 prints {size: [[ours or null, plain], …]}."""
    import torch
    import torch.distributed
    from tandem.collective_command import point

    device = torch.device("cuda", arguments.rank)
    torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "nccl",
        init_method=f"tcp://{arguments.master}",
        rank=arguments.rank,
        world_size=2,
        device_id=device,
    )
    told = {}
    for size in SIZES:
        told[size] = []
        for _round in range(arguments.rounds):
            ours = point(torch, device, size, arguments.rank, 2)[0]["us"] if arguments.together else None
            told[size].append((ours, plain(torch, device, size)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    if arguments.rank == 0:
        print(f"\n{MARK}{json.dumps(told)}", flush=True)


def pair(words: list[str], transport: str) -> str:
    """Run one command as two ranks over a forced transport; what rank 0 and NCCL said."""
    from tandem import nccl_log

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "NCCL_DEBUG": "INFO", "NCCL_NVLS_ENABLE": "0", **TRANSPORTS[transport]}
    command = [sys.executable, *words, f"--master={master}"]
    with tempfile.TemporaryDirectory() as folder:
        logs = [pathlib.Path(folder) / f"rank{number}" for number in range(2)]
        started = []
        for number, log in enumerate(logs):
            with log.open("wb") as output:
                rank_command = [*command, f"--rank={number}"]
                started.append(
                    subprocess.Popen(rank_command, env=environment, stdout=output, stderr=subprocess.STDOUT)
                )
        try:
            codes = [process.wait(timeout=TIMEOUT_S) for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
        said = [log.read_text(errors="replace") for log in logs]
    if any(codes):
        sys.exit(f"{' '.join(command)} ended with {codes}:\n{said[0][-3000:]}\n{said[1][-3000:]}")
    named = nccl_log.read_log(said[0].splitlines())
    if named.transport != transport:
        sys.exit(f"forced was {transport}, the log names {named.transport}")
    return said[0]


def plain_pair(transport: str, rounds: int, together: bool) -> dict[str, list]:
    words = [
        str(pathlib.Path(__file__).resolve()),
        f"--rounds={rounds}",
        *(["--together"] if together else []),
    ]
    (line,) = [line for line in pair(words, transport).splitlines() if line.startswith(MARK)]
    return json.loads(line.removeprefix(MARK))


def our_pair(transport: str) -> dict[str, float]:
    from tandem import collective

    words = ["-m", "tandem", "collective", "--ranks=2", f"--sizes={','.join(map(str, SIZES))}"]
    result = collective.result_in(pair(words, transport))
    if result is None or result["wrong"]:
        sys.exit(f"tandem collective came to no result, or to wrong sums: {result}")
    return {str(point["bytes"]): point["us"] for point in result["points"]}


def line(where: str, size: int, ours: list[float], loop: list[float]) -> bool:
    ratio = median(ours) / median(loop)
    good = abs(ratio - 1) <= LIMIT
    print(
        f"  {where:8} {size:>10}  ours {median(ours):10.1f} ({min(ours):.1f}-{max(ours):.1f})  plain"
        f" {median(loop):10.1f} ({min(loop):.1f}-{max(loop):.1f})  ours/plain {ratio:.3f}{'' if good else '  !'}",
        flush=True,
    )
    return good


def compare(transport: str, rounds: int, starts: int) -> bool:
    print(f"{transport}: microseconds, median (lowest-highest)", flush=True)
    good = True
    for size, rows in plain_pair(transport, rounds, together=True).items():
        good &= line("together", int(size), [row[0] for row in rows], [row[1] for row in rows])
    ours, loop = {str(size): [] for size in SIZES}, {str(size): [] for size in SIZES}
    for _start in range(starts):
        for size, us in our_pair(transport).items():
            ours[size].append(us)
        for size, rows in plain_pair(transport, 3, together=False).items():
            loop[size].append(median(row[1] for row in rows))
    for size in SIZES:
        good &= line("apart", size, ours[str(size)], loop[str(size)])
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="turns in the same processes (%(default)s)")
    parser.add_argument("--starts", type=int, default=4, help="processes of their own (%(default)s)")
    parser.add_argument("--transport", choices=TRANSPORTS, action="append", help="these alone")
    for name in ("--rank", "--master", "--together"):
        kind = (
            {"action": "store_true"} if name == "--together" else {"type": int if name == "--rank" else str}
        )
        parser.add_argument(name, help=argparse.SUPPRESS, **kind)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        rank(arguments)
        return 0
    import torch

    if torch.cuda.device_count() < 2:
        sys.exit("Two GPUs are needed.")
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    cores = f"{os.cpu_count()} {platform.machine()} cores"
    print(f"2 of {torch.cuda.get_device_name(0)}, torch {torch.__version__}, NCCL {nccl}, {cores}")
    good = [compare(each, arguments.rounds, arguments.starts) for each in arguments.transport or TRANSPORTS]
    print("all within" if all(good) else "not all within", f"{LIMIT:.0%}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as library:
        if not os.environ.get("TANDEM_LIBRARY"):
            # The package as a node has it; ranks find it by the same path.
            (pathlib.Path(library) / "tandem").symlink_to(ROOT / "plugins/module_utils")
            os.environ["TANDEM_LIBRARY"] = library
            os.environ["PYTHONPATH"] = f"{library}:{os.environ.get('PYTHONPATH', '')}"
        sys.path.insert(0, os.environ["TANDEM_LIBRARY"])
        sys.exit(main())
