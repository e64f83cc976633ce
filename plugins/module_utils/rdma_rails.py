# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA ports that are Up and could carry the fabric, each with its usable GID entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import nccl_rules
from .fabric_wish import Wish
from .findings import Finding, finding
from .gid_table import Gid
from .ibv import Device, Port, cage_of


@dataclass(frozen=True)
class UpRail:
    """One port that is Up, with its RoCE v2 entries for IPv4 addresses; `right` are those in reach."""

    hca: str
    device: Device
    port: Port
    named: bool
    entries: tuple[Gid, ...] = ()
    right: tuple[Gid, ...] = ()

    @property
    def netdev(self) -> str:
        return self.port.netdev or ""

    @property
    def cage(self) -> tuple[str | None, str] | None:
        return cage_of(self.device, self.port)


def hca_names(device: Device) -> dict[int, str]:
    """port -> the name to give NCCL: the port's number only where the device has several."""
    single = len(device.ports) == 1
    return {port.port: device.name if single else f"{device.name}:{port.port}" for port in device.ports}


def read_selector(
    devices: Sequence[Device], texts: Sequence[str], notes: list[Finding]
) -> nccl_rules.Selector | None:
    joined = ",".join(texts)
    selector = nccl_rules.parse_selector(joined)
    if any(name[0] in "^=" for name, number in selector.items):
        notes.append(finding("fabric.hca.selector_invalid", selector=joined))
        return None
    for name, number in selector.items:
        one = replace(selector, items=((name, number),))
        text = name if number == nccl_rules.ANY_PORT else f"{name}:{number}"
        matched = [each.name for each in devices if any(one.listed(each.name, p.port) for p in each.ports)]
        if not matched and not selector.exclude:
            found = ", ".join(hca for each in devices for hca in hca_names(each).values())
            notes.append(finding("fabric.hca.not_found", selector=text, found=found or "none"))
        elif name in matched and len(matched) > 1:
            notes.append(finding("fabric.hca.selector_prefix", selector=text, matched=", ".join(matched)))
    return selector


def up_rails(
    devices: Sequence[Device], selector: nccl_rules.Selector, wanted: Wish, notes: list[Finding]
) -> list[UpRail]:
    named = set() if selector.exclude else {item[0] for item in selector.items}
    rails = []
    for device in devices:
        for port, hca in zip(device.ports, hca_names(device).values(), strict=True):
            if not selector.takes(device.name, port.port) or port.netdev in wanted.exclude_netdevs:
                continue
            rail = UpRail(hca, device, port, device.name in named)
            if _usable(rail, wanted, notes):
                rails.append(_with_entries(rail, notes))
    return rails


def _usable(rail: UpRail, wanted: Wish, notes: list[Finding]) -> bool:
    port = rail.port
    netdev = port.netdev or "no interface"
    if port.link_layer != "Ethernet":
        if rail.named:
            layer = port.link_layer or "unknown"
            notes.append(finding("fabric.port.not_ethernet", hca=rail.hca, netdev=netdev, layer=layer))
        return False
    if port.state != "ACTIVE":
        if rail.named:
            state = port.state or "unknown"
            notes.append(finding("fabric.port.down", hca=rail.hca, netdev=netdev, state=state))
        return False
    if port.netdev is None:
        notes.append(finding("fabric.port.netdev_unknown", hca=rail.hca))
        return False
    if port.carrier is False:
        notes.append(finding("fabric.port.no_carrier", hca=rail.hca, netdev=netdev))
        return False
    least = wanted.min_rate_gbps
    if least and port.rate_gbps is None:
        notes.append(finding("fabric.port.rate_unknown", hca=rail.hca, wanted=f"{least:g}", port=port.port))
        return False
    if least and port.rate_gbps < least:
        rate = f"{port.rate_gbps:g}"
        notes.append(finding("fabric.port.slow", hca=rail.hca, netdev=netdev, rate=rate, wanted=f"{least:g}"))
        return False
    return True


def _with_entries(rail: UpRail, notes: list[Finding]) -> UpRail:
    """Keep the RoCE v2 entries of IPv4 addresses on the port's own interface; say what else was there."""
    names = {"hca": rail.hca, "netdev": rail.netdev, "port": rail.port.port}
    addressed = [gid for gid in rail.port.gids if gid.ipv4]
    entries = []
    for gid in addressed:
        if gid.type is None:
            notes.append(finding("fabric.gid.type_unknown", index=gid.index, address=gid.ipv4, **names))
        elif gid.type == "roce_v2" and gid.ndev != rail.netdev:
            ndev = gid.ndev or "an unknown interface"
            notes.append(
                finding("fabric.gid.other_netdev", index=gid.index, address=gid.ipv4, ndev=ndev, **names)
            )
        elif gid.type == "roce_v2":
            entries.append(gid)
    v1 = [gid for gid in addressed if gid.type == "roce_v1" and gid.ndev == rail.netdev]
    if v1 and not entries:
        notes.append(finding("fabric.gid.v1_only", index=v1[0].index, address=v1[0].ipv4, **names))
    return replace(rail, entries=tuple(entries))
