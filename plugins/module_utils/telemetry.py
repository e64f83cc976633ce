# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is like while it is measured: GPU, memory, rails and engine counters, once every few seconds.

A sample is plain data; what could not be read is null. Counters are kept as they stand, and summarise() takes their
differences, so that one that began anew is seen.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import commands, engine_metrics, power, spec_decode
from .engine_metrics import EngineMetricsError
from .host_memory import meminfo, pages_in
from .kernel_files import Tree
from .power_look import COMMAND

KIB_PER_GIB = 1 << 20
WORD_BYTES = 4  # port_xmit_data and port_rcv_data count words
# Counters of a healthy lossless link that stay where they are; mlx5 and the port itself have them.
ERRORS = (
    "port_rcv_errors",
    "port_xmit_discards",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_transport_retries_exceeded",
    "rx_icrc_encapsulated",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
)
BUSY_PERCENT = 50.0
_TIMEOUT_S = 1.5


@dataclass(frozen=True)
class World:
    """What a sample asks; tests put their own in. root: where /proc and /sys are seen."""

    root: str = "/"
    ask: Callable[..., commands.Answer] = commands.ask
    fetch: Callable[..., Any] = engine_metrics.fetch
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def sample(world: World, url: str | None = None) -> dict[str, Any]:
    """One look: {at_s, gpus, memory, hcas, netdevs, engine}. at_s is by the monotonic clock of the node."""
    tree = Tree(world.root)
    return {
        "at_s": round(world.clock(), 2),
        "gpus": _gpus(world),
        "memory": _memory(tree),
        "hcas": _hcas(tree),
        "netdevs": _netdevs(tree),
        "engine": None if url is None else _engine(world, url),
    }


def _gpus(world: World) -> list[dict[str, Any]]:
    found = power.read_csv(world.ask(COMMAND, _TIMEOUT_S).out)
    return [
        {**asdict(each), "reasons": None if each.reasons is None else list(each.reasons)} for each in found
    ]


def _memory(tree: Tree) -> dict[str, Any]:
    kib = meminfo(tree.text("proc/meminfo") or "")

    def gib(name: str) -> float | None:
        return round(kib[name] / KIB_PER_GIB, 2) if name in kib else None

    return {
        "available_gib": gib("MemAvailable"),
        "cached_gib": gib("Cached"),
        "swap_used_gib": None
        if gib("SwapTotal") is None or gib("SwapFree") is None
        else round(gib("SwapTotal") - gib("SwapFree"), 2),
        "pages_in": pages_in(tree.text("proc/vmstat") or ""),
    }


def _hcas(tree: Tree) -> dict[str, dict[str, int]]:
    """{device/port: {sent_bytes, received_bytes, and each error counter that is there}}."""
    found = {}
    for device in tree.names("sys/class/infiniband"):
        for port in tree.names("sys/class/infiniband", device, "ports"):
            where = ("sys/class/infiniband", device, "ports", port)
            counts = {}
            for key, name in (("sent_bytes", "port_xmit_data"), ("received_bytes", "port_rcv_data")):
                words = tree.number(*where, "counters", name)
                if words is not None:
                    counts[key] = words * WORD_BYTES
            for name in ERRORS:
                for folder in ("counters", "hw_counters"):
                    value = tree.number(*where, folder, name)
                    if value is not None:
                        counts[name] = counts.get(name, 0) + value
            found[f"{device}/{port}"] = counts
    return found


def _netdevs(tree: Tree) -> dict[str, dict[str, int]]:
    """{name: {sent_bytes, received_bytes, errors}} of every interface but the loopback."""
    found = {}
    for name in tree.names("sys/class/net"):
        if name == "lo" or not re.fullmatch(r"[!-.0-~]{1,15}", name):
            continue
        where = ("sys/class/net", name, "statistics")
        counts = {
            key: tree.number(*where, file)
            for key, file in (("sent_bytes", "tx_bytes"), ("received_bytes", "rx_bytes"))
        }
        errors = [
            tree.number(*where, file) for file in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
        ]
        counts["errors"] = None if None in errors else sum(errors)
        found[name] = {key: value for key, value in counts.items() if value is not None}
    return found


def _engine(world: World, url: str) -> dict[str, Any] | None:
    try:
        page = world.fetch(url, timeout=_TIMEOUT_S)
    except EngineMetricsError:
        return None
    running, waiting = engine_metrics.requests_of(page)
    counters = spec_decode.counters_of(page)
    return {
        **asdict(engine_metrics.progress_of(page)),
        "running": running,
        "waiting": waiting,
        "drafts": counters.drafts,
        "accepted_tokens": counters.accepted_tokens,
        "started": counters.started,
    }


def watch(
    world: World, *, seconds: float, interval_s: float, url: str | None, stop_file: str | None
) -> list[dict[str, Any]]:
    """Samples until the file is there or the time is over. A file of an earlier run is removed first."""
    stop = Path(stop_file) if stop_file else None
    if stop is not None:
        stop.unlink(missing_ok=True)
    until = world.clock() + seconds
    samples = []
    while True:
        began = world.clock()
        samples.append(sample(world, url))
        while world.clock() < min(until, began + interval_s) and not (stop and stop.exists()):
            world.sleep(min(0.2, interval_s))
        if world.clock() >= until or (stop is not None and stop.exists()):
            return samples


def summarise(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the samples of one node say: ranges while it was busy, rates and rises of counters over all of them.

    busy: a GPU that was used by more than half; where no GPU tells of itself all samples count.
    """
    busy = [
        each
        for each in samples
        if any((gpu["utilization_percent"] or 0) > BUSY_PERCENT for gpu in each["gpus"])
    ]
    gpus = [gpu for each in busy or samples for gpu in each["gpus"]]
    reasons: dict[str, int] = {}
    for gpu in gpus:
        for reason in gpu["reasons"] or ():
            reasons[reason] = reasons.get(reason, 0) + 1
    return {
        "samples": len(samples),
        "busy_samples": len(busy),
        "seconds": round(samples[-1]["at_s"] - samples[0]["at_s"], 1) if samples else 0.0,
        **{
            name: _range(gpu[name] for gpu in gpus)
            for name in ("clock_mhz", "power_w", "utilization_percent", "temperature_c")
        },
        "reasons": {name: round(count / len(gpus), 3) for name, count in sorted(reasons.items())},
        "available_gib": _range(each["memory"]["available_gib"] for each in samples),
        "cached_gib": _range(each["memory"]["cached_gib"] for each in samples),
        "pages_in": _rise([each["memory"]["pages_in"] for each in samples]),
        "hcas": _traffic([each["hcas"] for each in samples], samples),
        "netdevs": _traffic([each["netdevs"] for each in samples], samples),
        "engine": _of_engine([each["engine"] for each in samples if each["engine"]]),
    }


def _range(values: Iterable[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"low": min(known), "median": round(statistics.median(known), 2), "high": max(known)}


def _rise(values: Iterable[float | None]) -> float | None:
    """How much a counter rose; what it lost by beginning anew is not known and counts as nothing."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    return sum(max(0, after - before) for before, after in zip(known, known[1:], strict=False))


def _traffic(looks: Sequence[Mapping[str, Mapping[str, int]]], samples: Sequence[Mapping]) -> dict[str, Any]:
    """{name: {sent_gbps, received_gbps, errors: {counter: its rise}}}; counters that did not rise are left out."""
    seconds = samples[-1]["at_s"] - samples[0]["at_s"] if samples else 0.0
    found: dict[str, Any] = {}
    for name in sorted({name for look in looks for name in look}):
        rises = {
            key: _rise(look.get(name, {}).get(key) for look in looks)
            for key in sorted({key for look in looks for key in look.get(name, {})})
        }
        rates = {
            f"{way}_gbps": round(rises[f"{way}_bytes"] * 8 / seconds / 1e9, 4)
            if seconds > 0 and rises.get(f"{way}_bytes") is not None
            else None
            for way in ("sent", "received")
        }
        errors = {key: rise for key, rise in rises.items() if rise and not key.endswith("_bytes")}
        found[name] = {**rates, "errors": errors}
    return found


def _of_engine(looks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not looks:
        return None
    return {
        "kv_cache_usage": _range(each["kv_cache_usage"] for each in looks),
        "running": _range(each["running"] for each in looks),
        "waiting": _range(each["waiting"] for each in looks),
        "preemptions": _rise(each["preemptions"] for each in looks),
        "generation_tokens": _rise(each["generation_tokens"] for each in looks),
        "restarts": len({each["started"] for each in looks if each["started"] is not None} or {0}) - 1,
    }
