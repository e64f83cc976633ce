# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node may build now, how its unit is begun and followed, and what is said of each end."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import build_node, build_store, build_unit
from ansible_collections.tandem.spark.plugins.module_utils.build_unit import Outcome
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.module_utils.toolchain import Found

TOOLS = (
    Found("nvcc", "/usr/local/cuda-13.2/bin/nvcc", "13.2"),
    Found("gxx", "/usr/bin/g++-13", "13.3.0"),
)


def wheel(name, **told):
    return {"name": name, "digest": name * 4, "disk_gib": 40.0, "network": "", "wanted": True, **told}


def wish(tmp_path, **told):
    values = {
        "key": "wanted",
        "folder": tmp_path,
        "wheels": [wheel("torch"), wheel("vllm", disk_gib=80.0)],
        "cuda_home": "/usr/local/cuda-13.2",
        "toolkit": "13.2",
        "tools": {"nvcc": "13.2", "gxx": "13"},
        "paths": ["/opt/tandem/rust/bin"],
        "job_gib": 6.0,
        "reserve_gib": 10.0,
        "consent": False,
        **told,
    }
    return build_node.Wish(**values)


def look(**told):
    values = {
        "built": {},
        "going": None,
        "serving": [],
        "available_gib": 119.0,
        "free_gib": 500.0,
        "cpus": 20,
        "half_gib": 0.0,
        "tools": TOOLS,
        "driver": "595.84",
        **told,
    }
    return build_node.Look(**values)


DONE = {"torchtorchtorchtorch": {}, "vllmvllmvllmvllm": {}}


@pytest.mark.parametrize(
    ("wished", "seen", "expected"),
    [
        ({}, {}, []),
        ({}, {"serving": ["tandem-head.service"]}, ["build.engine.serves"]),
        ({"consent": True}, {"serving": ["tandem-head.service"]}, []),
        ({"consent": True}, {"serving": ["x"], "available_gib": 9.0}, ["build.memory.short"]),
        ({}, {"available_gib": None}, []),
        # The largest tree of those that are left counts: one is in the making at a time.
        ({}, {"free_gib": 89.0}, ["build.disk.short"]),
        ({}, {"free_gib": 90.0}, []),
        ({}, {"free_gib": 49.0, "half_gib": 41.0}, []),
        ({}, {"free_gib": 51.0, "built": {"vllmvllmvllmvllm": {}}}, []),
        ({}, {"tools": ()}, ["build.tool.missing", "build.tool.missing"]),
        ({"tools": {"gxx": "14"}}, {}, ["build.tool.old"]),
        ({"tools": {}}, {"tools": ()}, []),
        ({}, {"driver": "580.142"}, ["build.toolkit.newer"]),
        ({"toolkit": "13.0"}, {}, ["build.toolkit.other"]),
        ({}, {"going": "other"}, ["build.unit.other"]),
        # Nothing is to be said where nothing is to be begun.
        ({}, {"going": "wanted", "serving": ["x"], "free_gib": 1.0}, []),
        ({}, {"built": DONE, "serving": ["x"], "free_gib": 1.0, "tools": ()}, []),
    ],
)
def test_whether_a_node_may_build(tmp_path, wished, seen, expected):
    assert [each.id for each in build_node.judge(wish(tmp_path, **wished), look(**seen))] == expected


def test_the_job_is_for_this_node(tmp_path):
    seen = look(cpus=8, available_gib=40.0)
    path = build_node.write_job(wish(tmp_path), seen, "uv==1", {"uv.whl": "0"}, "/usr/bin/python3")
    told = json.loads(path.read_text())
    assert told["jobs"] == 5 and told["path"].startswith("/opt/tandem/rust/bin:/usr/local/cuda-13.2/bin:")
    assert told["environment"]["CUDA_HOME"] == "/usr/local/cuda-13.2"
    assert told["environment"]["CXX"] == told["environment"]["CUDAHOSTCXX"] == "/usr/bin/g++-13"
    plain = build_node.write_job(wish(tmp_path, cuda_home=None), look(tools=()), "", {}, "/usr/bin/python3")
    assert json.loads(plain.read_text())["environment"] == {}


def properties(words):
    return dict(
        word.removeprefix("--property=").split("=", 1) for word in words if word.startswith("--property=")
    )


def test_the_unit_sees_no_network_unless_a_wheel_says_why(tmp_path):
    words = build_node.words(wish(tmp_path), look(), "tandem", 3600)
    told = properties(words)
    assert told["PrivateNetwork"] == "yes" and told["User"] == "tandem" and told["RuntimeMaxSec"] == "3600"
    assert told["MemoryMax"] == str(115 << 30) and told["ReadWritePaths"] == str(tmp_path)
    assert words[-4:] == [
        "/opt/tandem/bin/tandem",
        "build",
        f"{tmp_path}/job.json",
        "--state=/run/tandem-build",
    ]
    asks = wish(tmp_path, wheels=[wheel("torch", network="crates"), wheel("vllm")])
    assert properties(build_node.words(asks, look(), "tandem", 1))["PrivateNetwork"] == "no"
    built = look(built={"torchtorchtorchtorch": {}})
    assert properties(build_node.words(asks, built, "tandem", 1))["PrivateNetwork"] == "yes"
    assert "MemoryMax" not in properties(build_node.words(asks, look(available_gib=4.5), "tandem", 1))


class Machine:
    """A unit that works for some looks, and what it leaves behind."""

    def __init__(self, state, looks, lines=(), told=None):
        self.state, self.looks, self.lines, self.told, self.time = state, looks, list(lines), told, 0.0

    def going(self):
        if self.lines:
            with (self.state / build_unit.PROGRESS).open("a") as stream:
                stream.write(f"{self.lines.pop(0)}\n")
        if self.looks == 0 and self.told is not None:
            (self.state / build_unit.STATE).write_text(json.dumps(self.told))
        self.looks -= 1
        return self.looks >= 0

    def sleep(self, seconds):
        self.time += seconds

    def follow(self, limit_s=100.0):
        said = []
        end = build_unit.follow(
            self.state, said.append, limit_s, is_going=self.going, sleep=self.sleep, clock=lambda: self.time
        )
        return end, said


FAILED = finding(
    "build.wheel.failed", name="vllm", ended="ended with 1", log="/x", evidence="error"
).as_dict()


@pytest.mark.parametrize(
    ("told", "state", "said"),
    [
        ({"state": "done", "wheel": None, "finding": None}, "done", None),
        ({"state": "failed", "wheel": "vllm", "finding": FAILED}, "failed", "build.wheel.failed"),
        ({"state": "running", "wheel": "vllm"}, "interrupted", "build.unit.interrupted"),
        (None, "interrupted", "build.unit.interrupted"),
        ([], "interrupted", "build.unit.interrupted"),
    ],
)
def test_how_a_build_ends(tmp_path, told, state, said):
    end, lines = Machine(tmp_path, 3, ["a", "b", "c", "d"], told).follow()
    assert end.state == state and lines == ["a", "b", "c", "d"], "each line once, the last ones too"
    found = build_node.complaint(end, 100.0)
    assert (found and found.id) == said


def test_a_build_that_goes_on_is_left_alone(tmp_path):
    machine = Machine(tmp_path, 1000)
    end, _said = machine.follow(5.0)
    assert end == Outcome("going") and machine.time < 8
    assert build_node.complaint(end, 5 * 3600.0).summary.startswith(
        "The build is at the first wheel after 5.0 hours"
    )


def test_who_comes_second_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(build_unit, "STATE_FOLDER", str(tmp_path))
    alive = iter([True, True, False])
    monkeypatch.setattr(build_unit, "going", lambda: next(alive))
    (tmp_path / build_unit.STATE).write_text(json.dumps({"state": "done"}))
    monkeypatch.setattr(build_unit, "follow", lambda state, say, limit_s: Outcome("done"))
    begun, said = [], []
    assert build_node.run(wish(tmp_path), lambda: begun.append(1), said.append, 1.0).state == "done"
    assert begun == [] and "follows it" in said[0]
    monkeypatch.setattr(build_unit, "going", lambda: False)
    build_node.run(wish(tmp_path), lambda: begun.append(1), said.append, 1.0)
    assert begun == [1]


def test_finished_wheels_are_installed_from_without_taking_room_twice(tmp_path):
    house, folder = tmp_path / "wheelhouse", tmp_path / "build"
    (folder / "wheels").mkdir(parents=True)
    made = folder / "thing-1.0-py3-none-any.whl"
    made.write_bytes(b"new")
    build_store.finish(folder, "d" * 16, made, {})
    house.mkdir()
    (house / made.name).write_bytes(b"an older build of that version")
    build_node.link_into(house, folder, ["d" * 16, "e" * 16])
    assert (house / made.name).read_bytes() == b"new" and (house / made.name).stat().st_nlink == 2


def test_a_unit_that_cannot_be_begun_says_why(tmp_path, monkeypatch):
    answer = build_unit.commands.Answer(1, "Failed to start transient service unit: no such user\n")
    monkeypatch.setattr(build_unit.commands, "ask", lambda words, **more: answer)
    with pytest.raises(build_unit.UnitError, match="no such user"):
        build_unit.begin(["systemd-run"], tmp_path)
