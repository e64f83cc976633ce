# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long ibv_info's reading takes: 8 HCAs with tables of 1,024 slots, against a plain reader.

    python3 tests/bench/ibv.py

Prints both figures of the same run; exits 1 where the tables are read wrongly or ours is not 8 times as fast. The
limit of 100 ms is for people: how fast a machine is today is no fault of the code. The best of several runs counts,
since a busy machine only ever adds time.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.tandem.spark.plugins.module_utils import fabric_look, fabric_wish  # noqa: E402 - after the path to it

HCAS, SLOTS, LIMIT_MS, LEAST, RUNS = 8, 1024, 100, 8, 7
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def gid(hca: int, index: int) -> str:
    """Link-local in the first two slots, an address in 2 and 3, nothing in the others."""
    if index < 2:
        return f"fe80:0000:0000:0000:0000:00ff:fe00:000{hca}"
    return f"0000:0000:0000:0000:0000:ffff:0a0{hca}:0001" if index < 4 else EMPTY


def write_tree(root: pathlib.Path) -> None:
    for hca in range(HCAS):
        device = root / "class/infiniband" / f"mlx5_{hca}"
        port = device / "ports/1"
        netdev = f"eth{hca}"
        for folder in (
            port / "gids",
            port / "gid_attrs/types",
            port / "gid_attrs/ndevs",
            device / "device/net" / netdev,
        ):
            folder.mkdir(parents=True)
        for name, text in (
            ("state", "4: ACTIVE"),
            ("rate", "200 Gb/sec (4X HDR)"),
            ("link_layer", "Ethernet"),
        ):
            (port / name).write_text(f"{text}\n")
        (root / "class/net" / netdev).mkdir(parents=True)
        (root / "class/net" / netdev / "mtu").write_text("9000\n")
        (root / "class/net" / netdev / "operstate").write_text("up\n")
        for index in range(SLOTS):
            (port / "gids" / str(index)).write_text(f"{gid(hca, index)}\n")
            (port / "gid_attrs/types" / str(index)).write_text("RoCE v2\n" if index % 2 else "IB/RoCE v1\n")
            (port / "gid_attrs/ndevs" / str(index)).write_text(f"{netdev}\n")


def plain_reader(root: pathlib.Path) -> int:
    """Every file of every slot, as one would write it at first."""
    found = 0
    for port in root.glob("class/infiniband/*/ports/1"):
        for slot in (port / "gids").iterdir():
            address = slot.read_text().strip()
            kind = (port / "gid_attrs/types" / slot.name).read_text().strip()
            ndev = (port / "gid_attrs/ndevs" / slot.name).read_text().strip()
            found += address != EMPTY and bool(kind and ndev)
    return found


def best_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return min(times)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write_tree(root)
        look = fabric_look.look(folder, fabric_wish.wish())
        occupied = sum(len(port.gids) for device in look.devices for port in device.ports)
        if occupied != HCAS * 4 or plain_reader(root) != occupied:
            print(f"ibv: {occupied} occupied slots found, {HCAS * 4} wanted")
            return 1
        ours = best_ms(lambda: fabric_look.look(folder, fabric_wish.wish()).as_dict())
        plain = best_ms(lambda: plain_reader(root))
    verdict = "ok" if ours <= LIMIT_MS else "too slow"
    ratio = plain / ours
    print(
        f"ibv: {HCAS} HCAs x {SLOTS} slots in {ours:.1f} ms (limit {LIMIT_MS} ms, {verdict}); "
        f"plain reader {plain:.1f} ms, ratio {ratio:.1f} (at least {LEAST}, {'ok' if ratio >= LEAST else 'too slow'})"
    )
    return 0 if ratio >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
