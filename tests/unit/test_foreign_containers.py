# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose container it is: that of a rank is its unit's, and one of somebody else is named where it stands in the way."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    commands,
    containers,
    gpu_users,
    loaded_nccl,
    node,
    node_deep,
    processes,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from ansible_collections.tandem.spark.plugins.plugin_utils import mending, plan_checks
from sysfs_tree import put
from test_plan import PROFILE, ranks
from test_plan import node as planned_node

ID, OTHER = "0f3b" * 16, "77aa" * 16
SCOPE = f"docker-{ID}.scope"


def made(name="v4-flash", restart="unless-stopped", id_=ID, **more):
    told = {
        "Id": id_,
        "Name": f"/{name}",
        "State": {"Status": "running"},
        "Config": {"Image": "x/vllm:1", "Cmd": ["vllm", "serve"]},
        "HostConfig": {"RestartPolicy": {"Name": restart}, "PortBindings": more.get("ports")},
    }
    return containers.read_inspect(json.dumps([told]), more.get("program", "docker"))[0]


@pytest.fixture
def proc(tmp_path):
    put(tmp_path / "proc/315/cgroup", f"0::/system.slice/{SCOPE}")
    put(tmp_path / "proc/315/comm", "VLLM::Worker")
    put(tmp_path / "proc/315/maps", "7f00-7f01 r-xp 0 00:00 7 /usr/lib/libnccl.so.2.30.4")
    return tmp_path


@pytest.mark.parametrize(
    ("noted", "unit"),
    [
        ({"tandem-head": ID}, "tandem-head.service"),
        ({"tandem-worker": ID, "tandem-head": OTHER}, "tandem-worker.service"),
        ({"tandem-head": OTHER}, SCOPE),
        ({"tandem-head": ""}, SCOPE),
        ({"somebody": ID}, SCOPE),
        ({}, SCOPE),
    ],
)
def test_what_runs_in_the_container_of_a_rank_is_of_its_unit(proc, noted, unit):
    """So NCCL's audit, the guard's memory and the ports find the rank, though its cgroup is docker's."""
    for name, id_ in noted.items():
        put(proc / "run/tandem" / f"{name}.cid", id_)
    assert processes.owner(Tree(str(proc / "proc")), 315).unit == unit
    look = loaded_nccl.look(str(proc), unit=unit)
    assert [each.pid for each in look.processes] == [315] and look.versions == ["2.30.4"]


def test_a_process_of_the_host_is_nobody_s_container(proc):
    put(proc / "run/tandem/tandem-head.cid", ID)
    put(proc / "proc/316/cgroup", "0::/system.slice/cron.service")
    assert processes.owner(Tree(str(proc / "proc")), 316).unit == "cron.service"


@pytest.mark.parametrize(
    ("container", "told"),
    [
        (made(), True),
        (made(restart="always"), True),
        (made(restart="on-failure"), True),
        (made(restart="no"), False),
        (made(restart=""), False),
        (made(name="tandem-head"), False),
    ],
)
def test_an_engine_that_comes_back_unasked_is_told(container, told):
    notes = containers.foreign([container])
    assert [note.id for note in notes] == (["container.foreign.restarts"] if told else [])
    if told:
        assert "docker update --restart=no v4-flash" in notes[0].remedy


def test_what_is_no_engine_may_come_back():
    told = json.dumps(
        [{"Id": ID, "Config": {"Image": "postgres"}, "HostConfig": {"RestartPolicy": {"Name": "always"}}}]
    )
    assert containers.foreign(containers.read_inspect(told)) == []


def test_who_has_the_gpu_is_named_by_its_container():
    user = {"pid": 315, "name": "VLLM::Worker", "memory_mib": 104277, "unit": SCOPE, "user": "root"}
    (note,) = gpu_users.gpu_findings([{**user, "container": containers.described(made())}])
    assert note.id == "container.foreign.gpu" and "104277 MiB" in note.summary
    assert "`docker stop v4-flash` and `docker update --restart=no v4-flash`" in note.remedy
    (note,) = gpu_users.gpu_findings([{**user, "container": containers.described(made(restart="no"))}])
    assert "update" not in note.remedy
    assert [each.id for each in gpu_users.gpu_findings([{**user, "container": None}])] == ["plan.gpu.taken"]
    assert gpu_users.gpu_findings([{**user, "unit": "tandem-head.service"}]) == ()


def test_who_has_a_port_is_named_by_its_container():
    here = planned_node()
    listener = {"protocol": "tcp", "address": "0.0.0.0", "port": 8888, "pid": 9, "process": "docker-proxy"}
    listener |= {"unit": "docker.service", "user": "root", "container": containers.described(made())}
    here["listeners"] = [listener]
    (note,) = plan_checks._check_ports(ranks(here, planned_node()))
    assert (
        note.id == "container.foreign.port"
        and "x/vllm:1" in note.summary
        and "tandem_api_port" in note.remedy
    )


@pytest.mark.parametrize(
    ("licence", "accepted", "wanted"),
    [
        ("NVIDIA Deep Learning Container License", [], "NVIDIA Deep Learning Container License"),
        ("NVIDIA Deep Learning Container License", ["NVIDIA Deep Learning Container License"], None),
        ("NVIDIA Deep Learning Container License", ["MIT"], "NVIDIA Deep Learning Container License"),
        ("not told by the source", [], "x/y:1"),
        ("not told by the source", ["x/y:1"], None),
    ],
)
def test_an_image_is_pulled_only_where_its_licence_is_accepted(licence, accepted, wanted):
    runtime = {**PROFILE["runtime"], "kind": "container", "image": {"name": "x/y:1", "licence": licence}}
    head = ranks(tandem_accept_licenses=accepted)[0]
    notes = list(plan_checks._check_licence(head, {**PROFILE, "runtime": runtime}))
    assert [f"'{wanted}'" in note.remedy for note in notes] == ([True] if wanted else [])
    assert list(plan_checks._check_licence(head, PROFILE)) == []


class Live(node.Question):
    live = True


def test_the_look_at_a_node_asks_docker_only_where_something_is_behind_it(proc, monkeypatch):
    asked = []

    def ask(argv, *_rest, **_options):
        asked.append(argv[0])
        out = (
            f"{ID}\n"
            if argv[1] == "ps"
            else json.dumps(
                [
                    {
                        "Id": ID,
                        "Name": "/v4-flash",
                        "Config": {"Image": "x", "Cmd": ["vllm"]},
                        "State": {"Status": "running"},
                    }
                ]
            )
        )
        return commands.Answer(0, out)

    monkeypatch.setattr(commands, "ask", ask)
    monkeypatch.setattr(commands, "there", lambda program: program == "docker")
    listener = node.listeners.Listener("tcp", "0.0.0.0", 8888, 315, "vllm", "x.service", "root")
    monkeypatch.setattr(node.listeners, "read_listeners", lambda _root: [listener])
    found, _notes = node.look(Live(root=str(proc)), ["listeners"])
    assert found["listeners"][0]["container"] is None and asked == []
    behind = node.listeners.Listener("tcp", "0.0.0.0", 8888, 315, "vllm", SCOPE, "root")
    monkeypatch.setattr(node.listeners, "read_listeners", lambda _root: [behind])
    found, _notes = node.look(Live(root=str(proc)), ["listeners"])
    assert found["listeners"][0]["container"]["name"] == "v4-flash"
    found, _notes = node.look(Live(root=str(proc)), ["containers"])
    assert [(each["name"], each["engine"], each["ours"]) for each in found["containers"]] == [
        ("v4-flash", True, False)
    ]


def test_a_port_behind_a_proxy_is_found_by_what_it_publishes():
    container = made(ports={"8000/tcp": [{"HostIp": "", "HostPort": "8888"}], "x": None})
    assert container.ports == (8888,)
    assert containers.at_port(8888, [container]) is container and containers.at_port(1, [container]) is None
    assert containers.of_scope(SCOPE, [container]) is container
    assert (
        containers.of_scope("cron.service", [container]) is None
        and containers.of_scope(None, [container]) is None
    )


def test_without_a_gpu_in_the_profile_its_users_do_not_matter():
    note = finding(
        "container.foreign.gpu", ["a"], container="x", image="y", owner="z", program="docker", again=""
    )
    assert not mending.relevant(note, {"accelerator": "none", "transport": "tcp"}, {})
    assert mending.relevant(note, {"accelerator": "gb10", "transport": "rdma"}, {})


def test_a_rank_of_ours_is_not_told_to_have_flags():
    """It is made with what its profile needs; a profile over sockets needs no RDMA."""
    container = made(name="tandem-worker", restart="no")
    assert container.ours and containers.judge([container], ["rocep1s0f0"]) == []
    assert node_deep.containers.judge([made()], ["rocep1s0f0"]) != []
