# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails as wanted and as found, and the comparison of both. Pure functions, no effects.

A rail is one network interface of the fabric with one IPv4 address in a subnet of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, ip_address
from typing import Any

from .findings import Finding, finding
from .network import addresses_of, items

PING_OVERHEAD = 28  # bytes of the IPv4 and ICMP headers
MTUS = range(1280, 65536)  # the least that IPv6 needs, the most that an IPv4 packet has


class RailsError(Exception):
    """What was found, what was wanted and what to do, one problem a line."""


@dataclass(frozen=True)
class Rail:
    """One rail as wanted. address: with prefix length; peers: the other ranks' bare addresses; mtu: bytes."""

    netdev: str
    address: str
    mtu: int
    peers: tuple[str, ...] = ()

    @property
    def subnet(self) -> IPv4Network:
        return IPv4Interface(self.address).network


@dataclass(frozen=True)
class Address:
    """One IPv4 address of an interface. lasting: set by hand or by a file, not leased and not link-local."""

    text: str
    lasting: bool


@dataclass(frozen=True)
class Link:
    """One interface as found. up: admin state; carrier: the cable; master: the bond or bridge above it."""

    name: str
    mac: str
    mtu: int
    up: bool
    carrier: bool
    master: str | None
    addresses: tuple[Address, ...]

    @property
    def texts(self) -> list[str]:
        return [address.text for address in self.addresses]


@dataclass(frozen=True)
class Route:
    """One IPv4 route of the main table; destination is `default` or a network."""

    destination: str
    netdev: str


@dataclass(frozen=True)
class Difference:
    """One thing of a rail that is not as wanted; subject is address, mtu or down."""

    netdev: str
    subject: str
    found: str
    wanted: str

    def finding(self) -> Finding:
        values = {"netdev": self.netdev, "found": self.found, "wanted": self.wanted}
        return finding(f"fabric.rail.{self.subject}", **values)


def read_rails(planned: Iterable[Mapping[str, Any]], mtu: int) -> list[Rail]:
    """Read the plan's rails; RailsError names every value that cannot be."""
    rails: list[Rail] = []
    problems: list[str] = []
    if mtu not in MTUS:
        problems.append(
            f"{mtu} is no MTU of a rail, wanted {MTUS.start} to {MTUS.stop - 1} bytes: 9000 as a rule"
        )
    for item in planned:
        netdev, address = (str(item.get(key) or "") for key in ("netdev", "address"))
        rail = Rail(netdev, address, mtu, tuple(item.get("peers") or ()))
        problems += _problems(rail, rails)
        rails.append(rail)
    if problems:
        raise RailsError("\n".join(problems))
    return rails


def _problems(rail: Rail, earlier: Sequence[Rail]) -> list[str]:
    name = rail.netdev or "a rail without netdev"
    problems = [] if rail.netdev else [f"a rail ({rail.address}) has no netdev: name its interface"]
    if rail.netdev == "lo":
        problems.append("lo never leaves this node: name the interface that leads to the peer")
    if rail.netdev in [other.netdev for other in earlier]:
        problems.append(f"{name} is named twice: one rail, one interface")
    try:
        own = IPv4Interface(rail.address)
    except ValueError:
        wanted = "wanted IPv4 with a prefix, such as 192.168.177.1/30"
        return [*problems, f"{name} has address {rail.address!r}, {wanted}"]
    if own.network.prefixlen > 30:
        problems.append(f"{name} has address {own}, which leaves no room for a peer: use /30 or wider")
    elif own.ip in (own.network.network_address, own.network.broadcast_address):
        problems.append(f"{name} has address {own}, which is the network's or the broadcast one: use another")
    for other in earlier:
        try:
            overlap = other.subnet.overlaps(own.network)
        except ValueError:
            continue  # told about when it was read
        if overlap:
            problems.append(f"{name} ({own}) is in the subnet of {other.netdev}: give every rail its own")
    for peer in rail.peers:
        try:
            inside = ip_address(peer) in own.network and ip_address(peer) != own.ip
        except ValueError:
            inside = False
        if not inside:
            problems.append(f"peer {peer} of {name} is not another address in {own.network}")
    return problems


def read_links(text: str) -> dict[str, Link]:
    """Read `ip -j address show`."""
    links = {}
    for item in items(text):
        if not isinstance(item.get("ifname"), str):
            continue
        flags, mtu = item.get("flags"), item.get("mtu")
        flags = flags if isinstance(flags, list) else []
        addresses = tuple(
            Address(f"{a['local']}/{a['prefixlen']}", a.get("scope") == "global" and not a.get("dynamic"))
            for a in addresses_of(item)
            if a.get("family") == "inet"
        )
        links[item["ifname"]] = Link(
            item["ifname"],
            item.get("address", ""),
            mtu if isinstance(mtu, int) else 0,
            "UP" in flags,
            "LOWER_UP" in flags,
            item.get("master"),
            addresses,
        )
    return links


def read_routes(text: str) -> list[Route]:
    """Read `ip -j -4 route show`; routes without an interface (blackhole, multipath) are left out."""
    return [
        Route(item["dst"], item["dev"])
        for item in items(text)
        if isinstance(item.get("dev"), str) and isinstance(item.get("dst"), str)
    ]


def differences(rails: Iterable[Rail], links: Mapping[str, Link]) -> list[Difference]:
    """What is live and not as wanted; a missing interface is a refusal and not listed here."""
    found: list[Difference] = []
    for rail in rails:
        link = links.get(rail.netdev)
        if link is None:
            continue
        if not link.up:
            found.append(Difference(rail.netdev, "down", "down", "up"))
        if link.mtu != rail.mtu:
            found.append(Difference(rail.netdev, "mtu", str(link.mtu), str(rail.mtu)))
        if rail.address not in link.texts:
            has = ", ".join(link.texts) or "no address"
            found.append(Difference(rail.netdev, "address", has, rail.address))
    return found


def refusals(
    rails: Sequence[Rail],
    abandoned: Iterable[str],
    links: Mapping[str, Link],
    routes: Sequence[Route],
    management: Iterable[str],
) -> list[Finding]:
    """Everything for which nothing may be touched.

    abandoned: rails of an earlier plan, which are about to lose their configuration.
    management: names found from outside; the default routes are looked at here as well.
    """
    reasons = {route.netdev: "default route" for route in routes if route.destination == "default"}
    reasons.update(dict.fromkeys(management, "management interface"))
    if not reasons:
        return [finding("host.management.unknown")]
    ours = [*(rail.netdev for rail in rails), *abandoned]
    refused = [
        finding("fabric.rail.management", netdev=netdev, reason=reasons[netdev])
        for netdev in ours
        if netdev in reasons
    ]
    elsewhere = _networks({name: link for name, link in links.items() if name not in ours}, routes)
    for rail in rails:
        link = links.get(rail.netdev)
        if link is None:
            refused.append(finding("fabric.rail.missing", netdev=rail.netdev, found=", ".join(sorted(links))))
            continue
        if link.master:
            refused.append(finding("fabric.rail.enslaved", netdev=rail.netdev, master=link.master))
        refused += [
            finding(
                "fabric.subnet.overlaps_route", subnet=str(rail.subnet), route=str(network), netdev=netdev
            )
            for network, netdev in elsewhere
            if network.overlaps(rail.subnet)
        ]
    return refused


def _networks(links: Mapping[str, Link], routes: Iterable[Route]) -> list[tuple[IPv4Network, str]]:
    """The networks that these interfaces reach: packets for a peer in one of them would leave there."""
    found = {(IPv4Interface(text).network, name) for name, link in links.items() for text in link.texts}
    found |= {
        (IPv4Network(route.destination), route.netdev)
        for route in routes
        if route.destination != "default" and route.netdev in links
    }
    return sorted(found)


def lost(
    rails: Sequence[Rail], written: Iterable[str], links: Mapping[str, Link], paths: Iterable[str]
) -> list[Finding]:
    """Rails that the plan has lost because their cable is out: found rails are those with a carrier.

    written: what files of ours (paths) configure. A pair that was cabled anew has other rails, not fewer.
    """
    wanted = {rail.netdev for rail in rails}
    if not wanted < set(written):
        return []
    return [
        finding("fabric.rail.lost", netdev=netdev, paths=", ".join(paths))
        for netdev in sorted(set(written) - wanted)
        if netdev in links and not links[netdev].carrier
    ]


def extra_addresses(rails: Iterable[Rail], links: Mapping[str, Link]) -> list[Finding]:
    """Addresses that somebody else gave to a rail."""
    return [
        finding("fabric.rail.extra_address", netdev=rail.netdev, address=text, bare=text.split("/")[0])
        for rail in rails
        if rail.netdev in links
        for text in links[rail.netdev].texts
        if text != rail.address
    ]


def line(link: Link) -> str:
    """An interface in words."""
    return (
        f"{link.name}: {'up' if link.up else 'down'}, mtu {link.mtu}, {', '.join(link.texts) or 'no address'}"
    )


def picture(rails: Iterable[Rail], links: Mapping[str, Link] | None = None) -> str:
    """The rails in words, one a line, as found or (without links) as wanted: the two sides of a diff."""
    lines = []
    for rail in rails:
        if links is None:
            lines.append(f"{rail.netdev}: up, mtu {rail.mtu}, {rail.address}")
        elif rail.netdev in links:
            lines.append(line(links[rail.netdev]))
    return "\n".join(lines) + "\n"
