# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL does with its InfiniBand variables, so that a selection can be checked before it is run.

Source: NVIDIA/nccl v2.30 src/misc/{param,utils}.cc and src/transport/net_ib/{init,connect}.cc.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .gid_table import Gid

MAX_SELECTED = 32  # MAX_IB_DEVS
ANY_PORT = -1
AUTOMATIC = -1

# Without RDMA a rank ends at once, in place of going on over sockets at a tenth of the rate.
FAIL_CLOSED = {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0"}
# Decided at every start and nowhere else: a value from elsewhere would outlive the table that it was read from.
OF_EVERY_START = frozenset(
    {
        "NCCL_IB_HCA",
        "NCCL_IB_GID_INDEX",
        "NCCL_IB_ADDR_FAMILY",
        "NCCL_IB_ADDR_RANGE",
        "NCCL_IB_ROCE_VERSION_NUM",
    }
)


@dataclass(frozen=True)
class Selector:
    """A parsed NCCL_IB_HCA: names or prefixes with a port, and the modifiers that hold for all of them."""

    items: tuple[tuple[str, int], ...]
    exclude: bool = False
    exact: bool = False

    def listed(self, device: str, port: int) -> bool:
        for name, number in self.items:
            same = device == name if self.exact else device.startswith(name)
            if same and number in (ANY_PORT, port):
                return True
        return not self.items

    def takes(self, device: str, port: int) -> bool:
        return self.listed(device, port) != self.exclude


def _atoi(text: str) -> int:
    """C's atoi: leading digits in base 10, 0 where there are none."""
    match = re.match(r"\s*([+-]?)([0-9]+)", text)
    return _saturated(match[1], match[2], 10) if match else 0


def _saturated(sign: str, digits: str, base: int) -> int:
    """As C's long does: what is too large for it is its largest."""
    most = (1 << 63) - 1
    size = most if len(digits) > 64 else min(int(digits, base), most)
    return -size if sign == "-" else size


def parse_selector(text: str) -> Selector:
    """`^=name:port,…` as NCCL reads it: a port that is no number is port 0, which no device has."""
    exclude = text.startswith("^")
    text = text[exclude:]
    exact = text.startswith("=")
    items = []
    for entry in text[exact:].split(","):
        name, *numbers = entry.split(":")
        if name and len(items) < MAX_SELECTED:
            items.append((name, _atoi(numbers[0]) if numbers and numbers[0] else ANY_PORT))
    return Selector(tuple(items), exclude, exact)


def parse_gid_index(value: str | int | None) -> int | None:
    """A GID index as somebody wrote it -> the index, or None for automatic (absent or -1).

    Raises ValueError for everything that NCCL would silently read as another number: it parses with
    strtoll(…, 0), so 4,4 is 4, 010 is 8, and a word or a forgotten placeholder is 0, the link-local entry.
    """
    if value is None:
        return None
    text = str(value)
    if text == str(AUTOMATIC):
        return None
    if not re.fullmatch(r"0|[1-9][0-9]*", text):
        raise ValueError(text)
    return int(text)


def strtoll(text: str) -> int:
    """C's strtoll(text, …, 0), which NCCL reads its numbers with: hexadecimal, octal and decimal, 0 for a word."""
    match = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if not match:
        return 0
    base = 16 if match[2][:2] in ("0x", "0X") else 8 if match[2].startswith("0") else 10
    return _saturated(match[1], match[2], base)


def choose_gid(gids: Sequence[Gid], address_range: ipaddress.IPv4Network) -> int:
    """The index that NCCL takes with NCCL_IB_GID_INDEX unset, AF_INET, this range and RoCE version 2.

    ncclIbGetGidIndex() begins at slot 0 and lets each later slot take over only under certain conditions,
    so a first IPv4 entry outside the range can keep its place.
    """
    chosen = next((gid for gid in gids if gid.index == 0), None)
    for gid in gids:
        if gid.index == 0 or not gid.ipv4 or ipaddress.IPv4Address(gid.ipv4) not in address_range:
            continue
        first_ipv4 = chosen is None or not chosen.ipv4
        if first_ipv4 or (gid.type == "roce_v2" and gid.type != chosen.type):
            chosen = gid
    return chosen.index if chosen else 0


def environment(transport: str, given: Mapping[str, object]) -> dict[str, str]:
    """NCCL's variables of a profile: what it gives, and what makes it fail closed where its transport is RDMA."""
    closed = FAIL_CLOSED if transport == "rdma" else {}
    return {**closed, **{name: str(value) for name, value in given.items() if value is not None}}


def environment_problems(transport: str, given: Mapping[str, object]) -> list[str]:
    """What a profile's variables contradict: its own transport, and what every start reads anew."""
    found = [
        f"nccl.environment has {name}, which every start reads anew from the live machine: take it out"
        for name in sorted(OF_EVERY_START & set(given))
    ]
    if transport == "rdma":
        found += [
            f"nccl.environment has {name}={given[name]} while transport is rdma: take it out, or set transport to tcp"
            for name, closed in FAIL_CLOSED.items()
            if name in given and str(given[name]) != closed
        ]
    return found
