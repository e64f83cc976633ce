# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose Docker it is, whether it answers, and by which way it gives a container the GPU."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import commands, container_engine
from ansible_collections.tandem.spark.plugins.module_utils.container_engine import (
    BY_CDI,
    BY_RUNTIME,
    Engine,
    gpu_words,
    read_info,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError

DOCKER = {
    "ServerVersion": "29.1.0",
    "DockerRootDir": "/var/lib/docker",
    "Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}},
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
}
PODMAN = {"version": {"Version": "5.4.2"}, "store": {"graphRoot": "/var/lib/containers/storage"}}
FRESH, STALE = {"/etc/cdi/nvidia.yaml": ("580.142",)}, {"/etc/cdi/nvidia.yaml": ("580.95.05",)}


@pytest.mark.parametrize(
    ("program", "told", "found"),
    [
        ("docker", DOCKER, Engine("docker", "29.1.0", "/var/lib/docker", ("nvidia", "runc"), True)),
        (
            "docker",
            {**DOCKER, "CDISpecDirs": None},
            Engine("docker", "29.1.0", "/var/lib/docker", ("nvidia", "runc")),
        ),
        ("docker", {"ServerVersion": "20.10.24"}, Engine("docker", "20.10.24")),
        ("podman", PODMAN, Engine("podman", "5.4.2", "/var/lib/containers/storage", (), True)),
    ],
)
def test_what_it_says_of_itself(program, told, found):
    assert read_info(program, json.dumps(told)) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon\nat unix:///x."]}),
            "Cannot connect",
        ),
        ("{}", "does not say its version"),
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("permission denied", "cannot be read"),
    ],
)
def test_one_that_does_not_answer_says_why(text, why):
    assert why in read_info("docker", text)


@pytest.mark.parametrize(
    ("engine", "cdi", "loaded", "words"),
    [
        (Engine("docker", cdi=True), FRESH, "580.142", BY_CDI),
        (Engine("docker", cdi=True, runtimes=("nvidia",)), FRESH, "580.142", BY_CDI),
        # A description of another driver gives libraries that are not there; the runtime reads the node anew.
        (Engine("docker", cdi=True, runtimes=("nvidia",)), STALE, "580.142", BY_RUNTIME),
        (Engine("docker", runtimes=("nvidia", "runc")), FRESH, "580.142", BY_RUNTIME),
        (Engine("podman", cdi=True), FRESH, "580.142", BY_CDI),
        (Engine("podman", cdi=True), FRESH, None, BY_CDI),
    ],
)
def test_the_way_to_the_gpu(engine, cdi, loaded, words):
    assert gpu_words(engine, cdi, loaded) == words


@pytest.mark.parametrize(
    ("engine", "cdi", "id_", "words"),
    [
        (
            Engine("docker", cdi=True),
            STALE,
            "container.gpu.stale",
            "nvidia-ctk cdi generate --output=/etc/cdi",
        ),
        (Engine("docker"), STALE, "container.gpu.none", "nvidia-container-toolkit"),
        (
            Engine("docker", runtimes=("runc",), cdi=True),
            {},
            "container.gpu.none",
            "nvidia-container-toolkit",
        ),
    ],
)
def test_no_way_to_the_gpu_is_named(engine, cdi, id_, words):
    with pytest.raises(FindingError) as error:
        gpu_words(engine, cdi, "580.142")
    assert error.value.finding.id == id_ and words in error.value.finding.remedy


@pytest.mark.parametrize(
    ("there", "told", "id_"),
    [
        (False, None, "container.engine.missing"),
        (True, commands.Answer(None, ""), "container.engine.silent"),
        (True, commands.Answer(1, json.dumps({"ServerErrors": ["no"]})), "container.engine.silent"),
        (
            True,
            commands.Answer(
                0, json.dumps({**DOCKER, "DockerRootDir": "/var/snap/docker/common/var-lib-docker"})
            ),
            "container.engine.snap",
        ),
        (True, commands.Answer(0, json.dumps(DOCKER)), None),
    ],
)
def test_a_look_at_it(monkeypatch, there, told, id_):
    monkeypatch.setattr(commands, "there", lambda program: there)
    monkeypatch.setattr(commands, "ask", lambda *_words, **_options: told)
    monkeypatch.setattr(container_engine.os.path, "exists", lambda path: False)
    if id_ is None:
        assert container_engine.look("docker").version == "29.1.0"
        return
    with pytest.raises(FindingError) as error:
        container_engine.look("docker")
    assert error.value.finding.id == id_


def test_docker_that_is_only_in_snap(monkeypatch):
    monkeypatch.setattr(commands, "there", lambda program: False)
    monkeypatch.setattr(container_engine.os.path, "exists", lambda path: path == "/snap/bin/docker")
    with pytest.raises(FindingError) as error:
        container_engine.look("docker")
    assert error.value.finding.id == "container.engine.snap" and "snap remove docker" in str(error.value)
