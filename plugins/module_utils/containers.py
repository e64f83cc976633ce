# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of engines: which one a process is in, and what its making gave it of the node.

Source: docker's and podman's `inspect` (HostConfig), and the names of their cgroups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .findings import Finding, finding

PROGRAMS = ("docker", "podman")
LISTED = ("ps", "--all", "--quiet", "--no-trunc")
_ID = re.compile(r"[0-9a-f]{12,64}")
# docker-ID.scope, libpod-ID.scope, cri-containerd-ID.scope and crio-ID.scope of systemd; docker/ID of cgroupfs.
_CGROUP = re.compile(
    r"(?:^|/)(?:(docker|libpod|cri-containerd|crio)-([0-9a-f]{64})\.scope"
    r"|(?:(docker|libpod_parent/libpod|kubepods\S*?)[/-])([0-9a-f]{64}))(?:/|$)"
)
_RUNTIMES = {"libpod": "podman", "cri-containerd": "containerd", "crio": "cri-o"}
# Who computes over nodes. A container for one GPU needs no RDMA, and is not told to ask for it.
_ENGINE = re.compile(r"\b(vllm|sglang|NCCL_[A-Z_]+=|nccl[-_]tests?|--nnodes|torchrun)", re.IGNORECASE)
# Of one that was taken down nothing is said; whoever brings it up again is looked at then.
_STATES = ("created", "running", "restarting", "paused")


@dataclass(frozen=True)
class Container:
    """As it was made. memlock: bytes, -1 is unlimited, None is the daemon's own limit."""

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


def container_of(cgroup: str) -> str | None:
    """/proc/PID/cgroup -> runtime and the first 12 digits of the id; None outside of a container."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if found := _CGROUP.search(path):
            runtime = found[1] or found[3].partition("_")[0].partition("/")[0]
            runtime = "kubernetes" if runtime.startswith("kubepods") else runtime
            return f"{_RUNTIMES.get(runtime, runtime)} {(found[2] or found[4])[:12]}"
    return None


def ids(listed: str) -> list[str]:
    """What `ps --quiet` prints -> ids."""
    return [line.strip() for line in listed.splitlines() if _ID.fullmatch(line.strip())]


def read_inspect(text: str) -> tuple[Container, ...]:
    """The JSON of `inspect`; what is not of that form is left out."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(_container(each) for each in read if _id(each)) if isinstance(read, list) else ()


def _id(each: Any) -> str:
    return str(each.get("Id") or "") if isinstance(each, Mapping) else ""


def _map(each: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return each[name] if isinstance(each.get(name), Mapping) else {}


def _list(each: Mapping[str, Any], name: str) -> list[Any]:
    return each[name] if isinstance(each.get(name), list) else []


def _container(each: Mapping[str, Any]) -> Container:
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
    )


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
        if hcas and each.engine and each.state in _STATES and each.lacks
    ]
