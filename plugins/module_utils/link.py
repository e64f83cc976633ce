# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rail says of itself, what it was measured to carry, and why the one is less than the other.

A link of 200 Gb/s on PCIe Gen5 x4 with clean counters carried 13 Gb/s in the field (dgx-spark-playbooks#108): only
what was measured proves a rail, and what it says of itself is looked at for the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import perftest
from .findings import Finding, finding
from .ibv import Device
from .kernel_files import Tree
from .selection_notes import FULL_RDMA_MTU

# Healthy functions gave 92 to 98 Gbit/s, degraded ones 12.9 and 13.2; mismatched firmware 24 for both.
DEGRADED_GBPS = (8, 25)
# MTU 1500 costs about 5 % (dgx-spark-playbooks#103): it explains no more than a small lack.
MTU_COSTS_TO = 0.8
# PCIe transfers a second -> bits that arrive of ten or 130 that are sent; from Gen3 on it is 128 of 130.
_OLD_PCIE_GTS = 5.0
# Growth of these in a measurement tells why it was slow. Names of mlx5 and of rxe.
LOST = (
    "out_of_sequence packet_seq_err local_ack_timeout_err implied_nak_seq_err roce_adp_retrans "
    "out_of_seq_request rcvd_seq_err completer_retry_err"
).split()
NO_ROOM = "rnr_nak_retry_err out_of_buffer rcvd_rnr_err send_rnr_err".split()
CONGESTED = "np_cnp_sent rp_cnp_handled np_ecn_marked_roce_packets".split()
_PAUSE = re.compile(r"(?m)^\s*(rx_(?:prio\d_|global_)?pause(?:_ctrl_phy)?|rx_pause_frames):\s*(\d{1,20})\s*$")


@dataclass(frozen=True)
class Pcie:
    """The PCIe link of one function: what it runs and what it can do. Speeds in GT/s for each lane."""

    speed_gts: float
    width: int
    best_speed_gts: float | None
    best_width: int | None

    @property
    def gbps(self) -> float:
        """What its lanes carry after line coding, before PCIe's own headers, in Gbit/s."""
        return self.speed_gts * self.width * (0.8 if self.speed_gts <= _OLD_PCIE_GTS else 128 / 130)

    @property
    def reduced(self) -> bool:
        return bool(
            (self.best_speed_gts and self.speed_gts < self.best_speed_gts)
            or (self.best_width and self.width < self.best_width)
        )


@dataclass(frozen=True)
class State:
    """What one rail says of itself; None is unknown. rate: the port's own words, such as 200 Gb/sec (4X HDR)."""

    netdev: str
    hca: str | None
    carrier: bool | None
    mtu: int | None
    active_mtu: int | None
    rate: str | None
    rate_gbps: float | None
    pcie: Pcie | None


@dataclass(frozen=True)
class Point:
    """One measurement of what this rank sends. hcas: those that sent at the same time. gbps: Gbit/s of all of them."""

    test: str
    peer: str
    hcas: tuple[str, ...]
    bytes: int
    gbps: float | None = None
    latency_us: float | None = None
    mtu: int | None = None


@dataclass(frozen=True)
class Limits:
    """None is not judged. min_rail_gbps: one rail alone; min_total_gbps: all at the same time."""

    min_rail_gbps: float | None = None
    min_total_gbps: float | None = None
    max_latency_us: float | None = None


def pcie_of(tree: Tree, netdev: str) -> Pcie | None:
    """From the function behind an interface; None where it has none or does not tell."""
    folder = f"class/net/{netdev}/device"

    def speed(name: str) -> float | None:
        match = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", tree.text(folder, name) or "")
        return float(match[1]) if match else None

    def width(name: str) -> int | None:
        match = re.fullmatch(r"x?(\d{1,2})", tree.text(folder, name) or "")
        return int(match[1]) or None if match else None

    now = speed("current_link_speed"), width("current_link_width")
    return Pcie(*now, speed("max_link_speed"), width("max_link_width")) if all(now) else None


def states(tree: Tree, devices: Sequence[Device], rails: Iterable[tuple[str, str | None]]) -> list[State]:
    """The rails (netdev, HCA or None) as they are now."""
    ports = {port.netdev: (device, port) for device in devices for port in device.ports if port.netdev}
    found = []
    for netdev, hca in rails:
        device, port = ports.get(netdev, (None, None))
        rate = tree.text("class/infiniband", device.name, f"ports/{port.port}/rate") if device else None
        found.append(
            State(
                netdev,
                hca,
                port.carrier if port else None,
                port.netdev_mtu if port else None,
                port.active_mtu if port else None,
                rate,
                port.rate_gbps if port else None,
                pcie_of(tree, netdev),
            )
        )
    return found


def judge_states(found: Iterable[State], limits: Limits) -> list[Finding]:
    """What rails say of themselves that is less than it should be. Carrier and addresses are judged by others."""
    notes = []
    for state in found:
        names = {"hca": state.hca, "netdev": state.netdev}
        wanted = limits.min_rail_gbps
        if state.hca and state.active_mtu is None:
            notes.append(finding("fabric.mtu.unknown", **names))
        elif state.hca and state.active_mtu < FULL_RDMA_MTU:
            notes.append(
                finding("fabric.mtu.small", active_mtu=state.active_mtu, netdev_mtu=state.mtu, **names)
            )
        if wanted and state.rate_gbps is not None and state.rate_gbps < wanted:
            notes.append(finding("link.rate.low", found=state.rate, wanted=f"{wanted:g}", **names))
        if state.pcie:
            notes += _judge_pcie(state.netdev, state.pcie, wanted)
    return notes


def _judge_pcie(netdev: str, pcie: Pcie, wanted: float | None) -> list[Finding]:
    runs, best = _pcie_words(pcie.speed_gts, pcie.width), _pcie_words(pcie.best_speed_gts, pcie.best_width)
    notes = []
    if pcie.reduced:
        notes.append(finding("link.pcie.reduced", netdev=netdev, found=runs, best=best))
    if wanted and pcie.gbps < wanted:
        values = {"found": runs, "gbps": f"{pcie.gbps:.0f}", "wanted": f"{wanted:g}"}
        notes.append(finding("link.pcie.narrow", netdev=netdev, **values))
    return notes


def _pcie_words(speed_gts: float | None, width: int | None) -> str:
    return f"{speed_gts or 0:g} GT/s x{width or '?'}"


def counters(tree: Tree, hca: str, ethtool: str) -> dict[str, int]:
    """What counts trouble on a rail now. ethtool: what `ethtool -S` prints of its interface, may be empty."""
    device, _colon, port = hca.partition(":")
    folder = f"class/infiniband/{device}/ports/{port or 1}/hw_counters"
    numbers = {name: tree.number(folder, name) for name in (*LOST, *NO_ROOM, *CONGESTED)}
    return {
        **{name: number for name, number in numbers.items() if number is not None},
        **{name: int(number) for name, number in _PAUSE.findall(ethtool)},
    }


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after if after[name] > before.get(name, after[name])}


def cause(gbps: float, wanted: float, state: State, grown: Mapping[str, int]) -> tuple[str, str]:
    """Why a rail carries so little, and what to do: what the rail itself shows, else what the rate tells."""
    counted = ", ".join(f"{name} +{number}" for name, number in grown.items())
    pcie = state.pcie
    if pcie and (pcie.reduced or pcie.gbps < gbps * 1.2):
        return (
            f"its function runs PCIe {_pcie_words(pcie.speed_gts, pcie.width)}, {pcie.gbps:.0f} Gb/s at most",
            "Switch the machine off, take its power away for a minute, and start it; then `fwupdmgr update`",
        )
    if state.active_mtu and state.active_mtu < FULL_RDMA_MTU and gbps > MTU_COSTS_TO * wanted:
        return (
            f"its RDMA MTU is {state.active_mtu}, not {FULL_RDMA_MTU}",
            "Run `ansible-playbook site.yml --tags fabric`, which sets MTU 9000 on both ends, and measure again",
        )
    if any(name in grown for name in LOST):
        return (
            f"packets were lost or came out of order ({counted})",
            f"Reseat or change the cable; compare `ethtool -a {state.netdev}` (pause) and MTU of both ends, and of a "
            "switch between them",
        )
    if any("pause" in name for name in grown) or any(name in grown for name in (*NO_ROOM, *CONGESTED)):
        return (
            f"the other end asks to wait ({counted})",
            "Look at the peer: PCIe lanes (`lspci -vv`), memory pressure, other traffic; compare "
            f"`ethtool -a {state.netdev}` of both",
        )
    if DEGRADED_GBPS[0] <= gbps <= DEGRADED_GBPS[1]:
        return (
            "link, lanes and counters are good, and this rate is a degraded NIC's (13 Gb/s in the field)",
            "Switch both machines off, take their power away for a minute, and start them; then compare `fw_ver` of "
            "`ibv_devinfo` on both and update (`fwupdmgr update`)",
        )
    return (
        "nothing that the rail shows tells why",
        "Measure again with nothing else running; compare link, MTU and firmware (`fw_ver` of `ibv_devinfo`) of both "
        "ends",
    )


def judge_points(
    points: Iterable[Point], found: Iterable[State], grown: Mapping[str, Mapping[str, int]], limits: Limits
) -> list[Finding]:
    """What was measured against its limits. grown: by HCA, how far its counters of trouble went up meanwhile."""
    by_hca = {state.hca: state for state in found}
    notes = []
    for point in points:
        state = by_hca[point.hcas[0]]
        values = {"hca": state.hca, "netdev": state.netdev, "peer": point.peer}
        if point.test == perftest.LATENCY:
            if limits.max_latency_us is not None and point.latency_us > limits.max_latency_us:
                wanted = f"{limits.max_latency_us:g}"
                notes.append(
                    finding(
                        "link.latency.high",
                        bytes=point.bytes,
                        found=point.latency_us,
                        wanted=wanted,
                        **values,
                    )
                )
        elif len(point.hcas) == 1:
            if limits.min_rail_gbps is not None and point.gbps < limits.min_rail_gbps:
                why, remedy = cause(point.gbps, limits.min_rail_gbps, state, grown.get(state.hca, {}))
                values |= {"found": f"{point.gbps:g}", "wanted": f"{limits.min_rail_gbps:g}"}
                rate = state.rate or "an unknown rate"
                notes.append(finding("link.bandwidth.low", rate=rate, cause=why, remedy=remedy, **values))
        elif limits.min_total_gbps is not None and point.gbps < limits.min_total_gbps:
            notes.append(_together(point, points, limits))
    return notes


def _together(point: Point, points: Iterable[Point], limits: Limits) -> Finding:
    alone = {
        each.hcas[0]: each.gbps
        for each in points
        if each.test == perftest.BANDWIDTH and each.peer == point.peer and len(each.hcas) == 1
    }
    shown = ", ".join(f"{hca} {gbps:g}" for hca, gbps in alone.items())
    remedy = "Mend the rail that is slow alone first"
    if limits.min_rail_gbps is None or all(gbps >= limits.min_rail_gbps for gbps in alone.values()):
        remedy = (
            "Each alone is good: they share something. See that they are the two functions of one cage and not two "
            "names of one, and the PCIe lanes of both (`lspci -vv`)"
        )
    return finding(
        "link.bandwidth.together",
        hcas=" and ".join(point.hcas),
        peer=point.peer,
        found=f"{point.gbps:g}",
        wanted=f"{limits.min_total_gbps:g}",
        remedy=remedy,
        evidence=f"alone, in Gb/s: {shown or 'not measured'}",
    )
