# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guard is told by the node's plan: who it is, where the others are, how long it waits. All problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import IPv4Address
from typing import Any

from . import guard_http, guard_speech
from .engine_state import UNITS
from .guard_rules import Limits


class GuardError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Setup:
    """speech: the head's address on the first rail; http: where this rank's own page is."""

    group: str
    rank: int
    hosts: tuple[str, ...]
    speech: tuple[str, int]
    http: tuple[str, int]
    limits: Limits
    plan: Mapping[str, Any]

    @property
    def ranks(self) -> int:
        return len(self.hosts)

    @property
    def unit(self) -> str:
        return UNITS[min(self.rank, 1)]


def read_setup(plan: Mapping[str, Any] | None, path: str) -> Setup:
    """plan: as read from `path`, or None. Its `guard` may set ports and limits. Raises GuardError."""
    if plan is None:
        raise GuardError(f"There is no plan to read at {path}. Run site.yml, which writes it.")
    hosts, rank, given = plan.get("hosts"), plan.get("rank"), plan.get("guard", {})
    wrong = []
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) for host in hosts):
        wrong.append(f"hosts is {hosts!r}, wanted the names of the ranks' hosts")
    elif not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < len(hosts):
        wrong.append(f"rank is {rank!r}, wanted one of 0 to {len(hosts) - 1}")
    try:
        head = str(IPv4Address(plan.get("master_addr")))
    except ValueError:
        head = ""
        wrong.append(
            f"master_addr is {plan.get('master_addr')!r}, wanted the head's address on its first rail"
        )
    if not isinstance(given, Mapping):
        given, wrong = {}, [*wrong, f"guard is {given!r}, wanted a map"]
    limits = given.get("limits", {})
    if not isinstance(limits, Mapping):
        limits, wrong = {}, [*wrong, f"guard.limits is {limits!r}, wanted a map"]
    wrong += _wrong_limits(limits)
    ports = {
        name: given.get(name, port)
        for name, port in (("port", guard_speech.PORT), ("http_port", guard_http.PORT))
    }
    for name, port in ports.items():
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
            wrong.append(f"guard.{name} is {port!r}, wanted a port")
    http_host = given.get("http_host", "0.0.0.0")
    try:
        IPv4Address(http_host)
    except ValueError:
        wrong.append(f"guard.http_host is {http_host!r}, wanted an IPv4 address")
    if wrong:
        raise GuardError("\n".join(f"{path}: {problem}. Write it anew with site.yml." for problem in wrong))
    speech, http = (head, ports["port"]), (http_host, ports["http_port"])
    return Setup(str(plan.get("group")), rank, tuple(hosts), speech, http, Limits(**limits), plan)


def _wrong_limits(limits: Mapping[str, Any]) -> list[str]:
    known = {field.name for field in fields(Limits)}
    wrong = [f"guard.limits.{name} is unknown" for name in limits if name not in known]
    return wrong + [
        f"guard.limits.{name} is {value!r}, wanted a number above 0"
        for name, value in limits.items()
        if name in known and (not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0)
    ]
