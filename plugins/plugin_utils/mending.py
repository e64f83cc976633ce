# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of site.yml does about what the look at its beginning found (controller only).

It stops on errors that nothing in it mends, says who mends the others, and looks again at its end whether they are
gone. The catalogue tells who mends a finding and how long it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE, Finding, worst_first
from ansible_collections.tandem.spark.plugins.plugin_utils import doctor
from ansible_collections.tandem.spark.plugins.plugin_utils.report import line

# Of a profile that computes without a GPU, or whose ranks speak over sockets, these tell nothing.
OF_THE_GPU = ("driver.", "power.", "plan.gpu.", "host.gpu.", "container.gpu.", "container.foreign.gpu")
OF_RDMA = (
    "fabric.address.",
    "fabric.gid.",
    "fabric.hca.",
    "fabric.mtu.",
    "fabric.port.",
    "fabric.rdma.",
    "fabric.selection.",
    "fabric.subnet.no_hca",
    "fabric.rail.half_port",
)
# The kernel's log keeps them till the next boot, also where the GPU was started since.
OF_NO_GPU = ("driver.gpu.not_started", "driver.gpu.doe")
OF_THE_ROLL_OUT = ("engine", "proof")  # nothing of them happens while a rank takes no part


@dataclass(frozen=True)
class Sorted:
    """stops: errors that nothing in this run mends. mended: what a role of it does. ends: errors of the engine's
    present start, which a restart may end. told: everything else that is worth a line."""

    stops: Sequence[Finding] = ()
    mended: Sequence[Finding] = ()
    ends: Sequence[Finding] = ()
    told: Sequence[Finding] = ()

    @property
    def again(self) -> list[dict[str, str]]:
        """What must be gone at the end: [{id, host}]."""
        return [
            {"id": each.id, "host": host}
            for each in (*self.mended, *self.ends)
            for host in each.hosts or ("",)
        ]


def of_group(hosts: Sequence[str], looks: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Everything that the looks at the ranks of one group found, on each and between them.

    A host that this run did not look at (--limit) has no look and is left out.
    """
    seen = {host: looks[host] for host in hosts if doctor.node_of(looks.get(host) or {}) is not None}
    of_nodes = [each for host, look in seen.items() for each in doctor.of_node(host, host, look)]
    return doctor.merged(
        [*of_nodes, *doctor.of_group({host: doctor.node_of(look) for host, look in seen.items()})]
    )


def relevant(found: Finding, profile: Mapping[str, Any] | None, nodes: Mapping[str, Mapping | None]) -> bool:
    """Does the finding say anything of what this profile needs? Without a profile everything counts."""
    if found.id in OF_NO_GPU:
        there = [((nodes.get(host) or {}).get("gpu") or {}).get("present") for host in found.hosts]
        if there and all(there):
            return False
    if profile is None:
        return True
    # That the look itself failed has one id, whatever was looked at.
    of_the_gpu = found.id.startswith(OF_THE_GPU) or (
        found.id == "host.look.failed" and " GPU " in f"{found.summary} "
    )
    idle = of_the_gpu and profile.get("accelerator") == "none"
    return not (idle or (found.id.startswith(OF_RDMA) and profile.get("transport") == "socket"))


def sort(
    findings: Iterable[Finding], mends: Callable[[Finding], bool], planned: Iterable[Finding] = ()
) -> Sorted:
    """`mends`: does the role that the catalogue names for a finding mend it in this very run?

    planned: what the plan found itself and tells; it is left out here.
    """
    known = {(each.id, each.summary, host) for each in planned for host in each.hosts}
    stops, mended, ends, told = [], [], [], []
    for each in worst_first(findings):
        lasts = CATALOGUE[each.id].lasts
        if each.severity == "info" or {(each.id, each.summary, host) for host in each.hosts} & known:
            continue
        if each.fixed_by and mends(each):
            mended.append(each)
        elif each.severity != "error" or each.fixed_by or lasts == "boot":
            told.append(each)
        else:
            (ends if lasts == "start" else stops).append(each)
    return Sorted(stops, mended, ends, told)


def mends(
    run_tags: Iterable[str],
    skip_tags: Iterable[str],
    whole: bool,
    variables: Mapping[str, Mapping[str, Any]],
) -> Callable[[Finding], bool]:
    """Which roles act in this run: by its tags, whether all ranks take part, and what the variables leave alone."""
    only, left_out = set(run_tags), set(skip_tags)

    def acts(found: Finding) -> bool:
        role = found.fixed_by
        tag = "engine" if role in OF_THE_ROLL_OUT else role
        if not ({"all", tag} & only or not only) or tag in left_out:
            return False
        if role in OF_THE_ROLL_OUT and not whole:
            return False
        holds = [variables.get(host, {}).get("tandem_driver_policy") != "report" for host in found.hosts]
        return role != "driver" or all(holds)

    return acts


def left(findings: Iterable[Finding], again: Iterable[Mapping[str, str]]) -> list[Finding]:
    """What is still there of that which was to be gone."""
    wanted = {(each["id"], each["host"]) for each in again}
    return [each for each in findings if wanted & {(each.id, host) for host in each.hosts or ("",)}]


def text(found: Sorted, check_mode: bool) -> str:
    """A line for each finding that does not stop the run, and what becomes of it; empty where there is none."""
    be = "would be" if check_mode else "will be"
    lines = [f"{be} fixed by {each.fixed_by}: {line(each, remedy=False)}" for each in found.mended]
    lines += [
        f"of the engine's present start, looked at again at the end: {line(each)}" for each in found.ends
    ]
    lines += [line(each) for each in found.told]
    return "\n".join(lines)
