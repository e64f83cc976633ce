# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of site.yml does about what it found: it stops, mends, or only tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE, Finding
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding as make
from ansible_collections.tandem.spark.plugins.plugin_utils import mending

ROOT = Path(__file__).parents[2]
RDMA = {"accelerator": "cuda", "transport": "rdma"}
REHEARSAL = {"accelerator": "none", "transport": "socket"}


def found(finding_id: str, *hosts: str) -> Finding:
    entry = CATALOGUE[finding_id]
    return Finding(
        id=finding_id,
        severity=entry.severity,
        scope=entry.scope,
        hosts=hosts or ("spark-a",),
        summary="said",
        evidence="",
        remedy="do",
        fixed_by=entry.fixed_by,
        source="",
    )


def acts(run=("all",), skip=(), whole=True, **variables):
    return mending.mends(run, skip, whole, {"spark-a": variables})


PLACES = ("stops", "mended", "ends", "told")


def place(finding_id: str, mends=None) -> str | None:
    done = mending.sort([found(finding_id)], mends or acts())
    return next((name for name in PLACES if getattr(done, name)), None)


@pytest.mark.parametrize(
    ("finding_id", "expected"),
    [
        ("driver.kernel.no_module", "stops"),
        ("driver.flavour.closed", "stops"),
        ("driver.xid.recovery", "stops"),
        ("driver.userspace.mismatch", "stops"),
        ("memory.gpu.orphan", "stops"),
        ("power.clocks.stuck", "stops"),
        ("host.management.unknown", "stops"),
        ("host.packages.missing", "mended"),
        ("status.plan.none", "mended"),
        ("status.unit.stopped", "mended"),
        ("status.api.silent", "mended"),
        ("status.proof.rejected", "mended"),
        ("status.guard.given_up", "mended"),
        ("status.proof.other_start", "mended"),
        ("driver.holds.none", "mended"),
        ("fabric.mtu.small", "mended"),
        ("engine.command_line", "ends"),
        ("nccl.transport.other", "ends"),
        ("memory.host.exhausted", "ends"),
        ("memory.host.oom", "told"),
        ("driver.pair.contested", "told"),
        ("driver.pair.unlisted", None),
    ],
)
def test_what_becomes_of_a_finding(finding_id, expected):
    assert place(finding_id) == expected


@pytest.mark.parametrize(
    ("finding_id", "mends", "expected"),
    [
        ("host.packages.missing", acts(run=["node"]), "mended"),
        ("host.packages.missing", acts(run=["fabric"]), "told"),
        ("host.packages.missing", acts(skip=["node"]), "told"),
        ("status.proof.none", acts(run=["engine"]), "mended"),
        ("status.unit.stopped", acts(whole=False), "told"),
        ("host.packages.missing", acts(whole=False), "mended"),
        ("driver.holds.none", acts(tandem_driver_policy="hold"), "mended"),
        ("driver.holds.none", acts(tandem_driver_policy="report"), "told"),
    ],
)
def test_only_a_role_that_acts_in_this_run_mends(finding_id, mends, expected):
    assert place(finding_id, mends) == expected


@pytest.mark.parametrize(
    ("finding_id", "profile", "expected"),
    [
        ("driver.flavour.closed", RDMA, True),
        ("driver.flavour.closed", REHEARSAL, False),
        ("driver.flavour.closed", None, True),
        ("fabric.gid.v1_only", RDMA, True),
        ("fabric.gid.v1_only", REHEARSAL, False),
        ("fabric.rail.mtu", REHEARSAL, True),
        ("memory.gpu.orphan", REHEARSAL, True),
        ("host.packages.missing", REHEARSAL, True),
    ],
)
def test_what_a_profile_does_not_need_stops_nothing(finding_id, profile, expected):
    assert mending.relevant(found(finding_id), profile, {}) is expected


@pytest.mark.parametrize(
    ("subject", "tells"), [("The power state of the GPU", False), ("The listening sockets", True)]
)
def test_a_look_at_a_gpu_that_failed_tells_nothing_where_none_is_used(subject, tells):
    failed = make("host.look.failed", subject=subject, command="true")
    assert mending.relevant(failed, REHEARSAL, {}) is tells
    assert mending.relevant(failed, RDMA, {})


@pytest.mark.parametrize(("present", "expected"), [(True, False), (False, True), (None, True)])
def test_a_gpu_that_started_since_is_no_reason_to_stop(present, expected):
    nodes = {"spark-a": {"gpu": {"present": present}}}
    assert mending.relevant(found("driver.gpu.not_started"), RDMA, nodes) is expected


def look(*findings: Finding) -> dict:
    return {"node": {"kernel": "6.17"}, "findings": [each.as_dict() for each in findings]}


def test_the_looks_of_a_group_are_joined_and_an_absent_rank_is_left_out():
    looks = {"spark-a": look(found("host.packages.missing")), "spark-b": look(found("host.packages.missing"))}
    (joined,) = mending.of_group(["spark-a", "spark-b", "spark-c"], {**looks, "spark-c": {}})
    assert joined.hosts == ("spark-a", "spark-b")
    done = mending.sort([joined], acts())
    assert done.again == [{"id": joined.id, "host": "spark-a"}, {"id": joined.id, "host": "spark-b"}]


def test_what_the_plan_tells_itself_is_told_once():
    taken = found("plan.gpu.taken")
    assert mending.sort([taken], acts()).stops and not mending.sort([taken], acts(), [taken]).stops


def test_what_is_left_at_the_end():
    again = [
        {"id": "host.packages.missing", "host": "spark-a"},
        {"id": "status.unit.stopped", "host": "spark-b"},
    ]
    now = [
        found("host.packages.missing", "spark-b"),
        found("status.unit.stopped", "spark-b"),
        found("driver.none"),
    ]
    assert [each.id for each in mending.left(now, again)] == ["status.unit.stopped"]
    assert mending.left(now, []) == []


def test_it_is_said_who_mends():
    done = mending.sort([found("host.packages.missing"), found("driver.pair.contested")], acts())
    assert mending.text(done, False).splitlines() == [
        "will be fixed by node: ERROR host.packages.missing [spark-a]: said.",
        "WARNING driver.pair.contested [spark-a]: said. do.",
    ]
    assert mending.text(done, True).startswith("would be fixed by node")
    assert mending.text(mending.Sorted(), False) == ""


def test_every_mender_is_a_role_of_site_yml():
    books = "".join(
        (ROOT / "playbooks" / name).read_text() for name in ("site.yml", "plan.yml", "rollout.yml")
    )
    roles = set(re.findall(r"name: tandem\.spark\.(\w+)", books)) | {
        "proof"
    }  # proof is the engine's last step
    assert {entry.fixed_by for entry in CATALOGUE.values() if entry.fixed_by} <= roles


def test_what_only_looks_mends_nothing():
    """These roles do what variables ask; what they find others must mend."""
    assert not {"profile", "power", "memory"} & {entry.fixed_by for entry in CATALOGUE.values()}
