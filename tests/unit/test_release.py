# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a group is restarted, when it is proved again, and what a release stands for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.tandem.spark.plugins.filter.release import (
    other_circumstances,
    proven_everywhere,
    rejections,
    restart_reasons,
    rollout_verdict,
    stale_proofs,
)
from ansible_collections.tandem.spark.plugins.module_utils import engine_state, records
from ansible_collections.tandem.spark.plugins.module_utils.engine_state import links, look, parse_units
from ansible_collections.tandem.spark.plugins.plugin_utils.release import Release

UNITS = {"a": "tandem-head.service", "b": "tandem-worker.service"}


def engine(
    unit,
    current="new",
    applied="new",
    active="active",
    sub="running",
    proved_as="now",
    runs_as="now",
    proven=(),
    start="1",
    proved_start="1",
    outcome="proven",
):
    circumstances = {"driver": "580.142", "kernel": "6.17.0-1014"}
    ran_as = {"boot_id": proved_as, "invocation_id": proved_start, **circumstances}
    proof = None if proved_as is None else {"ran_as": ran_as, "outcome": outcome}
    return {
        "current": current,
        "applied": applied,
        "proof": proof,
        "proven_as": [],
        "rejected": {},
        "runs_as": {"boot_id": runs_as, "invocation_id": start, **circumstances},
        "proven": [{"digest": digest} for digest in proven],
        "units": {unit: {"active": active, "sub": sub}},
    }


def pair(**worker):
    return {"a": engine(UNITS["a"]), "b": engine(UNITS["b"], **worker)}


def test_a_proven_pair_is_left_alone():
    assert restart_reasons(pair(), UNITS, "new") == [] and stale_proofs(pair()) == []


@pytest.mark.parametrize(
    ("worker", "word"),
    [
        ({"current": "old", "applied": "old"}, "old"),
        ({"current": None, "applied": None}, "none"),
        ({"applied": "old"}, "never proved"),
        ({"active": "failed"}, "failed"),
        ({"active": "activating", "sub": "auto-restart"}, "activating"),
    ],
)
def test_a_change_on_one_rank_restarts_the_group(worker, word):
    (reason,) = restart_reasons(pair(**worker), UNITS, "new")
    assert "b" in reason and word in reason


def starts(**of_each):
    return {host: engine(UNITS[host], **changes) for host, changes in of_each.items()}


@pytest.mark.parametrize(
    "worker",
    [
        {"start": "2"},
        {"start": None, "active": "activating", "sub": "start-pre"},
        {"start": "2", "proved_as": None},
    ],
)
def test_a_rank_that_was_started_anew_beside_another_restarts_the_group(worker):
    (reason,) = restart_reasons(starts(a={}, b=worker), UNITS, "new")
    assert reason == "the rank on b was started anew, and that on a does not take it back"
    (reason,) = restart_reasons(starts(a=worker, b={}), UNITS, "new")
    assert "on a was started anew" in reason


def test_ranks_that_were_all_started_anew_are_left_to_start():
    """As after a reboot of all nodes, some of which still prepare their start."""
    starting = {"active": "activating", "sub": "start-pre", "start": None}
    assert restart_reasons(starts(a={"start": "2"}, b={"start": "2"}), UNITS, "new") == []
    assert restart_reasons(starts(a={"start": "2"}, b=starting), UNITS, "new") == []
    assert restart_reasons(starts(a=starting, b=starting), UNITS, "new") == []


def test_a_group_can_go_back_to_what_every_rank_proved():
    ranks = pair(proven=["old", "older"])
    ranks["a"]["proven"] = [{"digest": digest} for digest in ("new", "older", "old")]
    assert proven_everywhere(ranks) == ["older", "old"]
    assert proven_everywhere({}) == [] and proven_everywhere(pair()) == []


def test_a_unit_that_waits_for_its_restart_runs(monkeypatch):
    states = {"a": "active", "b": "activating", "c": "inactive", "d": "failed", "e": "deactivating"}
    monkeypatch.setattr(engine_state, "units", lambda: {name: {"active": s} for name, s in states.items()})
    assert engine_state.running() == ["a", "b", "e"]


@pytest.mark.parametrize("worker", [{"runs_as": "later"}, {"proved_as": None}, {"outcome": "rejected"}])
def test_another_boot_wants_another_proof(worker):
    assert stale_proofs(pair(**worker)) == ["b"]


RELEASE = Release(
    {"engine.yaml": "a", "units/x.service": "b"}, "f", "/opt/tandem/runtime/k", "c", {}, "/cache", "u"
)


def test_the_digest_stands_for_content_engine_and_weights():
    same = replace(RELEASE, content=dict(reversed(RELEASE.content.items())), facts={"profile": "p"})
    assert same.digest == RELEASE.digest
    others = [{"content": {"engine.yaml": "a"}}, {"fingerprint": "g"}, {"checkpoint_revision": "d"}]
    assert len({RELEASE.digest, *(replace(RELEASE, **other).digest for other in others)}) == 4


def test_a_release_is_whole_when_its_manifest_is_there():
    files = RELEASE.files()
    paths = [each["path"].removeprefix(f"/opt/tandem/releases/{RELEASE.digest}") for each in files]
    assert paths == [
        "",
        "/units",
        "/cache",
        "/cache/inductor",
        "/runtime",
        "/engine.yaml",
        "/units/x.service",
        "/manifest.json",
    ]
    assert json.loads(files[-1]["content"])["digest"] == RELEASE.digest


@pytest.mark.parametrize(
    ("failed", "outcome", "word"),
    [
        ({"msg": "rejected: 3 of 3 answers degenerate", "failed": True}, "rejected", "degenerate"),
        (
            {"msg": "unproven: 1 of 3 questions without an answer", "failed": True},
            "unproven",
            "without an answer",
        ),
        ({"msg": "ended", "findings": [{"id": "engine.command_line"}]}, "rejected", "ended"),
        # a rank that knows why decides over one that only followed it
        (
            {"msg": "ended", "findings": [{"id": "engine.unit.ended"}, {"id": "engine.command_line"}]},
            "rejected",
            "ended",
        ),
        ({"msg": "ended", "findings": [{"id": "engine.port_taken"}]}, "unproven", "ended"),
        ({"msg": "lost", "findings": []}, "unproven", "lost"),
        ({"msg": "not ready after 600 s", "findings": [{"id": "engine.boot.timeout"}]}, "unproven", "600 s"),
        (
            {
                "msg": "One or more items failed",
                "results": [{"failed": False}, {"failed": True, "msg": "no disk"}],
            },
            "unproven",
            "no disk",
        ),
        ({"unreachable": True}, "unproven", "no reason"),
        # the words of an answer do not decide
        ({"msg": "unproven: it said 'rejected: no'"}, "unproven", "it said"),
    ],
)
def test_what_a_failed_step_says_of_the_release(failed, outcome, word):
    verdict = rollout_verdict(failed)
    assert verdict["outcome"] == outcome and word in verdict["reason"]
    assert not verdict["reason"].startswith(("rejected:", "unproven:"))


def test_a_rejection_on_one_rank_is_one_of_the_group():
    ranks = pair()
    ranks["b"]["rejected"] = {"bad": "degenerate"}
    assert rejections(ranks, "bad") == {"b": "degenerate"} and rejections(ranks, "new") == {}


def test_a_release_that_was_proven_with_another_driver_names_it():
    assert other_circumstances(pair(proved_as=None), "new") == ""
    # The second try is refused by what the first one remembered, and is told the same.
    ranks = pair(outcome="rejected")
    ranks["b"]["proven_as"] = [{"driver": "580.126.09", "kernel": "6.17.0-1014"}]
    said = other_circumstances(ranks, "new")
    assert "On b" in said and "driver 580.126.09 (now 580.142)" in said and "kernel" not in said.split(".")[0]
    command = "tandem.spark.driver -e tandem_driver_policy=pin -e tandem_driver_version=580.126.09"
    assert f"{command} -e tandem_driver_kernel=6.17.0-1014 " in said, "the way back is a command, not advice"
    ranks["b"]["proven_as"] = [{"driver": None, "kernel": "6.17.0-1008"}]
    assert "tandem_driver" not in other_circumstances(ranks, "new")
    assert other_circumstances(ranks, "other") == ""


SHOWN = """Id=tandem-head.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
InvocationID=0123
MainPID=42
ActiveEnterTimestamp=Sun 2026-11-29 21:00:00 UTC

Id=tandem-worker.service
LoadState=not-found
ActiveState=inactive
SubState=dead
Result=success
InvocationID=
MainPID=0
ActiveEnterTimestamp=
"""


def test_units_as_systemctl_shows_them():
    units = parse_units(SHOWN)
    assert units["tandem-head.service"]["main_pid"] == 42
    assert units["tandem-worker.service"] == {
        "load": "not-found",
        "active": "inactive",
        "sub": "dead",
        "result": "success",
        "invocation_id": None,
        "main_pid": None,
        "since": None,
    }
    assert parse_units("") == {} and parse_units("garbage\n\nmore") == {}


def test_what_a_rank_runs(tmp_path):
    (tmp_path / "opt/tandem/releases/abc").mkdir(parents=True)
    (tmp_path / "opt/tandem/current").symlink_to("releases/abc")
    (tmp_path / "opt/tandem/releases/abc/manifest.json").write_text('{"digest": "abc"}')
    now = engine_state.runs_as(tmp_path, parse_units(SHOWN))
    records.write(tmp_path, "rollout", {"digest": "abc", "outcome": "proven", "reason": "3 of 3"}, now)
    found = look(tmp_path, parse_units(SHOWN))
    assert (found["current"], found["applied"], found["applied_manifest"]) == (
        "abc",
        "abc",
        {"digest": "abc"},
    )
    assert found["proof"]["ran_as"] == found["runs_as"] and found["runs_as"]["invocation_id"] == "0123"


def test_an_empty_node(tmp_path):
    found = look(tmp_path, {})
    assert found["current"] is found["applied"] is found["proof"] is None


def test_the_links_of_a_release_do_not_name_it_twice():
    made = links("tandem-head.service", "abc")
    assert [target for target in made.values() if "abc" in target] == ["releases/abc"]
