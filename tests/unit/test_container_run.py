# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of a rank in a container: what RDMA needs is in it, and no value of a variable is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import container_run, containers, fabric_env
from ansible_collections.tandem.spark.plugins.module_utils.container_run import ContainerError, Here, How

CACHE = "/var/cache/tandem/0123456789abcdef"
HOW = How(
    "docker", "/usr/local/bin/vllm", "tandem", True, True, CACHE, "/srv/models/x", ("/opt/tandem/nccl/ab",)
)
HERE = Here("/opt/tandem/releases/0f", 997, 996, ("--runtime=nvidia", "--gpus=all"))
VARIABLES = {"HF_TOKEN": "hf_secret", "NCCL_SOCKET_IFNAME": "=enp1s0f0np0", "HOME": CACHE}
ENGINE = ["serve", "--config", "/opt/tandem/current/engine.yaml", "--headless"]


def words(how=HOW, here=HERE, baked=(), variables=VARIABLES, name="tandem-worker"):
    return container_run.words(how, here, "sha256:1f", baked, variables, name, ENGINE)


def values(said: list[str], flag: str) -> list[str]:
    return [each.partition("=")[2] for each in said if each.startswith(f"{flag}=")]


def test_what_rdma_and_the_gpu_need():
    said = words()
    for each in (
        "--network=host",
        "--ipc=host",
        "--device=/dev/infiniband",
        "--cap-add=IPC_LOCK",
        "--ulimit=memlock=-1:-1",
        "--runtime=nvidia",
        "--gpus=all",
    ):
        assert each in said[: said.index("sha256:1f")], each
    assert said[:3] == ["docker", "run", "--rm"] and said[-5:] == ["sha256:1f", *ENGINE]


def test_whoever_looks_at_such_a_container_misses_nothing():
    """The words as docker keeps them, judged by what judges the containers of others."""
    said = words()
    soft, hard = (int(each) for each in values(said, "--ulimit")[0].partition("=")[2].split(":"))
    made = {
        "Id": "0f" * 32,
        "Name": "/somebody",
        "State": {"Status": "running"},
        "Config": {"Image": "x", "Cmd": ["vllm"]},
        "HostConfig": {
            "NetworkMode": values(said, "--network")[0],
            "Devices": [{"PathOnHost": values(said, "--device")[0]}],
            "CapAdd": values(said, "--cap-add"),
            "Ulimits": [{"Name": "memlock", "Soft": soft, "Hard": hard}],
        },
    }
    assert containers.judge(containers.read_inspect(json.dumps([made])), ["rocep1s0f0"]) == []
    del made["HostConfig"]["Devices"]
    assert containers.judge(containers.read_inspect(json.dumps([made])), ["rocep1s0f0"]) != []


def test_nothing_of_a_variable_stands_in_it():
    said = words(baked=["HF_TOKEN", "PATH"])
    assert not [each for each in said if "hf_secret" in each or each == "--env"]
    assert values(said, "--env-file") == ["/run/tandem/tandem-worker.env"]


def test_it_runs_in_the_foreground_and_nothing_brings_it_back():
    said = words()
    assert not {"-d", "--detach", "--restart=always", "--privileged", "-it"} & set(said)
    assert {"--rm", "--pull=never", "--init", "--log-driver=none", "--stop-signal=SIGTERM"} <= set(said)
    assert values(said, "--restart") == ["no"] and values(said, "--name") == ["tandem-worker"]
    assert values(said, "--cidfile") == ["/run/tandem/tandem-worker.cid"]


@pytest.mark.parametrize(
    ("how", "there", "gone"),
    [
        ({}, ["--user=997:996", "--cap-drop=ALL"], ["--user=0:0"]),
        ({"rdma": False}, [], ["--device=/dev/infiniband"]),
        ({"gpu": False}, [], ["--runtime=nvidia", "--gpus=all"]),
        ({"user": "root"}, ["--cap-add=IPC_LOCK", "--security-opt=no-new-privileges"], ["--cap-drop=ALL"]),
        ({"program": "podman"}, ["--log-driver=passthrough"], ["--log-driver=none"]),
    ],
)
def test_what_a_release_may_want(how, there, gone):
    said = words(replace(HOW, **how))
    assert set(there) <= set(said) and not set(gone) & set(said)


def test_what_is_mounted_has_the_same_path_inside():
    mounts = [words()[at + 1] for at, each in enumerate(words()) if each == "--mount"]
    assert mounts == [
        "type=bind,source=/opt/tandem/releases/0f,target=/opt/tandem/current,readonly",
        "type=bind,source=/srv/models/x,target=/srv/models/x,readonly",
        "type=bind,source=/opt/tandem/lib,target=/opt/tandem/lib,readonly",
        "type=bind,source=/opt/tandem/nccl/ab,target=/opt/tandem/nccl/ab,readonly",
        f"type=bind,source={CACHE},target={CACHE}",
        f"type=bind,source={CACHE}/inductor,target=/tmp/torchinductor_tandem",
    ]
    linked = words(here=replace(HERE, beside=("/root/.cache/blobs",)))
    assert "type=bind,source=/root/.cache/blobs,target=/root/.cache/blobs,readonly" in linked


@pytest.mark.parametrize("path", ["/srv/a,b", "srv/models", ""])
def test_a_path_that_cannot_be_mounted(path):
    with pytest.raises(ContainerError, match="whole path without a comma"):
        words(replace(HOW, checkpoint=path))


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("docker", ["--env", "GLOO_SOCKET_IFNAME", "--env", "NCCL_IB_GID_INDEX"]),
        ("podman", ["--unsetenv=GLOO_SOCKET_IFNAME", "--unsetenv=NCCL_IB_GID_INDEX"]),
    ],
)
def test_an_author_s_interfaces_are_taken_out(program, expected):
    """What an image bakes in of its author's node, and this start does not set; what it sets wins by itself."""
    baked = ["GLOO_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "PATH"]
    said = words(replace(HOW, program=program), baked=baked)
    at = said.index(expected[0])
    assert said[at : at + len(expected)] == expected
    assert not [each for each in said if "NCCL_DEBUG" in each or each.endswith("NCCL_SOCKET_IFNAME")]


def test_every_variable_of_a_node_is_known():
    """What fabric.env may hold besides the profile's own."""
    assert set(fabric_env.PER_NODE) >= {"NCCL_IB_HCA", "VLLM_HOST_IP", "TANDEM_NODE_RANK", "UCX_NET_DEVICES"}
    rails = [fabric_env.PlannedRail("enp1s0f0np0", None, fabric_env.IPv4Interface("192.168.177.1/29"))]
    assert set(fabric_env._sockets(rails)) == set(fabric_env.SOCKETS)


def test_the_file_of_variables_is_read_as_it_is_written():
    text = container_run.env_file({"B": 'it\'s "quoted" $HOME', "A": "", "C": "a=b"})
    assert text == 'A=\nB=it\'s "quoted" $HOME\nC=a=b\n'


@pytest.mark.parametrize("wrong", [{"A": "a\nb"}, {"A B": "x"}, {"": "x"}, {"A": "\0"}])
def test_what_cannot_be_given_to_a_container(wrong):
    with pytest.raises(ContainerError, match="cannot be given"):
        container_run.env_file({"FINE": "x", **wrong})


def test_this_start_counts_more_than_the_release():
    made = container_run.environment({"A": "1", "B": "1"}, {"B": "2"}, "tandem")
    assert made == {"A": "1", "B": "2", "USER": "tandem", "LOGNAME": "tandem"}


def test_the_images_own_path_of_python_stays_and_the_key_is_added():
    made = container_run.environment({"PYTHONPATH": "/opt/tandem/lib"}, {}, "t", "/usr/lib/image", "the-key")
    assert made["PYTHONPATH"] == "/opt/tandem/lib:/usr/lib/image" and made["VLLM_API_KEY"] == "the-key"
    assert "PYTHONPATH" not in container_run.environment({}, {}, "t", "/usr/lib/image")


def test_an_author_s_developer_mode_and_key_are_taken_out():
    baked = ["PATH", "VLLM_API_KEY", "VLLM_SERVER_DEV_MODE"]
    assert container_run.taken_out(baked, ["VLLM_API_KEY"]) == ["VLLM_SERVER_DEV_MODE"]
    assert container_run.taken_out(baked, []) == ["VLLM_API_KEY", "VLLM_SERVER_DEV_MODE"]


SAID = {
    "program": "docker",
    "command": "vllm",
    "user": "tandem",
    "gpu": True,
    "rdma": False,
    "cache": CACHE,
    "checkpoint": "/srv/models/x",
    "mounts": [],
}


def test_how_a_release_says_it():
    assert How.of(SAID) == How("docker", "vllm", "tandem", True, False, CACHE, "/srv/models/x")


@pytest.mark.parametrize(
    "content",
    [
        {**SAID, "program": None},
        {**SAID, "command": ""},
        {**SAID, "cache": 3},
        {**SAID, "mounts": [1]},
        {**SAID, "mounts": 1},
        {**SAID, "user": "a\nb"},
        {name: value for name, value in SAID.items() if name != "gpu"},
        {},
        [],
    ],
)
def test_a_release_that_says_it_wrongly(content):
    with pytest.raises(ContainerError, match="Run site.yml"):
        How.of(content)


def test_the_python_of_an_image_sees_what_it_is_given():
    how = How("docker", "", "root", False, False, "", "")
    variables = {"HF_TOKEN": "hf_secret", "LD_PRELOAD": "/opt/tandem/nccl/x/libnccl.so.2"}
    said = container_run.python_words(
        how, HERE, "sha256:1f", "/opt/venv/bin/python", ["/srv/models"], variables, ["-P", "-m", "tandem.x"]
    )
    assert said[-4:] == ["sha256:1f", "-P", "-m", "tandem.x"] and "--interactive" in said
    assert not [each for each in said if "hf_secret" in each] and "--network=host" in said
    # The client of docker would load it too.
    assert "LD_PRELOAD=/opt/tandem/nccl/x/libnccl.so.2" in said
    assert "type=bind,source=/srv/models,target=/srv/models" in said
    assert "type=bind,source=/opt/tandem,target=/opt/tandem,readonly" in said
    assert not {"--gpus=all", "--device=/dev/infiniband"} & set(said)
