# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is made of: the ranks of a group, their rails, and what is wrong with them (controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding

if TYPE_CHECKING:
    from netaddr import IPNetwork


@dataclass(frozen=True)
class Rail:
    """One rail of one rank. `address` is in CIDR form; None where the plan could not give one.

    taken: the pair had it already, and not from this collection.
    """

    index: int
    netdev: str
    hca: str | None
    address: IPNetwork | None
    taken: bool = False


@dataclass(frozen=True)
class Rank:
    """One host of the group; `node` is what node_info saw, None where this run did not look at it."""

    number: int
    host: str
    variables: Mapping
    node: Mapping | None


@dataclass
class GroupPlan:
    """The rails of each host and everything that is wrong."""

    rails: dict[str, list[Rail]] = field(default_factory=dict)
    subnets: list[IPNetwork] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
