# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long checkpoint_info takes for the headers of a V4-Flash-0731, and how near hashing comes to the machine's limit.

    python3 tests/bench/checkpoint.py

The checkpoint has 48 shards and 72,317 tensors of the real shapes, with holes in place of the weights. The limit of
hashing is what all cores hash of one block that lies in memory, asked in turn with our reading of files that the page
cache holds. Exits 1 where the headers are read wrongly; the figures (wanted: 1 s, 90 %) are for people, since another
machine's load is no fault of the code. Of the headers the best of several runs counts, of hashing the median of pairs.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests/unit")]

import pretend_checkpoint as pretend  # noqa: E402 - after what it needs is set
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint, file_hashes  # noqa: E402 - after what it needs is set

SHARDS, TENSORS, LIMIT_S, RUNS = 48, 72_317, 1.0, 5
CORES = os.cpu_count() or 1
FILES, FILE_BYTES, LEAST = 4 * CORES, 32 << 20, 0.9


def v4_flash() -> dict[str, tuple[str, tuple[int, ...]]]:
    made = pretend.tensors(layers=43, experts=256, width=2048)
    rest = TENSORS - len(made)
    return made | {f"layers.{number % 43}.norm.{number}": ("BF16", (2048,)) for number in range(rest)}


def best_s(
    work: Callable[[], object], runs: int = RUNS, clock: Callable[[], float] = time.perf_counter
) -> float:
    times = []
    for _run in range(runs):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def headers(root: pathlib.Path) -> bool:
    settings = pretend.config(num_hidden_layers=43, n_routed_experts=256)
    folder = pretend.write(root / "checkpoint", v4_flash(), SHARDS, settings)
    found = checkpoint.read(folder)
    if (found.expected, sum(found.dtypes.values()), found.experts, found.bad) != (
        SHARDS,
        TENSORS,
        "mxfp4",
        [],
    ):
        print(f"checkpoint: {found.expected} shards, {sum(found.dtypes.values())} tensors, {found.experts}")
        return False
    seconds = best_s(lambda: checkpoint.read(folder), clock=time.process_time)
    good = seconds <= LIMIT_S
    print(
        f"checkpoint: headers of {SHARDS} shards, {TENSORS} tensors, in {seconds:.2f} s of one core "
        f"(limit {LIMIT_S:.0f} s, {'ok' if good else 'too slow'})"
    )
    return True


def hashing(root: pathlib.Path) -> None:
    folder = root / "hashing"
    folder.mkdir()
    block = os.urandom(FILE_BYTES)
    names = {f"{number}": "sha256" for number in range(FILES)}
    for name in names:
        (folder / name).write_bytes(block)

    def warm() -> None:
        for name in names:
            (folder / name).read_bytes()

    def limit() -> None:
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(lambda name: hashlib.sha256(block).digest(), names))

    def ours() -> None:
        file_hashes.hash_files(folder, names, [].append)

    found, bound, busy = [], [], []
    for _round in range(RUNS):
        began = time.process_time()
        bound.append(best_s(limit, 1))
        between = time.process_time()
        warm()  # our reading lets go of the page cache
        warmed = time.process_time()
        found.append(best_s(ours, 1))
        busy.append((between - began) / (time.process_time() - warmed))
    # Pair by pair, since the speed of a machine that others use too drifts from one to the next.
    ratio = statistics.median(each / ours for each, ours in zip(bound, found, strict=True))
    rate = FILES * FILE_BYTES / 2**30
    verdict = "ok" if ratio >= LEAST else "too slow"
    print(
        f"checkpoint: SHA-256 of {FILES} files at {rate / min(found):.2f} GiB/s, {CORES} cores can do "
        f"{rate / min(bound):.2f} from memory: {ratio:.0%} (at least {LEAST:.0%}, {verdict}); "
        f"{statistics.median(busy):.0%} in the processors' own time, which other load does not change"
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        right = headers(pathlib.Path(folder))
        hashing(pathlib.Path(folder))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
