# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a fabric, and what a live node knows besides its GID tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

# Where the prefix length is unknown (a GID has none): RFC 3927 for link-local, else the usual rail.
ASSUMED_PREFIX = 24
LINK_LOCAL = IPv4Network("169.254.0.0/16")


class WishError(ValueError):
    """An option that cannot be understood; the text says which, and what was wanted."""


@dataclass(frozen=True)
class Wish:
    """What the caller knows. Everything may be empty: then the tables alone are judged."""

    subnets: tuple[IPv4Network, ...] = ()
    peers: tuple[IPv4Address, ...] = ()
    hcas: tuple[str, ...] = ()
    exclude_netdevs: tuple[str, ...] = ()
    min_rate_gbps: float | None = None
    gid_index: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """What a live node knows besides its tables.

    addresses: interface -> its IPv4 addresses with prefix. answers: peer -> interfaces on which it answered,
    None where nothing was tried. tried: the interfaces on which that was tried.
    """

    addresses: Mapping[str, Sequence[IPv4Interface]] = field(default_factory=dict)
    answers: Mapping[IPv4Address, frozenset[str]] | None = None
    tried: tuple[str, ...] = ()

    def network(self, netdev: str, address: IPv4Address) -> IPv4Network:
        for interface in self.addresses.get(netdev, ()):
            if interface.ip == address:
                return interface.network
        if address in LINK_LOCAL:
            return LINK_LOCAL
        return IPv4Network((address, ASSUMED_PREFIX), strict=False)


def wish(
    subnets: Iterable[str] = (),
    peers: Iterable[str] = (),
    hcas: Iterable[str] = (),
    exclude_netdevs: Iterable[str] = (),
    min_rate_gbps: float | None = None,
    gid_index: str | None = None,
) -> Wish:
    """Options as text -> a Wish; every one that cannot be understood is named in one WishError."""
    problems: list[str] = []

    def parsed(what: str, example: str, kind: Any, texts: Iterable[str], **options: bool) -> tuple[Any, ...]:
        values = []
        for text in texts:
            try:
                values.append(kind(text, **options))
            except ValueError:
                problems.append(f"{text!r} is no {what}, such as {example}")
        return tuple(values)

    subnet_values = parsed("IPv4 subnet", "192.168.177.0/29", IPv4Network, subnets, strict=False)
    peer_values = parsed("IPv4 address of a peer", "192.168.177.2", IPv4Address, peers)
    if min_rate_gbps is not None and not 0 <= min_rate_gbps < float("inf"):  # nan is not either
        problems.append(f"min_rate_gbps {min_rate_gbps} is no rate, such as 100")
    if problems:
        raise WishError("; ".join(problems))
    return Wish(subnet_values, peer_values, tuple(hcas), tuple(exclude_netdevs), min_rate_gbps, gid_index)
