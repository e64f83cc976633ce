# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which HCAs carry the fabric, and whether one GID index can be pinned for all of them.

Pure: devices and wishes in, a selection and findings out. The rules:

- An HCA is chosen by its own address: a RoCE v2 entry for an IPv4 address in a wanted subnet, on its own
  interface. Port state, rate, names and the order of devices prove nothing.
- An index is pinned only where it is such an entry on every chosen HCA, and no Up twin is still to join.
  Otherwise NCCL_IB_GID_INDEX is absent (never empty) and family, range and RoCE version guide NCCL.
- IPv4 link-local addresses are the vendor's set-up on some pairs and left-overs on others: the peer decides.
- What could not be read is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from . import nccl_rules, selection_notes
from .fabric_wish import Surroundings, Wish
from .findings import CATALOGUE, Finding, finding
from .gid_table import Gid
from .ibv import Device
from .rdma_rails import UpRail, read_selector, up_rails


@dataclass(frozen=True)
class Selection:
    """hcas and netdevs in the same order; per_hca also names Up HCAs without an address (None).

    strategy: pinned, dynamic or none. env: the NCCL variables to set, as text; a key that is not there must
    not be set at all.
    """

    hcas: tuple[str, ...]
    netdevs: tuple[str, ...]
    gid_index: int | None
    per_hca: dict[str, int | None]
    strategy: str
    reason: str
    env: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hcas": list(self.hcas), "netdevs": list(self.netdevs)}


def select(
    devices: Sequence[Device], wish: Wish, around: Surroundings | None = None
) -> tuple[Selection, list[Finding]]:
    """Choose the HCAs of one node. Never raises for what the tables hold."""
    around = around or Surroundings()
    notes: list[Finding] = []
    selector = read_selector(devices, wish.hcas, notes)
    if selector is None:
        return Selection((), (), None, {}, "none", "the HCA selectors cannot be understood", {}), notes
    rails = _in_reach(up_rails(devices, selector, wish, notes), wish, around)
    chosen = [rail for rail in rails if rail.right]
    selection = _conclude(rails, chosen, wish, around, bool(devices))
    notes += selection_notes.left_out(rails, wish)
    notes += selection_notes.chosen(chosen, around)
    notes += selection_notes.twins(chosen, devices)
    notes += selection_notes.coverage(chosen, wish, around)
    if selection.strategy == "dynamic":
        notes += _dynamic_notes(chosen, selection, around)
    if selection.strategy == "none" and (wish.subnets or wish.peers or wish.hcas):
        # Addresses can be given; a cable or a device cannot.
        mender = CATALOGUE["fabric.selection.none"].fixed_by if rails else None
        notes.append(replace(finding("fabric.selection.none", reason=selection.reason), fixed_by=mender))
    if wish.gid_index is not None:
        notes += selection_notes.wanted_index(wish.gid_index, chosen)
    return selection, notes


def _in_reach(rails: Sequence[UpRail], wish: Wish, around: Surroundings) -> list[UpRail]:
    """Keep in `right` the entries whose address is one of the fabric's."""
    own = {IPv4Address(gid.ipv4) for rail in rails for gid in rail.entries}
    peers = tuple(peer for peer in wish.peers if peer not in own)

    def right(rail: UpRail, gid: Gid) -> bool:
        address = IPv4Address(gid.ipv4)
        if wish.subnets:
            inside = any(address in subnet for subnet in wish.subnets)
        else:
            network = around.network(rail.netdev, address)
            inside = not peers or any(peer in network for peer in peers)
        if inside and gid.link_local and peers and around.answers is not None:
            return any(rail.netdev in around.answers.get(peer, ()) for peer in peers)
        return inside

    kept = [replace(rail, right=tuple(gid for gid in rail.entries if right(rail, gid))) for rail in rails]
    routable = any(not gid.link_local for rail in kept for gid in rail.right)
    if routable and not wish.subnets and not peers:
        # Nobody says what is wanted: beside a real address, a link-local one is a left-over.
        kept = [replace(r, right=tuple(gid for gid in r.right if not gid.link_local)) for r in kept]
    return kept


def _conclude(
    rails: Sequence[UpRail], chosen: Sequence[UpRail], wish: Wish, around: Surroundings, any_device: bool
) -> Selection:
    per_hca = {rail.hca: rail.right[0].index if rail.right else None for rail in rails if _counts(rail)}
    if not chosen:
        return Selection((), (), None, per_hca, "none", _why_none(rails, wish, any_device), {})
    common = set.intersection(*({gid.index for gid in rail.right} for rail in chosen))
    joining = _still_to_join(rails, chosen, wish)
    if common and not joining:
        index = min(common)
        per_hca.update({rail.hca: index for rail in chosen})
        strategy, env = "pinned", {"NCCL_IB_GID_INDEX": str(index)}
        reason = f"index {index} is the RoCE v2 entry of the right IPv4 address on every chosen HCA"
    else:
        index, strategy = None, "dynamic"
        env = {
            "NCCL_IB_ADDR_FAMILY": "AF_INET",
            "NCCL_IB_ADDR_RANGE": str(_range(chosen, around)),
            "NCCL_IB_ROCE_VERSION_NUM": "2",
        }
        indices = ", ".join(f"{name}={number}" for name, number in per_hca.items() if number is not None)
        reason = f"no index is right for every chosen HCA: {indices}"
        if joining:
            twins = ", ".join(joining)
            reason = f"{twins} is Up in the same cage and has no address yet; right now: {indices}"
    hcas = tuple(rail.hca for rail in chosen)
    env["NCCL_IB_HCA"] = "=" + ",".join(hcas)
    return Selection(hcas, tuple(rail.netdev for rail in chosen), index, per_hca, strategy, reason, env)


def _counts(rail: UpRail) -> bool:
    """HCAs with an address elsewhere are no part of the fabric; those with none may become one."""
    return bool(rail.right) or not rail.entries


def _still_to_join(rails: Sequence[UpRail], chosen: Sequence[UpRail], wish: Wish) -> list[str]:
    """Up twins without an address, unless the wanted subnets are complete without them.

    Their table is not filled yet, so an index that holds for the twin may not hold for both.
    """
    addresses = [IPv4Address(gid.ipv4) for rail in chosen for gid in rail.right]
    if wish.subnets and all(any(a in subnet for a in addresses) for subnet in wish.subnets):
        return []
    cages = {rail.cage for rail in chosen if rail.cage}
    return [rail.hca for rail in rails if not rail.entries and rail.cage in cages]


def _range(chosen: Sequence[UpRail], around: Surroundings) -> IPv4Network:
    """The smallest network that holds the rails' networks: NCCL takes one range for all HCAs."""
    networks = [around.network(rail.netdev, IPv4Address(rail.right[0].ipv4)) for rail in chosen]
    common = networks[0]
    while not all(network.subnet_of(common) for network in networks):
        common = common.supernet()
    return common


def _why_none(rails: Sequence[UpRail], wish: Wish, any_device: bool) -> str:
    if not any_device:
        return "there is no RDMA device"
    if not rails:
        return "no port is Up among the devices that may be used"
    if not any(rail.entries for rail in rails):
        names = ", ".join(f"{rail.hca} ({rail.netdev})" for rail in rails)
        return f"no RoCE v2 entry for an IPv4 address on {names}"
    held = ", ".join(f"{rail.hca} {gid.ipv4}" for rail in rails for gid in rail.entries)
    return f"no address is in {selection_notes.wanted_text(wish)}: {held}"


def _dynamic_notes(chosen: Sequence[UpRail], selection: Selection, around: Surroundings) -> list[Finding]:
    notes = []
    if len({selection.per_hca[rail.hca] for rail in chosen}) > 1:
        indices = ", ".join(f"{rail.hca}={selection.per_hca[rail.hca]}" for rail in chosen)
        notes.append(finding("fabric.gid.no_common_index", indices=indices))
    address_range = _range(chosen, around)
    for rail in chosen:
        taken = nccl_rules.choose_gid(rail.port.gids, address_range)
        right = [gid.index for gid in rail.right]
        if taken not in right:
            notes.append(
                finding(
                    "fabric.gid.dynamic_misses",
                    hca=rail.hca,
                    netdev=rail.netdev,
                    chosen=taken,
                    wanted=right[0],
                )
            )
    return notes
