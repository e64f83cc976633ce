# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a run is slower than the table: what speaks for each cause, the strongest first (controller only).

Evidence comes from the run's own rows, from what the nodes were like meanwhile, and from what doctor found on them.
A subject that nothing speaks for is said to be looked at, one that could not be looked at is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils import power

SUBJECTS = (
    "verify step",
    "transport",
    "rails",
    "driver",
    "clocks",
    "power",
    "acceptance",
    "k",
    "queue",
    "KV pressure",
    "MTU",
    "memory and page cache",
)
# Which subject a finding of doctor speaks for, by the beginning of its id; the first that fits counts.
_FINDINGS = (
    ("fabric.mtu", "MTU"),
    ("fabric.peer.path_mtu", "MTU"),
    ("fabric.rail.mtu", "MTU"),
    ("fabric.rdma", "transport"),
    ("fabric.", "rails"),
    ("nccl.", "transport"),
    ("engine.nccl.", "transport"),
    ("collective.", "transport"),
    ("link.", "rails"),
    ("driver.", "driver"),
    ("power.clocks", "clocks"),
    ("power.", "power"),
    ("speculation.", "acceptance"),
    ("memory.", "memory and page cache"),
)
_WEIGHTS = {"error": 70, "warning": 45, "info": 15}
_SOCKET_SHARE = 0.5  # of the traffic of the ranks that goes over an interface and not over its RDMA device
_RAIL_SHARE = 0.2  # a rail that carries less than this part of the busiest one is not used
_KV_FULL = 0.95
_LESS = 0.95
_ON_ACCEPTANCE = (
    "Acceptance depends on the text first: compare the same series. On the same text compare k, the draft's method "
    "and whether the draft was loaded from the same checkpoint"
)


@dataclass(frozen=True)
class Evidence:
    """One thing that speaks for a cause. weight: 0 to 100, how much of a slow run it explains by experience."""

    subject: str
    weight: int
    what: str
    remedy: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """found: the strongest first. clear: subjects that nothing speaks for. unknown: {subject: why it is not known}."""

    found: tuple[Evidence, ...]
    clear: tuple[str, ...]
    unknown: Mapping[str, str]


def evidence(record: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]) -> Answer:
    """`comparisons`: as bench_compare makes them, with the references or with an earlier run."""
    summaries = {host: each["summary"] for host, each in record["telemetry"].items() if each.get("summary")}
    found = [
        *_of_rows(record, comparisons),
        *_of_telemetry(summaries),
        *_of_engine(record, summaries),
        *_of_findings(record["findings"]),
    ]
    found.sort(key=lambda each: (-each.weight, SUBJECTS.index(each.subject), each.what))
    unknown = dict(_unknown(record, comparisons, summaries))
    told = {each.subject for each in found}
    clear = tuple(subject for subject in SUBJECTS if subject not in told and subject not in unknown)
    return Answer(
        tuple(found), clear, {subject: why for subject, why in unknown.items() if subject not in told}
    )


def _of_rows(record: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]) -> Iterator[Evidence]:
    """A rate is steps times tokens for each step, so what is missing of it is in the one or in the other."""
    by_figure: dict[str, list[Mapping[str, Any]]] = {}
    for each in comparisons:
        if each["ratio"] is not None and each["ratio"] < _LESS:
            by_figure.setdefault(each["figure"], []).append(each)
    if worst := _worst(by_figure.get("mean_accepted_length")):
        yield Evidence(
            "acceptance",
            _by_ratio(worst),
            f"Each verify step gives fewer tokens: {worst['ours']['median']:.2f} against "
            f"{worst['theirs']['median']:.2f} ({worst['row']}), which alone makes {worst['ratio']:.0%} of the rate",
            _ON_ACCEPTANCE,
        )
    elif worst := _worst(by_figure.get("acceptance")):
        yield Evidence(
            "acceptance",
            _by_ratio(worst),
            f"Fewer drafted tokens are accepted: {worst['ours']['median']:.1%} against "
            f"{worst['theirs']['median']:.1%} ({worst['row']})",
            _ON_ACCEPTANCE,
        )
    if worst := _worst(by_figure.get("verify_steps_per_s")):
        yield Evidence(
            "verify step",
            min(60, _by_ratio(worst)),
            f"Each verify step takes longer: {worst['ours']['median']:.2f} steps/s against "
            f"{worst['theirs']['median']:.2f} ({worst['row']}), whatever the text is",
            "Steps do not depend on the text, so look at the machine: transport, clocks and driver in this list",
        )
    for told in sorted(
        {told for each in comparisons for told in each.get("differs", ()) if told.startswith("k ")}
    ):
        yield Evidence(
            "k",
            50,
            f"Another length of the draft than in the reference: {told}",
            "The ceiling is (k + 1) times the steps; compare runs of one k",
        )
    limit = (record["stack"].get("given") or {}).get("max_num_seqs")
    queued = [row["name"] for row in record["summaries"] if limit and row["concurrency"] > limit]
    if queued:
        yield Evidence(
            "queue",
            20,
            f"The engine takes {limit} sequences at once, so streams had to wait in {', '.join(queued)}",
            "That is max-num-seqs of the profile; raise it only as far as the proof at concurrency holds",
        )


def _worst(comparisons: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any] | None:
    return min(comparisons, key=lambda each: each["ratio"]) if comparisons else None


def _by_ratio(compared: Mapping[str, Any]) -> int:
    return max(20, min(90, round(100 * (1 - compared["ratio"]) * 2)))


def _of_telemetry(summaries: Mapping[str, Mapping[str, Any]]) -> Iterator[Evidence]:
    for host, told in summaries.items():
        clock, watts = told.get("clock_mhz"), told.get("power_w")
        busy = bool(told.get("busy_samples"))
        if busy and clock and clock["median"] < power.STUCK_BELOW_MHZ:
            yield Evidence(
                "clocks",
                95,
                f"The GPU worked at {clock['median']:g} MHz, a healthy one has 2200 and more",
                "A GPU stuck at low clocks is cured only by taking its power away: shut down, unplug, wait, start",
                (host,),
            )
        elif busy and clock and clock["median"] < power.NORMAL_FROM_MHZ:
            yield Evidence(
                "clocks",
                65,
                f"The GPU worked at {clock['median']:g} MHz",
                "Look for a cap of the clocks (tandem_power_clock_max_mhz) and at the temperature",
                (host,),
            )
        slowed = {
            name: share for name, share in (told.get("reasons") or {}).items() if name in power.SLOWDOWNS
        }
        if slowed:
            shares = ", ".join(f"{name} in {share:.0%} of the samples" for name, share in slowed.items())
            yield Evidence(
                "clocks",
                85,
                f"The clocks were held down: {shares}",
                "See to cooling and to the power supply that came with the machine",
                (host,),
            )
        if busy and watts and watts["median"] < power.WORKS_FROM_W:
            yield Evidence(
                "power",
                75,
                f"The GPU was busy at {watts['median']:g} W: it waited rather than worked "
                "(decoding takes 39 to 46 W)",
                "It waits for the other rank: look at the slower rank, the transport and the rails",
                (host,),
            )
        if told.get("pages_in"):
            yield Evidence(
                "memory and page cache",
                70,
                f"{told['pages_in']:.0f} pages came back from swap meanwhile",
                "Give the host more room: lower gpu-memory-utilization, or no swap",
                (host,),
            )
        yield from _of_ports(host, told)
    yield from _unequal(summaries)


def _of_ports(host: str, told: Mapping[str, Any]) -> Iterator[Evidence]:
    hcas = told.get("hcas") or {}
    for name, port in hcas.items():
        if port["errors"]:
            rises = ", ".join(f"{error} by {rise:.0f}" for error, rise in sorted(port["errors"].items()))
            yield Evidence(
                "rails",
                60,
                f"Error counters of {name} rose: {rises}",
                "Reseat or replace the cable, and compare MTU and firmware of both ends",
                (host,),
            )
    rdma = {name: port.get("sent_gbps") or 0.0 for name, port in hcas.items()}
    busiest = max(rdma.values(), default=0.0)
    idle = [name for name, rate in rdma.items() if rate < _RAIL_SHARE * busiest]
    if len(rdma) > 1 and busiest > 0 and len(idle) * 2 == len(rdma):
        yield Evidence(
            "rails",
            50,
            f"Half of the RDMA ports carried nothing to speak of: {', '.join(idle)}",
            "Both functions of a cage should carry: run fabric.yml, see NCCL_IB_HCA",
            (host,),
        )
    wires = [net.get("sent_gbps") or 0.0 for net in (told.get("netdevs") or {}).values()]
    if hcas and max(wires, default=0.0) > max(0.001, busiest * (1 + _SOCKET_SHARE)):
        yield Evidence(
            "transport",
            90,
            f"The ranks spoke over sockets: an interface sent {max(wires):.3f} Gb/s, the RDMA ports "
            f"{busiest:.3f}",
            "An all-reduce took 424 us over sockets and 22 over RoCE: run fabric.yml and verify.yml, and see that "
            "NCCL_NET=IB is set",
            (host,),
        )


def _unequal(summaries: Mapping[str, Mapping[str, Any]]) -> Iterator[Evidence]:
    clocks = {
        host: told["clock_mhz"]["median"]
        for host, told in summaries.items()
        if told.get("busy_samples") and told.get("clock_mhz")
    }
    if len(clocks) > 1 and max(clocks.values()) > power.SLOWER_BY * min(clocks.values()):
        slow = min(clocks, key=lambda host: clocks[host])
        shown = ", ".join(f"{host} {clock:g} MHz" for host, clock in clocks.items())
        yield Evidence(
            "clocks",
            80,
            f"The ranks worked at unequal clocks: {shown}",
            "The slower rank sets the pace of both",
            (slow,),
        )


def _of_engine(record: Mapping[str, Any], summaries: Mapping[str, Mapping[str, Any]]) -> Iterator[Evidence]:
    engines = {host: told["engine"] for host, told in summaries.items() if told.get("engine")}
    for host, told in engines.items():
        full = told.get("kv_cache_usage")
        if told.get("preemptions"):
            yield Evidence(
                "KV pressure",
                75,
                f"{told['preemptions']:.0f} sequences were preempted and computed anew",
                "The KV cache is too small for this: fewer sequences or less context",
                (host,),
            )
        elif full and full["high"] >= _KV_FULL:
            yield Evidence(
                "KV pressure",
                40,
                f"The KV cache was full to {full['high']:.0%}",
                "Fewer sequences, less context, or more memory for it",
                (host,),
            )


def _of_findings(findings: Iterable[Mapping[str, Any]]) -> Iterator[Evidence]:
    for each in findings:
        subject = next((subject for prefix, subject in _FINDINGS if str(each["id"]).startswith(prefix)), None)
        if subject is None or each["severity"] == "info":
            continue
        told = f" ({each['evidence']})" if each["evidence"] else ""
        yield Evidence(
            subject,
            _WEIGHTS[each["severity"]],
            f"doctor: {each['summary']}{told}",
            each["remedy"],
            tuple(each["hosts"]),
        )


def _unknown(
    record: Mapping[str, Any],
    comparisons: Sequence[Mapping[str, Any]],
    summaries: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str]]:
    figures = {each["figure"] for each in comparisons}
    if "verify_steps_per_s" not in figures:
        yield "verify step", "there are no verify steps on both sides to compare"
    if not {"mean_accepted_length", "acceptance"} & figures:
        yield "acceptance", "there is no acceptance on both sides to compare"
    if not any("k" in row and row["k"] is not None for row in record["summaries"]):
        yield "k", "the engine did not speculate, or no row counts"
    if not any(told.get("clock_mhz") for told in summaries.values()):
        yield "clocks", "no GPU told its clocks"
    if not any(told.get("power_w") for told in summaries.values()):
        yield "power", "no GPU told its power"
    if not any(told.get("hcas") for told in summaries.values()):
        yield "transport", "no node showed an RDMA port"
        yield "rails", "no node showed an RDMA port"
    if not any(told.get("engine") for told in summaries.values()):
        yield "KV pressure", "the engine's counters were not read meanwhile"
    if not summaries:
        yield "memory and page cache", "no samples of the nodes were taken"
    unseen = [host for host in record["hosts"] if host not in record.get("looked_at", ())]
    if unseen:
        for subject in ("driver", "MTU"):
            yield subject, f"doctor could not look at {', '.join(unseen)}"
