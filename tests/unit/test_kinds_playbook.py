# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""serve.yml over two pretend nodes, an engine in a container, and one over a cluster of Ray: what a release holds."""

from __future__ import annotations

import json

import pretend_kinds
import pretend_tune as pretend
import pytest
from test_unit_hardening import directives, hidden

HEAD, WORKER = pretend.HOSTS
DIGEST = f"sha256:{'5' * 64}"
BOXED = {
    "base": "rehearsal",
    "summary": "in a box",
    "runtime": {
        "kind": "container",
        "lock": None,
        "made_here": None,
        "python": None,
        "image": {"name": "registry.example.com/engine:1", "digest": DIGEST, "licence": "MIT"},
    },
}
ROUND = {
    "base": "rehearsal",
    "summary": "over Ray",
    "rendezvous": "ray",
    "engine": {"flags": {"distributed-executor-backend": "ray"}},
}
VARIABLES = {"tandem_profiles": {"boxed": BOXED, "round": ROUND}}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    def made(profile, **variables):
        folder = tmp_path_factory.mktemp(profile)
        said = {**VARIABLES, "tandem_profile": profile, **variables}
        answers = {"answers": "pretend_kinds", "modules": pretend_kinds.MODULES}
        return pretend.Pair(folder, "serve", said, **answers)

    return made


@pytest.fixture(scope="module")
def boxed(pair):
    made = pair("boxed", tandem_accept_licenses=["MIT"])
    done = made.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def unit(contents, role: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in directives(contents[f"units/tandem-{role}.service"]):
        found.setdefault(name, []).append(value)
    return found


def test_one_rank_pulls_the_image_and_the_other_copies_it_over_the_rails(boxed):
    steps = [each for each in boxed.state["steps"] if not each.startswith(("staged", "restarted", "proved"))]
    assert steps == [
        f"pull {HEAD}",
        f"save {HEAD}",
        f"copied /var/lib/tandem/images/ab to {WORKER} from {HEAD} ['192.168.177.1', '192.168.177.9']",
        f"load {WORKER}",
        f"drop {HEAD}",
        f"drop {WORKER}",
    ]
    assert boxed.state["images"] == {HEAD: "sha256:1f", WORKER: "sha256:1f"}


def test_a_second_run_asks_only_what_is_there(boxed):
    before = boxed.state
    assert boxed.run().returncode == 0
    assert boxed.state["steps"] == before["steps"] + [f"staged {HEAD}", f"staged {WORKER}", "proved"]
    assert boxed.state["current"] == before["current"]


def test_a_release_says_how_its_container_is_run(boxed):
    head, worker = (boxed.state["contents"][host] for host in pretend.HOSTS)
    assert head == worker
    assert json.loads(head["container.json"]) == {
        "program": "docker",
        "command": "/usr/local/bin/vllm",
        "user": "tandem",
        "gpu": False,
        "rdma": False,
        "cache": f"/var/cache/tandem/{'e' * 16}",
        "checkpoint": "/srv/models/lab",
        "mounts": [],
    }
    assert head["facts"]["runtime"] == {"kind": "container", "rendezvous": "nnodes", "image": "sha256:1f"}
    assert head["runtime"] == "/opt/tandem/runtime/ab"


@pytest.mark.parametrize("role", ["head", "worker"])
def test_the_unit_of_a_container(boxed, role):
    """It holds the client in the foreground, and whatever becomes of that one, nothing is left of the container."""
    found = unit(boxed.state["contents"][HEAD], role)
    (start,) = found["ExecStart"]
    assert start.startswith(
        f"/opt/tandem/bin/tandem container --run tandem-{role} -- serve --config /opt/tandem/"
    )
    assert "--node-rank ${TANDEM_NODE_RANK}" in start and ("--headless" in start) == (role == "worker")
    assert found["ExecStartPre"][-1] == f"+/opt/tandem/bin/tandem clear tandem-{role}"
    assert found["ExecStopPost"] == [f"+/opt/tandem/bin/tandem clear tandem-{role}"]
    assert found["ExecStop"] == [f"/opt/tandem/bin/tandem container --stop tandem-{role}"]
    assert found["Restart"] == ["always"] and "Requires" not in found and "BindsTo" not in found
    # The engine has 20 s for its end, and what is left is removed after that: the unit waits for both.
    assert int(found["TimeoutStopSec"][0]) > 20 + 120
    # Its variables are no variables of the client.
    assert found["EnvironmentFile"] == ["-/run/tandem/fabric.env"] and "Environment" not in found


def test_a_licence_that_nobody_accepted_stops_everything(pair):
    done = pair("boxed").run()
    assert done.returncode != 0
    told = " ".join(done.stdout.split())
    assert "accepts its licence (MIT)" in told and "tandem_accept_licenses: ['MIT']" in told
    assert "container.image.licence" in told


@pytest.mark.long
def test_an_image_that_is_missing_is_not_pulled_by_half_a_group(pair):
    made = pair("boxed", tandem_accept_licenses=["MIT"])
    done = made.run("--limit", WORKER)
    assert done.returncode != 0 and "container.image.partly" in done.stdout
    assert made.state["steps"] == []


@pytest.mark.long
def test_check_mode_pulls_nothing(pair):
    made = pair("boxed", tandem_accept_licenses=["MIT"])
    done = made.run("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert made.state.get("images") == {} and made.state["current"] == pretend.PROVEN
    assert not [each for each in made.state["steps"] if each.startswith(("save", "load", "copied", "drop"))]


@pytest.fixture(scope="module")
def over_ray(pair):
    made = pair("round")
    done = made.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return made.state["contents"][HEAD]


def test_over_ray_the_units_are_the_same_two(over_ray):
    head, worker = (unit(over_ray, role) for role in ("head", "worker"))
    assert head["ExecStart"] == [
        "/opt/tandem/bin/tandem ray -- /opt/tandem/current/runtime/bin/vllm serve "
        "--config /opt/tandem/current/engine.yaml --host 0.0.0.0 --port 8888 --middleware tandem.api_gate.Gate"
    ]
    assert worker["ExecStart"] == ["/opt/tandem/bin/tandem ray"]
    for role in ("head", "worker"):
        assert hidden(over_ray[f"units/tandem-{role}.service"]) == []
        # What a rank says is what its own unit says; and Ray's own folder of files goes with the unit.
        assert unit(over_ray, role)["PrivateTmp"] == ["yes"]


def test_over_ray_the_release_holds_what_the_head_may_not_copy(over_ray):
    kept = json.loads(over_ray["vllm/ray_non_carry_over_env_vars.json"])
    assert {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "GLOO_SOCKET_IFNAME", "VLLM_HOST_IP"} <= set(kept)
    lines = over_ray["env"].splitlines()
    for line in (
        'RAY_LOG_TO_STDERR="1"',
        'RAY_memory_monitor_refresh_ms="0"',
        'VLLM_CONFIG_ROOT="/opt/tandem/current/vllm"',
    ):
        assert line in lines


@pytest.mark.long
def test_without_either_a_release_is_what_it_was(pair):
    made = pair("rehearsal")
    done = made.run()
    assert done.returncode == 0, done.stdout + done.stderr
    contents = made.state["contents"][HEAD]
    assert not {"container.json", "vllm/ray_non_carry_over_env_vars.json"} & set(contents)
    assert "RAY_" not in contents["env"]
    (start,) = unit(contents, "worker")["ExecStart"]
    assert start.startswith("/opt/tandem/current/runtime/bin/vllm serve --config ") and "--headless" in start
    assert made.state["files"][HEAD][-1].endswith("/manifest.json")
