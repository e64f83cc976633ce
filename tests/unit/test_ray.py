# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank in a cluster of Ray: its command lines, what the head may not copy, and that all of it is one unit."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.filter.ray import ray_environment, ray_not_copied
from ansible_collections.tandem.spark.plugins.module_utils import (
    cli,
    engine_config,
    fabric_env,
    ray_command,
    ray_settings,
)
from ansible_collections.tandem.spark.plugins.module_utils.ray_settings import RayError

START = {
    "TANDEM_NODE_RANK": "0",
    "TANDEM_MASTER_ADDR": "192.168.177.1",
    "TANDEM_MASTER_PORT": "25000",
    "VLLM_HOST_IP": "192.168.177.1",
}


def test_the_head_holds_the_cluster_for_its_ranks_alone():
    words = ray_settings.start_words("/x/ray", 0, "192.168.177.1", "192.168.177.1:25000")
    assert words[:4] == ["/x/ray", "start", "--head", "--port=25000"] and "--block" in words
    assert {"--include-dashboard=false", "--ray-client-server-port=25016", "--disable-usage-stats"} <= set(
        words
    )
    assert "--node-ip-address=192.168.177.1" in words and "--num-gpus=1" in words


def test_a_worker_joins_by_its_own_rail():
    words = ray_settings.start_words("/x/ray", 1, "192.168.177.2", "192.168.177.1:25000")
    assert words[:3] == ["/x/ray", "start", "--address=192.168.177.1:25000"]
    assert "--node-ip-address=192.168.177.2" in words and "--head" not in words
    assert not [each for each in words if "include-dashboard" in each or "client" in each]


def test_every_port_of_ray_is_named_so_that_it_can_be_closed_to_others():
    for rank in (0, 1):
        words = ray_settings.start_words("/x/ray", rank, "192.168.177.2", "192.168.177.1:25000")
        given = {int(word.rpartition("=")[2]) for word in words if "-port=" in word}
        assert {*ray_settings.PORTS.values(), *ray_settings.WORKERS} <= given
        closed = [
            range(int(low), int(high) + 1) for low, high in (each.split("-") for each in ray_settings.CLOSED)
        ]
        assert all(any(port in each for each in closed) for port in given - {25000})


def test_ray_s_own_store_takes_no_third_of_the_memory():
    words = ray_settings.start_words("/x/ray", 1, "a", "b:1")
    assert f"--object-store-memory={1 << 30}" in words


def test_what_belongs_to_a_node_is_not_copied_from_the_head():
    """Of what fabric.env holds nothing may come from the head: also what a node has left unset on purpose."""
    kept = json.loads(ray_not_copied(""))
    assert set(kept) == {*fabric_env.PER_NODE, "VLLM_API_KEY"} and "NCCL_IB_GID_INDEX" in kept
    # vLLM looks for the list in its folder of configuration.
    assert ray_environment("/opt/tandem/current")["VLLM_CONFIG_ROOT"] == "/opt/tandem/current/vllm"
    assert f"{ray_settings.CONFIG_ROOT}/{ray_settings.NOT_COPIED}" == "vllm/ray_non_carry_over_env_vars.json"


def test_the_list_is_what_vllm_reads(tmp_path):
    """As vLLM 0.32.0 makes the set of what is not copied."""
    (tmp_path / ray_settings.NOT_COPIED).write_text(ray_settings.not_copied())
    with open(tmp_path / "ray_non_carry_over_env_vars.json") as stream:
        excluded = set(json.load(stream))
    head = {
        **START,
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_NET": "IB",
        "VLLM_API_KEY": "k",
        "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
    }
    assert {name for name in head if name not in excluded} == {"NCCL_NET"}


def test_the_logs_of_a_rank_are_in_its_own_journal():
    assert ray_settings.ENVIRONMENT["RAY_LOG_TO_STDERR"] == "1"
    words = ray_settings.start_words("/x/ray", 1, "a", "b:1")
    assert not [each for each in words if "log" in each]


@pytest.mark.parametrize(
    "wrong", [{"TANDEM_NODE_RANK": "x"}, {"TANDEM_MASTER_PORT": ""}, {"VLLM_HOST_IP": None}]
)
def test_a_rank_without_its_place(wrong):
    variables = {name: value for name, value in {**START, **wrong}.items() if value is not None}
    with pytest.raises(RayError, match=r"fabric\.env"):
        ray_settings.own_address(variables)


@pytest.mark.parametrize(
    ("rank", "expected"),
    [(0, ["--host", "0.0.0.0", "--port", "8888", "--middleware", "tandem.api_gate.Gate"]), (1, [])],
)
def test_with_ray_only_the_head_serves(rank, expected):
    assert engine_config.rank_arguments(rank, 2, "0.0.0.0", 8888, "ray") == expected


def test_the_engine_gets_the_unit_s_environment_and_not_the_agent_s():
    own = {"PATH": "/usr/local/cuda/bin", "PYTHONPATH": "/opt/tandem/lib", "NCCL_NET": "IB"}
    release = {"PYTHONPYCACHEPREFIX": "/var/cache/tandem/x/python", "NCCL_NET": "Socket"}
    assert ray_command.child_environment(own, release) == {
        "PATH": "/usr/local/cuda/bin",
        "NCCL_NET": "IB",
        "PYTHONPYCACHEPREFIX": "/var/cache/tandem/x/python",
    }


def test_a_worker_waits_for_the_head(capsys):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        head = f"127.0.0.1:{door.getsockname()[1]}"
        with pytest.raises(RayError, match="did not take a connection within"):
            ray_command.wait_for(head, 0.1)
        assert f"waiting for Ray at {head}" in capsys.readouterr().out
        door.listen()
        ray_command.wait_for(head, 5)


RAY = """import os, signal, sys, time
print("ray", *sys.argv[1:], flush=True)
{before}
print("Ray runtime started.", flush=True)
{after}
"""
LIVES = "time.sleep(60)"


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A pretended ray; returns what runs the head's agent."""
    for name, value in START.items():
        monkeypatch.setenv(name, value)

    def run(engine: str, before: str = "", after: str = LIVES) -> subprocess.Popen:
        (tmp_path / "ray.py").write_text(RAY.format(before=before, after=after))
        (tmp_path / "ray").write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/ray.py "$@"\n')
        (tmp_path / "ray").chmod(0o755)
        (tmp_path / "engine.py").write_text(f"import os, sys, time\n{engine}\n")
        library = tmp_path / "lib"
        library.mkdir(exist_ok=True)
        if not (library / "tandem").exists():
            (library / "tandem").symlink_to(Path(ray_command.__file__).parent)
        words = [sys.executable, "-m", "tandem", "ray", "--ray", str(tmp_path / "ray"), "--"]
        return subprocess.Popen(
            [*words, sys.executable, str(tmp_path / "engine.py")],
            env={**os.environ, "PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return run


def gone(pid: int) -> bool:
    for _look in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def pids(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("pid ")]


@pytest.mark.parametrize(
    ("engine", "code", "words"),
    [
        ("print('served', os.environ['RAY_ADDRESS'], flush=True); sys.exit(3)", 3, "the engine ended with 3"),
        # A wedged head ends with code 0, which is no good end.
        ("sys.exit(0)", 1, "the engine ended with 0"),
    ],
)
def test_where_the_engine_ends_ray_ends_too(node, engine, code, words):
    process = node(engine, before="print('pid', os.getpid(), flush=True)")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == code and words in said
    assert "ray start --head --port=25000" in said and all(gone(pid) for pid in pids(said))


def test_where_ray_ends_the_engine_ends_too(node):
    process = node(
        "print('pid', os.getpid(), flush=True); time.sleep(60)", after="time.sleep(2); sys.exit(7)"
    )
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 7 and "Ray ended with 7" in said
    assert pids(said) and all(gone(pid) for pid in pids(said))


def test_a_ray_that_does_not_come_up_is_told(node):
    process = node("print('never', flush=True)", before="print('no port'); sys.exit(1)")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "Ray ended with 1 before it was up" in said
    assert "no port" in said and "never" not in said


def test_a_stop_ends_both(node):
    process = node(
        "print('pid', os.getpid(), flush=True); time.sleep(60)",
        before="print('pid', os.getpid(), flush=True)",
    )
    told = ""
    while told.count("pid ") < 2:
        told += process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert all(gone(pid) for pid in pids(told))


@pytest.mark.parametrize(("rank", "words"), [("0", []), ("1", ["vllm", "serve"])])
def test_only_the_head_is_given_an_engine(monkeypatch, rank, words):
    for name, value in {**START, "TANDEM_NODE_RANK": rank}.items():
        monkeypatch.setenv(name, value)
    arguments = cli.parser(["ray"]).parse_args(["ray", "--", *words])
    with pytest.raises(RayError, match="wanted is a command for the engine on rank 0"):
        ray_command.run(arguments)


def test_a_worker_becomes_its_part_of_ray(monkeypatch):
    for name, value in {**START, "TANDEM_NODE_RANK": "1", "VLLM_HOST_IP": "192.168.177.2"}.items():
        monkeypatch.setenv(name, value)
    became = []
    monkeypatch.setattr(ray_command, "wait_for", lambda head: became.append(head))
    monkeypatch.setattr(ray_command.os, "execve", lambda *words: became.append(words))
    monkeypatch.setattr(ray_command, "serve", lambda *_words: 0)
    ray_command.run(cli.parser(["ray"]).parse_args(["ray"]))
    head, (program, words, environment) = became
    assert head == "192.168.177.1:25000" and program.endswith("/runtime/bin/ray")
    assert (
        words[1:3] == ["start", "--address=192.168.177.1:25000"]
        and environment["VLLM_HOST_IP"] == "192.168.177.2"
    )
