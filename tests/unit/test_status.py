# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem status`: proven only for this very start, every reason why not, and unknown where nothing can be read."""

from __future__ import annotations

import json
from dataclasses import replace

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.filter.status import not_as_proven, status_table
from ansible_collections.tandem.spark.plugins.module_utils import (
    cli,
    commands,
    engine_state,
    records,
    status,
    status_data,
    status_text,
)
from ansible_collections.tandem.spark.plugins.module_utils.engine_log import read_log
from ansible_collections.tandem.spark.plugins.module_utils.status import Api, Fabric, Seen
from ansible_collections.tandem.spark.plugins.module_utils.status_judgement import judge, proven

NOW = {"driver": "580.142", "kernel": "6.17", "boot_options": "quiet", "boot_id": "b", "invocation_id": "i"}
PLAN = {"group": "tandem", "rank": 0, "ranks": 2, "hosts": ["spark-a", "spark-b"]}
BOOT = [
    "INFO 11-30 03:45:40 [utils.py:233] non-default args: {'model': '/srv/m'}",
    "INFO 11-30 03:45:41 [core.py:101] Initializing a V1 LLM engine (v0.33.0) with config",
    "INFO 11-30 03:45:45 [pynccl.py:111] vLLM is using nccl==2.30.4",
    "INFO 11-30 03:46:40 [gpu_model_runner.py:1] Model loading took 79.17 GiB memory and 61.2 seconds",
    "INFO 11-30 03:47:00 [gpu_worker.py:773] Available KV cache memory: 12.50 GiB",
    "INFO 11-30 03:47:01 [kv_cache_utils.py:1148] GPU KV cache size: 1,234,567 tokens, "
    "Maximum concurrency for 131,072 tokens per request: 9.42x",
    "INFO 11-30 03:48:00 [gpu_model_runner.py:2] Graph capturing finished in 31 secs, took 1.20 GiB",
]
SERVING = [*BOOT, "INFO:     Started server process [1083]", "INFO:     Application startup complete."]
ENV = {"NCCL_IB_HCA": "=rocep1s0f0", "NCCL_IB_GID_INDEX": "3", "VLLM_HOST_IP": "192.168.177.1"}
COUNTERS = {"prompt_tokens": 10.0, "generation_tokens": 20.0, "running": 0.0, "waiting": None}
UNIT = {
    "load": "loaded",
    "active": "active",
    "sub": "running",
    "result": "success",
    "invocation_id": "i",
    "main_pid": 7,
    "since": "Mon 2026-11-30 03:45:33 UTC",
}


def engine(**more):
    proof = {"outcome": "proven", "reason": "one by one: 3 of 3; all at once: 4 of 4", "ran_as": NOW}
    return {
        "current": "new",
        "applied": "new",
        "proof": proof,
        "proven_as": [],
        "runs_as": NOW,
        "units": {},
        **more,
    }


def seen(journal=SERVING, **more):
    """The head of a pair that runs what was proven, but for what is given."""
    return replace(
        Seen(
            plan=PLAN,
            engine=engine(),
            unit_name="tandem-head.service",
            unit=UNIT,
            manifest={"profile": "v4-flash-next"},
            proved_at="2026-11-30T03:50:00Z",
            log=read_log(journal),
            journal=journal,
            api=Api("http://127.0.0.1:8888", "m", 200, COUNTERS),
            fabric=Fabric(ENV, [{"netdev": "enp1s0f0np0", "address": "192.168.177.1/29"}], "pinned", ENV),
            caches={"gib": 3.4, "max_gib": 20, "whole": True, "stacks": [{}]},
        ),
        **more,
    )


def worker(journal=BOOT, **more):
    return seen(
        **{"plan": {**PLAN, "rank": 1}, "unit_name": "tandem-worker.service", "api": None, **more},
        journal=journal,
    )


def unit(**more):
    return {**UNIT, **more}


def ids(look):
    return [found.id for found in judge(look)]


@pytest.mark.parametrize("look", [seen(), worker()])
def test_a_rank_that_runs_what_was_proven_for_this_start(look):
    assert judge(look) == []
    page = "\n".join(status_text.lines(status_data.as_dict(look, [])))
    assert page.splitlines()[-1].startswith(
        "PROVEN    this rank runs the release that was proven for this very"
    )
    for fact in (
        "NCCL 2.30.4",
        "KV tokens",
        "came up",
        "GID index 3",
        "at most 20 GiB",
        "for this very start",
    ):
        assert fact in page


def test_green_lights_alone_are_never_enough():
    look = seen(engine=engine(proof=None))
    assert look.unit["active"] == "active" and look.api.health == 200 and look.log.ready
    assert ids(look) == ["status.proof.none"] and not proven(judge(look))
    page = "\n".join(status_text.lines(status_data.as_dict(look, judge(look))))
    assert "PROVEN " not in page and "healthy" not in page and "NOT SO" in page


ELSEWHERE = [{**NOW, "driver": "580.126.09", "boot_options": "splash"}]


@pytest.mark.parametrize(
    ("look", "wanted", "words"),
    [
        (seen(plan=None), "status.plan.none", "/etc/tandem/plan.json"),
        (seen(plan={"rank": "one"}), "status.plan.none", "/etc/tandem/plan.json"),
        (seen(unit=None), "status.systemd.unknown", "systemd does not answer"),
        (
            seen(
                unit=unit(active="failed", result="exit-code"),
                journal=["tandem fabric: The rail enp1 has no carrier"],
            ),
            "status.unit.stopped",
            "The rail enp1 has no carrier",
        ),
        (
            seen(unit=unit(active="activating", sub="auto-restart"), journal=["tandem fabric: no carrier"]),
            "engine.unit.ended",
            "no carrier",
        ),
        (seen(unit=unit(load="not-found", active="inactive")), "engine.unit.missing", ""),
        (seen(journal=[*BOOT, "torch.OutOfMemoryError: CUDA out of memory"]), "engine.memory.cuda", ""),
        (
            seen(journal=BOOT[:3], api=Api("u", "m", None, None, "connection refused")),
            "status.unit.starting",
            "joined the other rank",
        ),
        (worker(journal=BOOT[:3]), "status.unit.starting", "tandem-worker"),
        (seen(api=Api("http://h", "m", 503, COUNTERS)), "status.api.silent", "HTTP 503"),
        (seen(api=Api("http://h", "m", None, COUNTERS)), "status.api.silent", "no answer"),
        (seen(engine=engine(current=None, proof=None)), "status.release.none", "/opt/tandem/current"),
        (seen(manifest=None), "status.release.broken", "new"),
        (seen(engine=engine(applied="old")), "status.release.not_applied", "old"),
        (seen(engine=engine(applied=None)), "status.release.not_applied", "none"),
        (
            seen(engine=engine(proof={"outcome": "rejected", "reason": "3 of 3 degenerate."})),
            "status.proof.rejected",
            "3 of 3 degenerate",
        ),
        (
            seen(engine=engine(proof=None, proven_as=ELSEWHERE)),
            "status.proof.elsewhere",
            "driver: 580.126.09 then, 580.142 now, boot options",
        ),
        (
            seen(engine=engine(runs_as={**NOW, "invocation_id": "j"})),
            "status.proof.other_start",
            "the unit was started",
        ),
        (
            seen(engine=engine(runs_as={**NOW, "boot_id": "c", "invocation_id": "j"})),
            "status.proof.other_start",
            "the machine was booted and the unit was started",
        ),
        (
            seen(fabric=Fabric(ENV, [], refused=("The rail enp1 has MTU 1500; wanted 9000.",))),
            "status.fabric.not_as_planned",
            "MTU 1500",
        ),
    ],
)
def test_each_thing_that_is_not_so(look, wanted, words):
    (found,) = [each for each in judge(look) if each.severity == "error"]
    assert found.id == wanted and words in f"{found.summary} {found.evidence}"
    page = list(status_text.lines(status_data.as_dict(look, judge(look))))
    assert any(line.startswith("error     ") and words in line for line in page)


@pytest.mark.parametrize(
    ("look", "wanted", "words"),
    [
        (seen(journal=[]), "status.journal.unknown", "tandem-head"),
        (worker(journal=[]), "status.journal.unknown", "tandem-worker"),
        (
            seen(journal=[*SERVING, "No available shared memory broadcast block found in 60 seconds."]),
            "status.engine.stalled",
            "60 s",
        ),
        (seen(api=Api("http://h", "m", 200, None, "HTTP 404")), "status.metrics.unknown", "HTTP 404"),
        (seen(fabric=Fabric(None, [], "pinned", ENV)), "status.fabric.environment", "/run/tandem/fabric.env"),
        (
            seen(fabric=Fabric(ENV, [], "pinned", {**ENV, "NCCL_IB_GID_INDEX": "5"})),
            "status.fabric.moved",
            "NCCL_IB_GID_INDEX was 3, now 5",
        ),
        (seen(history_trouble="a line is no JSON object: '{'"), "status.history.broken", "no JSON"),
        (
            seen(caches=None, caches_trouble="Permission denied."),
            "status.caches.unknown",
            "Permission denied",
        ),
    ],
)
def test_what_is_unknown_is_said_and_leaves_the_proof(look, wanted, words):
    (found,) = judge(look)
    assert (found.id, found.severity) == (wanted, "warning") and words in found.summary
    assert proven(judge(look))


def test_a_stopped_rank_has_one_reason():
    stopped = engine(runs_as={**NOW, "invocation_id": None})
    look = seen(engine=stopped, unit=unit(active="inactive", sub="dead", invocation_id=None), journal=[])
    assert ids(look) == ["status.unit.stopped"]


# A node's files, whole and broken


def write(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.fixture
def node(tmp_path):
    write(tmp_path, "etc/tandem/plan.json", json.dumps(PLAN))
    write(tmp_path, "opt/tandem/releases/new/manifest.json", json.dumps({"fingerprint": "a" * 64}))
    (tmp_path / "opt/tandem/current").symlink_to("releases/new")
    write(tmp_path, "run/tandem/fabric.env", '# made\nNCCL_IB_GID_INDEX="3"\nNCCL_IB_HCA="=a,b"\n')
    write(tmp_path, "var/cache/tandem/aaaaaaaaaaaaaaaa/x", "kernel")
    for name in ("osrelease", "random/boot_id"):
        write(tmp_path, f"proc/sys/kernel/{name}", "x")
    runs_as = engine_state.runs_as(tmp_path, {})
    for count in range(7):
        record = {"digest": "new", "outcome": "proven", "reason": f"run {count}"}
        records.write(tmp_path, "proof", record, runs_as)
    return tmp_path


def told(root, capsys):
    code = cli.main(["status", "--json", "--root", str(root)])
    return code, json.loads(capsys.readouterr().out)


def test_a_nodes_files(node, capsys):
    code, found = told(node, capsys)
    assert code == 1  # a copy of a node has no systemd to ask
    assert [each["id"] for each in found["findings"]] == ["status.systemd.unknown"]
    assert (found["release"]["current"], found["release"]["applied"]) == ("new", "new")
    assert found["proof"]["outcome"] == "proven" and found["proof"]["at"].startswith("20")
    assert [line["reason"] for line in found["history"]] == [f"run {count}" for count in range(2, 7)]
    assert found["fabric"]["env"] == {"NCCL_IB_GID_INDEX": "3", "NCCL_IB_HCA": "=a,b"}
    assert found["caches"]["stacks"][0]["kept_for"] == ["current release", "applied release"]


FILES = [
    "etc/tandem/plan.json",
    "opt/tandem/releases/new/manifest.json",
    "run/tandem/fabric.env",
    "var/lib/tandem/history.jsonl",
    "var/lib/tandem/applied",
    "proofs",
]
JUNK = [
    "",
    "{cut",
    "[]",
    "null",
    "\0",
    "[" * 9999,
    '{"rank": {}, "hosts": 7, "fabric": [], "api": [], "serving": 3}',
    '{"outcome": "proven", "ran_as": [], "reason": null}',
    '{"fabric": {"rails": [1, null]}, "rank": 1}',
]


@pytest.mark.parametrize("junk", JUNK, ids=lambda text: repr(text[:30]))
@pytest.mark.parametrize("broken", FILES)
def test_broken_files_are_no_reason_to_break(node, capsys, broken, junk):
    paths = (node / "var/lib/tandem/proofs").glob("*") if broken == "proofs" else [node / broken]
    for path in paths:
        path.write_text(junk)
    assert cli.main(["status", "--root", str(node)]) == 1
    code, found = told(node, capsys) if not capsys.readouterr().err else (None, {})
    assert code == 1 and found["proven"] is False


@pytest.mark.parametrize("broken", FILES[:5])
def test_a_folder_or_bytes_where_a_file_belongs(node, broken):
    (node / broken).write_bytes(b"\xff\xfe\x00")
    assert cli.main(["status", "--root", str(node)]) == 1
    (node / broken).unlink()
    (node / broken).mkdir()
    assert cli.main(["status", "--root", str(node)]) == 1


def test_nothing_at_all(tmp_path, capsys):
    assert cli.main(["status", "--root", str(tmp_path)]) == 1
    page = capsys.readouterr().out
    assert "unknown: no plan" in page and "nothing yet" in page and "Traceback" not in page


def test_a_look_changes_nothing(node):
    def traces():
        return {path: path.lstat().st_mtime_ns for path in node.rglob("*")}

    before = traces()
    cli.main(["status", "--root", str(node)])
    assert traces() == before


# The journal of a start that has served for long


def test_the_boot_and_the_newest_lines_are_read(monkeypatch):
    lines = [f"line {number}" for number in range(status.BOOT_LINES)]
    monkeypatch.setattr(commands, "ask_first", lambda argv, count, limit: lines[:count])
    monkeypatch.setattr(commands, "ask", lambda argv, limit: commands.Answer(0, "a\rb\nlast\n"))
    assert status.journal_of_start(UNIT) == [*lines, "a", "b", "last"]
    del lines[-1]
    assert status.journal_of_start(UNIT) == lines
    assert status.journal_of_start(None) == status.journal_of_start({"invocation_id": None}) == []


def test_the_first_lines_of_a_command_that_never_ends():
    assert commands.ask_first(["yes", "one"], 3) == ["one", "one", "one"]
    assert commands.ask_first(["printf", r"a\nb"], 3) == ["a", "b"]
    assert commands.ask_first(["/nowhere/command"], 3) == []
    assert commands.ask_first(["sleep", "600"], 3, timeout_s=0.1) == []


METRICS = b"""# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0"} 1.0
vllm:num_requests_running{engine="1"} 2.0
vllm:prompt_tokens_total{engine="0"} 6.149e+03
vllm:prompt_tokens_created{engine="0"} 1.7e+09
vllm:generation_tokens_total{engine="0"} 408.0
"""


def test_the_counters_of_the_head(tmp_path):
    with s.ChatServer(lambda _request, _stop: s.response(METRICS, kind="text/plain")) as server:
        plan = {"api": {"port": int(server.url.rpartition(":")[2]), "model": "m"}}
        api = status.look_at_api(plan, tmp_path)
    assert (api.health, api.model, api.why) == (200, "m", None)
    assert api.counters == {
        "prompt_tokens": 6149.0,
        "generation_tokens": 408.0,
        "running": 3.0,
        "waiting": None,
    }
    gone = status.look_at_api({"api": {"port": 9}}, tmp_path)
    assert gone.health is None and gone.counters is None and "refused" in gone.why
    assert status.look_at_api({}, tmp_path) is None


# The table of the playbook


def looked(look):
    return {"status": status_data.as_dict(look, judge(look))}


def test_a_table_for_each_group():
    other = {**PLAN, "group": "other", "hosts": ["spark-c"]}
    looks = {"spark-a": looked(seen()), "spark-b": looked(worker()), "spark-c": looked(seen(plan=other))}
    page = status_table(looks)
    assert [line for line in page.splitlines() if line.startswith("group ")] == [
        "group other",
        "group tandem",
    ]
    assert not_as_proven(looks) == [] and "for this start" in page and "came up" in page


def test_a_rank_that_cannot_be_reached_is_told_in_its_group():
    lost = {"unreachable": True, "msg": "Connection timed out\nmore"}
    looks = {"spark-a": looked(seen()), "spark-b": lost}
    page = status_table(looks)
    assert page.count("group ") == 1 and "spark-b is unreachable: Connection timed out" in page
    assert not_as_proven(looks) == ["spark-b"]
    assert "group unknown" in status_table({"spark-b": lost}) and "not looked at" in status_table({"x": {}})


def test_ranks_of_two_releases_are_not_as_proven():
    older = engine(current="old", applied="old")
    looks = {"spark-a": looked(seen()), "spark-b": looked(worker(engine=older))}
    assert not_as_proven(looks) == ["spark-a", "spark-b"]
    assert "The ranks do not have one release: spark-a has new, spark-b has old" in status_table(looks)
