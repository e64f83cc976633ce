# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of engines: which one a process is in, and what its making gave it of the node.

Source: docker's and podman's `inspect` (HostConfig), and the names of their cgroups.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .findings import Finding, finding

PROGRAMS = ("docker", "podman")
# What the units of ranks call theirs; the id of the one that runs is noted in this folder, as NAME.cid.
OURS = ("tandem-head", "tandem-worker")
IDS = "run/tandem"
LISTED = ("ps", "--all", "--quiet", "--no-trunc")
_ID = re.compile(r"[0-9a-f]{12,64}")
# docker-ID.scope, libpod-ID.scope, cri-containerd-ID.scope and crio-ID.scope of systemd; docker/ID of cgroupfs.
_CGROUP = re.compile(
    r"(?:^|/)(?:(docker|libpod|cri-containerd|crio)-([0-9a-f]{64})\.scope"
    r"|(?:(docker|libpod_parent/libpod|kubepods\S*?)[/-])([0-9a-f]{64}))(?:/|$)"
)
_RUNTIMES = {"libpod": "podman", "cri-containerd": "containerd", "crio": "cri-o"}
SCOPE = re.compile(r"(?:docker|libpod)-([0-9a-f]{64})\.scope")
# Who computes over nodes. A container for one GPU needs no RDMA, and is not told to ask for it.
_ENGINE = re.compile(r"\b(vllm|sglang|NCCL_[A-Z_]+=|nccl[-_]tests?|--nnodes|torchrun)", re.IGNORECASE)
# Of one that was taken down nothing is said; whoever brings it up again is looked at then.
_STATES = ("created", "running", "restarting", "paused")


@dataclass(frozen=True)
class Container:
    """As it was made. memlock: bytes, -1 is unlimited, None is the daemon's own limit.

    restart: when it is started again unasked, empty for never. ports: those of the host that lead into it, where it has
    a network of its own.
    """

    id: str
    name: str
    image: str
    state: str
    engine: bool
    devices: tuple[str, ...]
    capabilities: tuple[str, ...]
    privileged: bool
    network: str
    memlock: int | None
    environment: tuple[str, ...]
    program: str = "docker"
    restart: str = ""
    ports: tuple[int, ...] = ()

    @property
    def ours(self) -> bool:
        return self.name in OURS

    @property
    def lacks(self) -> list[str]:
        """Words of the command line that RDMA needs and it was made without."""
        rdma = any(path == "/dev" or path.startswith("/dev/infiniband") for path in self.devices)
        needed = {
            "--device=/dev/infiniband": not (self.privileged or rdma),
            "--cap-add=IPC_LOCK": not (self.privileged or {"IPC_LOCK", "ALL"} & set(self.capabilities)),
            "--ulimit memlock=-1": self.memlock != -1,
            "--network=host": self.network != "host",
        }
        return [flag for flag, lacking in needed.items() if lacking]


def _runtime_and_id(cgroup: str) -> tuple[str, str] | None:
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if found := _CGROUP.search(path):
            runtime = found[1] or found[3].partition("_")[0].partition("/")[0]
            runtime = "kubernetes" if runtime.startswith("kubepods") else runtime
            return _RUNTIMES.get(runtime, runtime), found[2] or found[4]
    return None


def container_of(cgroup: str) -> str | None:
    """/proc/PID/cgroup -> runtime and the first 12 digits of the id; None outside of a container."""
    found = _runtime_and_id(cgroup)
    return f"{found[0]} {found[1][:12]}" if found else None


def own_unit(root: str, cgroup: str) -> str | None:
    """The unit of the rank whose container a process is in, whatever its cgroup says; None for every other process."""
    found = _runtime_and_id(cgroup)
    for name in OURS if found else ():
        try:
            with open(os.path.join(root, IDS, f"{name}.cid"), encoding="ascii") as stream:
                noted = stream.read(100).strip()
        except (OSError, ValueError):
            continue
        if noted == found[1]:
            return f"{name}.service"
    return None


def of_scope(unit: str | None, made: Iterable[Container]) -> Container | None:
    """The container whose processes have this unit."""
    found = SCOPE.fullmatch(unit or "")
    return next((each for each in made if found and found[1].startswith(each.id)), None)


def at_port(port: int, made: Iterable[Container]) -> Container | None:
    """The container that a port of the host leads into, past a proxy that says nothing of it."""
    return next((each for each in made if port in each.ports and each.state == "running"), None)


def ids(listed: str) -> list[str]:
    """What `ps --quiet` prints -> ids."""
    return [line.strip() for line in listed.splitlines() if _ID.fullmatch(line.strip())]


def read_inspect(text: str, program: str = "docker") -> tuple[Container, ...]:
    """The JSON of `inspect`; what is not of that form is left out."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(_container(each, program) for each in read if _id(each)) if isinstance(read, list) else ()


def _id(each: Any) -> str:
    return str(each.get("Id") or "") if isinstance(each, Mapping) else ""


def _map(each: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return each[name] if isinstance(each.get(name), Mapping) else {}


def _list(each: Mapping[str, Any], name: str) -> list[Any]:
    return each[name] if isinstance(each.get(name), list) else []


def _container(each: Mapping[str, Any], program: str) -> Container:
    host, config = _map(each, "HostConfig"), _map(each, "Config")
    environment = tuple(str(item) for item in _list(config, "Env"))
    words = [each.get("Path"), *_list(each, "Args"), *_list(config, "Entrypoint"), *_list(config, "Cmd")]
    image = str(config.get("Image") or each.get("ImageName") or each.get("Image") or "")
    said = " ".join(map(str, [*words, image, *environment]))
    devices = [item for item in _list(host, "Devices") if isinstance(item, Mapping)]
    capabilities = [str(item).upper().removeprefix("CAP_") for item in _list(host, "CapAdd")]
    return Container(
        _id(each)[:12],
        str(each.get("Name") or "").lstrip("/") or _id(each)[:12],
        image,
        str(_map(each, "State").get("Status") or "unknown"),
        _ENGINE.search(said) is not None,
        tuple(str(item.get("PathOnHost") or item.get("PathInContainer") or "") for item in devices),
        tuple(capabilities),
        host.get("Privileged") is True,
        str(host.get("NetworkMode") or ""),
        _memlock(_list(host, "Ulimits")),
        environment,
        program,
        _restart(_map(host, "RestartPolicy").get("Name")),
        _ports(_map(host, "PortBindings")),
    )


def _restart(policy: Any) -> str:
    return "" if policy in (None, "no") else str(policy)


def _ports(bindings: Mapping[str, Any]) -> tuple[int, ...]:
    bound = [
        each.get("HostPort")
        for several in bindings.values()
        if isinstance(several, list)
        for each in several
        if isinstance(each, Mapping)
    ]
    numbers = [int(each) for each in bound if isinstance(each, str) and re.fullmatch(r"[0-9]{1,5}", each)]
    return tuple(sorted(set(numbers)))


def _memlock(limits: Iterable[Any]) -> int | None:
    """podman says RLIMIT_MEMLOCK, docker memlock; the soft limit is the one that holds."""
    for each in limits:
        name = str(each.get("Name") or "").lower() if isinstance(each, Mapping) else ""
        if name.removeprefix("rlimit_") == "memlock" and isinstance(each.get("Soft"), int):
            # Podman writes an unlimited one as the largest number that there is.
            return -1 if each["Soft"] < 0 or each["Soft"] >= 1 << 62 else each["Soft"]
    return None


def judge(containers: Iterable[Container], hcas: Sequence[str]) -> list[Finding]:
    """Engines that RDMA cannot reach, by what they were made with. Without an HCA nothing is said."""
    return [
        finding(
            "nccl.container.flags", container=each.name, image=each.image or "?", flags=" ".join(each.lacks)
        )
        for each in containers
        if hcas and each.engine and not each.ours and each.state in _STATES and each.lacks
    ]


def described(each: Container) -> dict[str, Any]:
    """What is told of a container where it is the owner of something."""
    told = {name: getattr(each, name) for name in ("id", "name", "image", "state", "program", "restart")}
    return {**told, "engine": each.engine, "ours": each.ours}


def stays(container: Mapping[str, Any]) -> str:
    """How one that is stopped is kept from coming back, as words of a remedy; container: as `described`."""
    if not container["restart"]:
        return ""
    return f" and `{container['program']} update --restart=no {container['name']}`"


def foreign(containers: Iterable[Container]) -> list[Finding]:
    """Engines of somebody else that come back unasked, at a boot too: beside a rank there is no room for them."""
    return [
        finding(
            "container.foreign.restarts",
            evidence=f"{each.name} is {each.state}",
            container=each.name,
            image=each.image or "?",
            policy=each.restart,
            program=each.program,
        )
        for each in containers
        if each.engine and each.restart and not each.ours
    ]
