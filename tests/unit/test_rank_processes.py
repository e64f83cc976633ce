# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines were given of their node, in containers and units: a procfs written here, and docker's own JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import commands, node, node_deep
from ansible_collections.tandem.spark.plugins.module_utils.containers import (
    container_of,
    ids,
    judge,
    read_inspect,
)
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from ansible_collections.tandem.spark.plugins.module_utils.rank_processes import (
    environment_of,
    look,
    of_environment,
)
from ansible_collections.tandem.spark.plugins.module_utils.rank_processes import judge as judge_ranks
from hypothesis import given, settings
from hypothesis import strategies as st

ID = "0f3b" * 16
DOCKER = f"0::/system.slice/docker-{ID}.scope"
UNIT = "0::/system.slice/engine.service"
PORTS = [("rocep1s0f0", 1), ("roceP2p1s0f0", 1)]
NETDEVS = ["enP7s7", "enp1s0f0np0", "lo"]
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             490000               490000               processes
Max locked memory         {0:<20} {0:<20} bytes
"""


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (DOCKER, "docker 0f3b0f3b0f3b"),
        (f"12:devices:/docker/{ID}\n0::/", "docker 0f3b0f3b0f3b"),
        (f"0::/machine.slice/libpod-{ID}.scope/container", "podman 0f3b0f3b0f3b"),
        (
            f"0::/kubepods.slice/kubepods-pod7.slice/cri-containerd-{ID}.scope",
            "containerd 0f3b0f3b0f3b",
        ),
        (f"0::/kubepods/besteffort/pod7/{ID}", "kubernetes 0f3b0f3b0f3b"),
        (UNIT, None),
        ("0::/user.slice/user-1000.slice/session-3.scope", None),
        (f"0::/system.slice/docker-{ID[:40]}.scope", None),
        ("", None),
    ],
)
def test_the_container_of_a_process(cgroup, container):
    assert container_of(cgroup) == container


class Proc:
    """A procfs of processes that see one file system."""

    def __init__(self, root: Path):
        self.root = root

    def add(self, pid, name="VLLM::Worker", cgroup=DOCKER, **more):
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True)
        inside = folder / "root"
        (inside / "dev").mkdir(parents=True)
        for number in range(more.get("devices", 2)):
            (inside / "dev/infiniband").mkdir(exist_ok=True)
            (inside / "dev/infiniband" / f"uverbs{number}").touch()
        (folder / "comm").write_text(f"{name}\n")
        (folder / "cgroup").write_text(f"{cgroup}\n")
        if limit := more.get("memlock", "unlimited"):
            (folder / "limits").write_text(LIMITS.format(limit))
        capabilities = more.get("capabilities", "00000000a80425fb")
        (folder / "status").write_text(
            f"Name:\t{name}\nPPid:\t{more.get('parent', 1)}\nCapEff:\t{capabilities}\n"
        )
        (folder / "environ").write_text("\0".join(["HF_TOKEN=hf_x", *more.get("environ", [])]) + "\0")
        return self

    def look(self, *pids):
        return look(Tree(str(self.root / "proc")), [(pid, "VLLM::Worker", None) for pid in pids or (315,)])


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


@pytest.mark.parametrize(
    ("given_to_it", "expected", "words"),
    [
        ({}, [], ""),
        ({"devices": 0}, ["nccl.process.no_rdma"], "--device=/dev/infiniband"),
        ({"memlock": "8388608"}, ["nccl.process.memlock"], "--ulimit memlock=-1"),
        ({"memlock": "67108864", "cgroup": UNIT}, ["nccl.process.memlock"], "LimitMEMLOCK=infinity"),
        ({"devices": 0, "cgroup": UNIT}, ["nccl.process.no_rdma"], "PrivateDevices"),
        ({"devices": 0, "memlock": "8388608"}, ["nccl.process.no_rdma", "nccl.process.memlock"], ""),
        # With CAP_IPC_LOCK the limit does not hold; root on the host has it.
        ({"memlock": "8388608", "capabilities": "00000000a80465fb"}, [], ""),
        ({"memlock": "8388608", "capabilities": "000001ffffffffff", "cgroup": UNIT}, [], ""),
        # What could not be read is unknown.
        ({"memlock": None, "capabilities": ""}, [], ""),
    ],
)
def test_what_an_engine_was_given(proc, given_to_it, expected, words):
    notes = judge_ranks(proc.add(315, **given_to_it).look(), PORTS, NETDEVS)
    assert [note.id for note in notes] == expected
    assert words in " ".join(note.remedy for note in notes)
    # A node without an HCA has nothing to give.
    assert judge_ranks(proc.look(), [], NETDEVS) == []


def test_the_limit_is_told_with_the_container(proc):
    (note,) = judge_ranks(proc.add(315, memlock="8388608").look(), PORTS, NETDEVS)
    assert "Pid 315 (VLLM::Worker) in container docker 0f3b0f3b0f3b may lock 8 MiB" in note.summary


def test_a_process_that_cannot_be_looked_into_is_unknown(tmp_path):
    (rank,) = look(Tree(str(tmp_path)), [(9, None, None)])
    assert (rank.rdma_devices, rank.locks) == (None, None)
    assert judge_ranks([rank], PORTS, NETDEVS) == []


def test_a_variable_of_a_shell_beside_the_engine_did_not_reach_it(proc):
    proc.add(1000, "python3", environ=["NCCL_DEBUG=INFO"])
    proc.add(315, parent=1000, environ=["NCCL_DEBUG=INFO"])
    proc.add(800, "bash", parent=0, environ=["NCCL_DEBUG=INFO", "NCCL_NET_PLUGIN=none", "SECRET=1"])
    # Another container, a child, and one that has the same do not count.
    proc.add(801, "bash", parent=0, cgroup=DOCKER.replace("0f", "1f"), environ=["NCCL_NET_PLUGIN=none"])
    proc.add(802, "ptxas", parent=315, environ=["NCCL_DEBUG=WARN"])
    proc.add(803, "bash", parent=0, environ=["NCCL_DEBUG=INFO"])
    (note,) = judge_ranks(proc.look(), PORTS, NETDEVS)
    assert note.id == "nccl.process.beside" and "Pid 800 (bash)" in note.summary
    assert "has NCCL_NET_PLUGIN=none, which" in note.summary and "make the container anew" in note.remedy
    assert "SECRET" not in note.summary


def test_a_shell_of_the_same_unit_is_no_container(proc):
    proc.add(315, cgroup=UNIT).add(800, "bash", parent=0, cgroup=UNIT, environ=["NCCL_NET_PLUGIN=none"])
    assert judge_ranks(proc.look(), PORTS, NETDEVS) == []


def test_two_ranks_of_one_container_are_not_beside_each_other(proc):
    proc.add(315, environ=["NCCL_DEBUG=INFO"]).add(316, environ=["NCCL_DEBUG=WARN"])
    assert judge_ranks(proc.look(315, 316), PORTS, NETDEVS) == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"NCCL_IB_GID_INDEX": ""}, []),  # empty is automatic to NCCL
        ({"NCCL_IB_GID_INDEX": "-1"}, []),
        ({"NCCL_IB_GID_INDEX": "3"}, []),
        ({"NCCL_IB_GID_INDEX": "4,4"}, ["nccl.process.gid_index"]),
        ({"NCCL_IB_GID_INDEX": "<GID_INDEX>"}, ["nccl.process.gid_index"]),
        ({"NCCL_IB_GID_INDEX": "03"}, ["nccl.process.gid_index"]),
        ({"NCCL_IB_HCA": "=rocep1s0f0,roceP2p1s0f0"}, []),
        ({"NCCL_IB_HCA": "roce"}, []),
        ({"NCCL_IB_HCA": "rocep1s0f0:1"}, []),
        ({"NCCL_IB_HCA": "=roce"}, ["nccl.process.hca"]),
        ({"NCCL_IB_HCA": "mlx5_0,mlx5_1"}, ["nccl.process.hca"]),
        ({"NCCL_IB_HCA": "rocep1s0f0:2"}, ["nccl.process.hca"]),
        ({"NCCL_IB_HCA": "^roce"}, ["nccl.process.hca"]),
        ({"NCCL_IB_HCA": "^mlx5"}, []),
        ({"NCCL_IB_DISABLE": "1"}, ["nccl.ib.disabled"]),
        ({"NCCL_IB_DISABLE": "0"}, []),
        ({"GLOO_SOCKET_IFNAME": "enP7s7"}, []),
        ({"GLOO_SOCKET_IFNAME": "enp1s0f1np1"}, ["nccl.process.interface"]),
        ({"GLOO_SOCKET_IFNAME": "enp1s0"}, ["nccl.process.interface"]),  # gloo knows no prefix
        ({"TP_SOCKET_IFNAME": "enP7s7,eth9"}, ["nccl.process.interface"]),
        ({"NCCL_SOCKET_IFNAME": "enp1s0"}, []),
        ({"NCCL_SOCKET_IFNAME": "=enp1s0"}, ["nccl.process.interface"]),
        ({"NCCL_SOCKET_IFNAME": "enP7s7,enp1s0f0np0,enP2p1s0f0np0"}, ["nccl.process.interface"]),
        ({"NCCL_SOCKET_IFNAME": "^docker,lo"}, []),
        ({"NCCL_SOCKET_IFNAME": "=enp1s0f0np0:18515"}, []),
    ],
)
def test_values_that_mean_nothing_on_this_node(environment, expected):
    assert [note.id for note in of_environment(environment, "pid 1 (x)", PORTS, NETDEVS)] == expected


def test_only_what_is_needed_of_an_environment_is_read():
    text = "HF_TOKEN=hf_x\0NCCL_NET=IB\0GLOO_SOCKET_IFNAME=eth0\0nccl_x=1\0NCCL_X\0VLLM_API_KEY=k\0"
    assert environment_of(text) == {"NCCL_NET": "IB", "GLOO_SOCKET_IFNAME": "eth0"}


FIT = {
    "Devices": [
        {"PathOnHost": "/dev/infiniband", "PathInContainer": "/dev/infiniband", "CgroupPermissions": "rwm"}
    ],
    "CapAdd": ["IPC_LOCK"],
    "Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}],
    "NetworkMode": "host",
    "Privileged": False,
}


def inspected(state="running", command=("vllm", "serve"), env=(), **host):
    return json.dumps(
        [
            {
                "Id": ID,
                "Name": "/v4-flash",
                "State": {"Status": state},
                "HostConfig": {**FIT, **host},
                "Config": {"Image": "registry/engine:1", "Cmd": list(command), "Env": list(env)},
            }
        ]
    )


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ({}, ""),
        ({"Devices": None}, "--device=/dev/infiniband"),
        ({"Devices": [{"PathOnHost": "/dev/nvidia0"}]}, "--device=/dev/infiniband"),
        ({"Devices": [{"PathOnHost": "/dev/infiniband/uverbs0"}]}, ""),
        ({"CapAdd": None}, "--cap-add=IPC_LOCK"),
        ({"CapAdd": ["CAP_IPC_LOCK"]}, ""),
        ({"CapAdd": ["ALL"]}, ""),
        ({"Ulimits": []}, "--ulimit memlock=-1"),
        ({"Ulimits": [{"Name": "memlock", "Hard": 8388608, "Soft": 8388608}]}, "--ulimit memlock=-1"),
        ({"Ulimits": [{"Name": "RLIMIT_MEMLOCK", "Hard": (1 << 63) - 1, "Soft": (1 << 63) - 1}]}, ""),
        ({"NetworkMode": "bridge"}, "--network=host"),
        ({"Privileged": True, "Devices": None, "CapAdd": None}, ""),
        (
            {"Devices": None, "CapAdd": None, "Ulimits": None},
            "--device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1",
        ),
    ],
)
def test_what_a_container_was_made_without(said, lacks):
    notes = judge(read_inspect(inspected(**said)), ["rocep1s0f0"])
    assert [note.id for note in notes] == (["nccl.container.flags"] if lacks else [])
    assert all(
        f"v4-flash (registry/engine:1) was made without {lacks}, which" in note.summary for note in notes
    )


@pytest.mark.parametrize(
    ("state", "command", "env", "told"),
    [
        ("created", ["vllm"], [], True),  # before it is started
        ("exited", ["vllm"], [], False),
        ("running", ["jupyter"], ["PATH=/bin"], False),
        ("running", ["bash"], ["NCCL_NET=IB"], True),
        ("running", ["python3", "-m", "sglang.launch_server"], [], True),
    ],
)
def test_which_containers_are_judged(state, command, env, told):
    made = read_inspect(inspected(state, command, env, Devices=[]))
    assert bool(judge(made, ["rocep1s0f0"])) is told
    assert judge(made, []) == []


@pytest.mark.parametrize(
    "text", ["", "no", "{}", "[1]", '[{"Id": 7}]', '[{"Id": "a", "HostConfig": []}]', "null"]
)
def test_what_is_no_answer_of_inspect(text):
    assert all(each.id for each in read_inspect(text))


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["Id", "HostConfig", "Config", "Devices", "Ulimits", "Env", "State"]), inner
            )
        ),
    )
)
def test_no_json_makes_a_traceback(read):
    judge(read_inspect(json.dumps(read)), ["rocep1s0f0"])


def test_ids():
    assert ids(f"{ID}\nCannot connect to the Docker daemon\n") == [ID]


class Live(node.Question):
    live = True


@pytest.mark.parametrize("programs", [["docker"], ["docker", "podman"], []])
def test_the_look_at_a_node_tells_both(tmp_path, monkeypatch, programs):
    """The process and its container, each once, though podman may answer for docker."""
    Proc(tmp_path).add(315, devices=0)
    (tmp_path / "proc/315/maps").write_text("7f00-7f01 r-xp 0 00:00 7 /opt/lib/libnccl.so.2.30.7\n")
    (tmp_path / "sys/class/infiniband/rocep1s0f0/ports/1").mkdir(parents=True)

    def ask(argv, *_timeout):
        return commands.Answer(
            0, f"{ID}\n" if argv[1] == "ps" else inspected(Devices=None, env=["NCCL_IB_GID_INDEX=4,4"])
        )

    monkeypatch.setattr(commands, "ask", ask)
    monkeypatch.setattr(commands, "there", lambda program: program in programs)
    monkeypatch.setattr(node_deep.engine_state, "units", lambda *_: {})
    found, notes = node.look(Live(root=str(tmp_path)), ["nccl"])
    told = [note.id for note in notes if note.id.startswith(("nccl.process", "nccl.container"))]
    of_container = ["nccl.container.flags", "nccl.process.gid_index"] if programs else []
    assert told == ["nccl.process.no_rdma", *of_container]
    assert found["nccl"]["ranks"][0]["container"] == "docker 0f3b0f3b0f3b"
    assert [each["lacks"] for each in found["nccl"]["containers"]] == (
        [["--device=/dev/infiniband"]] if programs else []
    )
