# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the field met with containers and Ray, case by case: what this collection's own ranks make of it.

Each function is a case; its docstring is the conclusion. What somebody else's container is told stands in
test_field_cases.
"""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.action import group_unit
from ansible_collections.tandem.spark.plugins.module_utils import (
    container_engine,
    container_image,
    container_run,
    containers,
    engine_config,
    engine_log,
    ray_command,
    ray_settings,
    stalled_ranks,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.plugin_utils.release import Release
from test_container_run import HERE, HOW, values, words
from test_unit_hardening import directives, rendered


def release(env: str) -> Release:
    return Release({"env": env}, "f" * 64, "/opt/tandem/runtime/x", "r", {}, "/var/cache/tandem/f", "tandem")


def case_046():
    """What RDMA needs is in the command line of every rank, and a rank without the device does not start."""
    said = words()
    assert {
        "--device=/dev/infiniband",
        "--cap-add=IPC_LOCK",
        "--ulimit=memlock=-1:-1",
        "--network=host",
    } <= set(said)
    assert finding("container.rdma.none").severity == "error"


def case_051():
    """An image that bakes in the interfaces of its author: what this start sets wins, the rest is taken out."""
    baked = ["TP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_NET_PLUGIN"]
    start = {"NCCL_SOCKET_IFNAME": "=enp1s0f0np0"}
    assert container_run.taken_out(baked, start) == ["GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"]


def case_054():
    """A variable that changes is another release, and every start makes the container anew; nothing is `exec`ed."""
    assert release('NCCL_NET_PLUGIN="none"\n').digest != release("").digest
    said = words()
    assert said[:3] == ["docker", "run", "--rm"] and not {"start", "exec"} & set(said)


def case_070():
    """The driver that an image was built for is looked at before it is pulled, and its own words are known after."""
    baked = ["CUDA_DRIVER_VERSION=590.48.01"]
    (note,) = container_image.judge("x:1", ["arm64"], baked, "aarch64", "580.159.03")
    assert note.id == "container.image.driver" and "branch 590" in note.remedy
    line = "ERROR: This container was built for NVIDIA Driver Release 590.48 or later, but version 580 was detected"
    assert engine_log.read_log([line]).fatal.id == "engine.driver.too_old"


def case_083():
    """No size of shared memory is chosen: it is the host's, of which nobody takes a fixed part."""
    said = words()
    assert "--ipc=host" in said and not [each for each in said if "shm" in each]


def case_095():
    """Nothing but the unit brings a rank back, so both come together; somebody else's that would is told."""
    assert values(words(), "--restart") == ["no"]
    told = {"Id": "0f" * 32, "Name": "/x", "Config": {"Cmd": ["vllm"]}}
    told["HostConfig"] = {"RestartPolicy": {"Name": "unless-stopped"}}
    (note,) = containers.foreign(containers.read_inspect(json.dumps([told])))
    assert note.id == "container.foreign.restarts" and "unless-stopped" in note.summary


def case_097():
    """Ranks may come up in any order, since each waits for the other; the order of a roll-out is only its own."""
    order = list(
        group_unit.steps({"a": "tandem-head.service", "b": "tandem-worker.service"}, "restarted", None)
    )
    assert order[-2:] == [("started", "b"), ("started", "a")]
    for unit in (rendered("head", "gb10"), rendered("worker", "gb10")):
        after = [value for name, value in directives(unit) if name in ("After", "Requires", "BindsTo")]
        assert not [value for value in after if "tandem-" in value]
    with pytest.raises(ray_settings.RayError, match="did not take a connection"):
        ray_command.wait_for("127.0.0.1:9", 0.1)


def case_098():
    """What a rank of Ray prints is in its own journal, and all journals are read before a verdict."""
    assert ray_settings.ENVIRONMENT["RAY_LOG_TO_STDERR"] == "1"
    driver = ["(EngineCore pid=9) INFO No available shared memory broadcast block found in 60 seconds."]
    loading = ["(RayWorkerProc pid=8) Loading safetensors checkpoint shards:  65% Completed | 31/48"]
    assert engine_log.read_log(driver).fatal is None
    note = finding("engine.boot.timeout", seconds=60, watch="x")
    told = stalled_ranks.name_ranks(note, {"spark-a": driver, "spark-b": loading})
    assert "spark-b does not say that it waits" in told.evidence and "31/48" in told.evidence


def case_105():
    """The toolkit is on the path of the unit, and what Ray starts inherits it; a shell's would reach one rank."""
    for role in ("head", "worker"):
        path = dict(directives(rendered(role, "gb10")))["Environment"]
        assert path.startswith("PATH=/usr/local/cuda/bin:")
    child = ray_command.child_environment(
        {"PATH": "/usr/local/cuda/bin:/usr/bin", "CUDA_HOME": "/usr/local/cuda"}, {}
    )
    assert child == {"PATH": "/usr/local/cuda/bin:/usr/bin", "CUDA_HOME": "/usr/local/cuda"}


def case_108():
    """One file of flags for all ranks, in a container too; only what must differ stands behind it."""
    head, worker = (engine_config.rank_arguments(rank, 2, "0.0.0.0", 8888) for rank in (0, 1))
    differ = set(head) ^ set(worker)
    gate = {"--middleware", engine_config.GATE}
    assert differ == {"--host", "0.0.0.0", "--port", "8888", "--headless", *gate}
    assert f"type=bind,source={HERE.release},target=/opt/tandem/current,readonly" in words()


def case_111():
    """Docker from snap is refused, and its words are known."""
    said = {"ServerVersion": "28.1", "DockerRootDir": "/var/snap/docker/common/var-lib-docker"}
    assert container_engine.read_info("docker", json.dumps(said)).snap
    line = "docker: open /usr/bin/nvidia-cuda-mps-control: no such file or directory"
    assert engine_log.read_log([line]).fatal.id == "engine.container.snap"


def case_113():
    """Two versions of Ray or Python are compared before a start, and Ray's own line is known."""
    line = "RuntimeError: Version mismatch: The cluster was started with:"
    assert engine_log.read_log([line]).fatal.id == "engine.ray.version"
    assert finding("profile.ray.python", found="x").severity == "error"


def case_114():
    """Ray's own look at the memory is off in every release that runs over it."""
    assert ray_settings.environment("/x")["RAY_memory_monitor_refresh_ms"] == "0"


def case_117():
    """The engine's own account runs it in the container; as root it would leave files that this account cannot open."""
    assert values(words(), "--user") == ["997:996"] and HOW.user == "tandem"
    keys = {container_image.key("x@sha256:0", {}, "vllm", "python3", as_root) for as_root in (False, True)}
    assert len(keys) == 2


THEMES = {"containers and Ray": "046 051 054 070 083 095 097 098 105 108 111 113 114 117"}
CASES = {
    name.removeprefix("case_"): each for name, each in dict(globals()).items() if name.startswith("case_")
}


@pytest.mark.parametrize("number", CASES)
def test_a_case(number):
    CASES[number]()


def test_every_case_is_concluded():
    assert sorted(CASES) == sorted(" ".join(THEMES.values()).split())
    assert all(case.__doc__ for case in CASES.values())
