# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem container` and `tandem clear`: what a unit starts, and that nothing is left of it."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import stat
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    clear_command,
    cli,
    commands,
    container_command,
    container_engine,
    container_run,
    leftovers,
)
from ansible_collections.tandem.spark.plugins.module_utils.container_run import ContainerError
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError

USER = pwd.getpwuid(os.getuid()).pw_name
HOW = {
    "program": "docker",
    "command": "/usr/bin/vllm",
    "user": USER,
    "gpu": False,
    "rdma": False,
    "cache": "/var/cache/tandem/0123456789abcdef",
    "checkpoint": "/srv/models/x",
    "mounts": [],
}
RECORD = {"image": "sha256:1f", "fingerprint": "f", "program": "docker", "python": "python3"}


class Became(Exception):
    """The process became another program."""


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node with a release that runs in a container."""
    release, runtime = tmp_path / "releases/0f", tmp_path / "runtime/ab"
    for folder in (release, runtime, tmp_path / "run"):
        folder.mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/0f")
    (release / "runtime").symlink_to(runtime)
    (release / "env").write_text('HOME="/var/cache/tandem/x"\nQUOTED="a \\"b\\" \\\\c"\n')
    (release / container_run.HOW).write_text(json.dumps(HOW))
    (runtime / "container.json").write_text(
        json.dumps({**RECORD, "environment": ["GLOO_SOCKET_IFNAME", "PATH"]})
    )
    (tmp_path / "fabric.env").write_text('TANDEM_NODE_RANK="1"\nNCCL_SOCKET_IFNAME="=enp1s0f0np0"\n')
    monkeypatch.setattr(container_command.engine_state, "CURRENT", str(tmp_path / "current"))
    monkeypatch.setattr(container_command, "FABRIC_ENV", str(tmp_path / "fabric.env"))
    monkeypatch.setattr(container_run, "ENV_FILE", str(tmp_path / "run/{name}.env"))

    def become(program, words, environment):
        raise Became(program, words, environment)

    monkeypatch.setattr(container_command.os, "execvpe", become)
    return tmp_path


def started(*words):
    with pytest.raises(Became) as became:
        container_command.start("tandem-worker", list(words))
    return became.value.args


def say_how(node, **more):
    (node / "releases/0f" / container_run.HOW).write_text(json.dumps({**HOW, **more}))


def test_it_becomes_the_program_that_runs_the_container(node):
    program, words, environment = started("serve", "--config", "/opt/tandem/current/engine.yaml")
    assert program == "docker" and words[-4:] == [
        "sha256:1f",
        "serve",
        "--config",
        "/opt/tandem/current/engine.yaml",
    ]
    assert f"--user={os.getuid()}:{os.getgid()}" in words and "--entrypoint=/usr/bin/vllm" in words
    assert words[words.index("--env") + 1] == "GLOO_SOCKET_IFNAME"
    # The client is given nothing of it: LD_PRELOAD would be loaded into the client itself.
    assert set(environment) == {"PATH", "LC_ALL", "HOME", "DOCKER_CONFIG"}


def test_its_variables_are_in_a_file_that_only_root_reads(node):
    started("serve")
    path = node / "run/tandem-worker.env"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines() == [
        "HOME=/var/cache/tandem/x",
        f"LOGNAME={USER}",
        "NCCL_SOCKET_IFNAME==enp1s0f0np0",
        'QUOTED=a "b" \\c',
        "TANDEM_NODE_RANK=1",
        f"USER={USER}",
    ]


def test_the_head_has_the_key_of_the_api_in_that_file_and_nowhere_else(node, monkeypatch):
    monkeypatch.setattr(container_command, "KEY_FILE", str(node / "api.env"))
    with pytest.raises(ContainerError, match=r"api.env is missing, which says whether the API wants a key"):
        container_command.start("tandem-head", ["serve"])
    for content, there in (("VLLM_API_KEY=the-key-0123456789\n", True), ("# No key\n", False)):
        (node / "api.env").write_text(content)
        with pytest.raises(Became) as became:
            container_command.start("tandem-head", ["serve"])
        assert "the-key-0123456789" not in repr(became.value.args)
        assert ("VLLM_API_KEY=the-key-0123456789\n" in (node / "run/tandem-head.env").read_text()) == there


def test_what_this_node_lacks_keeps_it_from_its_start(node, monkeypatch):
    monkeypatch.setattr(container_run, "RDMA", str(node / "dev/infiniband"))
    say_how(node, rdma=True)
    with pytest.raises(FindingError, match="no /dev/infiniband"):
        container_command.start("tandem-worker", ["serve"])
    (node / "dev/infiniband").mkdir(parents=True)
    assert f"--device={node}/dev/infiniband" in started("serve")[1]
    say_how(node, user="nobody-of-that-name")
    with pytest.raises(ContainerError, match="no account"):
        container_command.start("tandem-worker", ["serve"])
    say_how(node, mounts=["/opt/tandem/nccl/x"])
    with (node / "releases/0f/env").open("a") as stream:
        stream.write('LD_PRELOAD="/opt/tandem/nccl/x/libnccl.so.2:/lib/of/the/image.so"\n')
    with pytest.raises(ContainerError, match=r"names /opt/tandem/nccl/x/libnccl.so.2, which is not there"):
        container_command.start("tandem-worker", ["serve"])


def test_the_gpu_comes_by_the_way_that_this_node_has(node, monkeypatch):
    engine = container_engine.Engine("docker", "29", "/var/lib/docker", ("nvidia",))
    monkeypatch.setattr(container_engine, "look", lambda program: engine)
    monkeypatch.setattr(container_engine.driver_traces, "cdi", lambda tree: {})
    say_how(node, gpu=True)
    assert {"--runtime=nvidia", "--gpus=all"} <= set(started("serve")[1])


@pytest.mark.parametrize("gone", ["releases/0f/container.json", "runtime/ab/container.json"])
def test_a_release_that_is_not_whole(node, gone):
    (node / gone).unlink()
    with pytest.raises(ContainerError, match="Run site.yml"):
        container_command.start("tandem-worker", ["serve"])


def test_a_checkpoint_of_links_is_seen_as_a_whole(tmp_path):
    blobs, model = tmp_path / "blobs", tmp_path / "model"
    for folder in (blobs, model, tmp_path / "shards"):
        folder.mkdir()
    (blobs / "1").write_text("x")
    (model / "config.json").symlink_to("../blobs/1")
    (model / "own.json").write_text("{}")
    (model / "own-link.json").symlink_to("own.json")
    (model / "broken").symlink_to(tmp_path / "nowhere/x")
    assert container_command.beside(str(model)) == (str(blobs),)
    assert container_command.beside(str(tmp_path / "none")) == ()


def test_the_python_of_an_image_is_no_rank(node, monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {
        "HF_TOKEN": "hf_x",
        "PATH": "/x",
        "INVOCATION_ID": "i",
        "LD_PRELOAD": "/l.so",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Became) as became:
        container_command.python(node / "runtime/ab", ["/srv"], ["-c", "pass"])
    _program, words, environment = became.value.args
    assert words[-3:] == ["sha256:1f", "-c", "pass"] and "--entrypoint=python3" in words
    assert environment["HF_TOKEN"] == "hf_x" and "LD_PRELOAD" not in environment
    assert "LD_PRELOAD=/l.so" in words and "INVOCATION_ID" not in words and "hf_x" not in " ".join(words)
    assert not [each for each in words if each.startswith("--name=")]


@pytest.mark.parametrize(
    ("words", "run", "python", "rest"),
    [
        (
            ["--run", "tandem-head", "--", "serve", "--config", "x"],
            "tandem-head",
            None,
            ["serve", "--config", "x"],
        ),
        (["--python", "/x", "--mount", "/srv", "--", "-P", "-m", "a"], None, "/x", ["-P", "-m", "a"]),
    ],
)
def test_its_words(monkeypatch, words, run, python, rest):
    done = []
    monkeypatch.setattr(container_command, "start", lambda name, more: done.append((name, None, more)))
    monkeypatch.setattr(
        container_command, "python", lambda path, _m, more: done.append((None, str(path), more))
    )
    monkeypatch.setattr(container_command, "stop", lambda name: 0)
    arguments = cli.parser(["container"]).parse_args(["container", *words])
    container_command.run(arguments)
    assert done == [(run, python, rest)]


class Docker:
    """Answers of docker; there: names of containers."""

    def __init__(self, monkeypatch, there=(), stubborn=False, silent=False, installed=("docker",)):
        self.there, self.said = set(there), []
        self._stubborn, self._silent = stubborn, silent
        monkeypatch.setattr(commands, "ask", self.ask)
        monkeypatch.setattr(commands, "there", lambda program: program in installed)

    def ask(self, words, **_options):
        self.said.append(list(words))
        if self._silent:
            return commands.Answer(None, "")
        if words[1] == "rm" and not self._stubborn:
            self.there.discard(words[-1])
        if words[1] == "rm" and self._stubborn:
            return commands.Answer(1, "device or resource busy")
        return commands.Answer(0 if words[-1] in self.there else 1, "")


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    for name in ("CID_FILE", "ENV_FILE"):
        monkeypatch.setattr(container_run, name, str(tmp_path / f"{{name}}.{name[:3]}"))
        (tmp_path / f"tandem-head.{name[:3]}").write_text("x")
    monkeypatch.setattr(leftovers, "shared_memory", lambda root, cleared: None)
    return tmp_path


def test_nothing_is_left_of_an_earlier_start(monkeypatch, run_folder, capsys):
    docker = Docker(monkeypatch, there=["tandem-head", "somebody"])
    assert clear_command.clear("tandem-head", in_container=True) == 0
    assert docker.there == {"somebody"} and not list(run_folder.iterdir())
    assert capsys.readouterr().out == "removed container tandem-head of an earlier start\n"
    clear_command.clear("tandem-head", in_container=True)
    assert [each for each in docker.said if each[1] == "rm"] == [["docker", "rm", "--force", "tandem-head"]]


def test_without_anything_that_runs_containers_there_is_nothing_to_do(monkeypatch, run_folder):
    docker = Docker(monkeypatch, installed=())
    assert clear_command.clear("tandem-head", in_container=False) == 0 and docker.said == []


def test_a_container_that_stays_keeps_the_rank_from_its_start(monkeypatch, run_folder):
    Docker(monkeypatch, there=["tandem-head"], stubborn=True)
    with pytest.raises(leftovers.LeftoversError, match="still there: device or resource busy"):
        clear_command.clear("tandem-head", in_container=True)


def test_a_docker_that_hangs_is_no_fault_of_a_rank_without_one(monkeypatch, run_folder, capsys):
    Docker(monkeypatch, silent=True)
    assert clear_command.clear("tandem-head", in_container=False) == 0
    assert "gives no answer" in capsys.readouterr().err
    with pytest.raises(leftovers.LeftoversError, match="gives no answer"):
        clear_command.clear("tandem-head", in_container=True)


def test_a_stop_gives_the_engine_its_time(node, monkeypatch):
    docker = Docker(monkeypatch)
    assert container_command.stop("tandem-head") == 0  # it ended by itself
    assert docker.said == [["docker", "stop", "-t", "20", "tandem-head"]]
    Docker(monkeypatch, silent=True)
    with pytest.raises(ContainerError, match="by force"):
        container_command.stop("tandem-head")


def test_shared_memory_that_nobody_uses_goes(tmp_path, monkeypatch):
    shared = tmp_path / "dev/shm"
    shared.mkdir(parents=True)
    for name in ("psm_open", "psm_mapped", "psm_left", "sem.mp-left"):
        (shared / name).write_bytes(b"x" * 5000)
    (tmp_path / "proc/315/fd").mkdir(parents=True)
    (tmp_path / "proc/315/fd/7").symlink_to("/dev/shm/psm_open")
    (tmp_path / "proc/315/maps").write_text("7f00-7f01 rw-s 00000000 00:1a 12   /dev/shm/psm_mapped\n")
    cleared = leftovers.Cleared()
    leftovers.shared_memory(tmp_path, cleared)
    assert str(cleared) == ""  # nobody's caches are here, so nobody's memory is known
    monkeypatch.setattr(leftovers, "owner_of", lambda root: os.getuid())
    leftovers.shared_memory(tmp_path, cleared)
    assert sorted(each.name for each in shared.iterdir()) == ["psm_mapped", "psm_open"]
    assert len(cleared.files) == 2 and "2 files of shared memory" in str(cleared)


def test_root_is_no_account_of_an_engine(tmp_path):
    assert leftovers.owner_of(tmp_path) is None
    (tmp_path / "var/cache/tandem").mkdir(parents=True)
    assert leftovers.owner_of(tmp_path) == (os.getuid() or None)


def test_the_agent_knows_both_commands():
    for name in ("container", "clear"):
        assert isinstance(cli.parser([name]), argparse.ArgumentParser)
    assert Path(clear_command.__file__).name == f"{cli.COMMANDS['clear']}.py"
