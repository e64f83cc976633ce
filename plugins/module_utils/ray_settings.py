# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a rank takes part in a cluster of Ray: its command lines, its variables, and what the head may not copy. Pure.

Source: `ray start` of Ray 2.40 to 2.60, and vLLM 0.32.0's ray/ray_env.py and v1/executor/ray_executor_v2.py: the head
gives every rank each of its own variables that this rank has not, so what a node leaves unset on purpose would come
from the head. Only a list in VLLM_CONFIG_ROOT keeps it from that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from . import api_key, fabric_env

MEMORY_MONITOR = "RAY_memory_monitor_refresh_ms"
# In a release: vLLM's folder of configuration, which holds this list and nothing else.
CONFIG_ROOT = "vllm"
NOT_COPIED = "ray_non_carry_over_env_vars.json"
# What a rank's processes print goes to their unit and so to its journal: in files it would be seen by nobody, and a
# healthy load would look like a wedge.
ENVIRONMENT = {
    "RAY_LOG_TO_STDERR": "1",
    # CPU and GPU share the memory: what the page cache takes is no reason to kill a rank.
    MEMORY_MONITOR: "0",
    # Of a whole step; the first ones may compile.
    "RAY_CGRAPH_get_timeout": "900",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}
# What the ranks say to each other goes by NCCL. Ray's own store would reserve a third of the memory.
OBJECT_STORE_BYTES = 1 << 30
STARTED = "Ray runtime started"
# Ray listens on every address of a node, whatever it is told of its own. Ports that are named can be closed to others.
PORTS = {
    "node-manager-port": 25010,
    "object-manager-port": 25011,
    "runtime-env-agent-port": 25012,
    "dashboard-agent-grpc-port": 25013,
    "dashboard-agent-listen-port": 25014,
    "metrics-export-port": 25015,
}
WORKERS = (25100, 25299)  # a port for each of its processes
# The door for clients from elsewhere, which nobody here takes: the head opens it wherever grpc can be imported, and 0
# is no port to it (2.60.0). Unnamed it would be 10001.
CLIENT_PORT = 25016
CLOSED = (f"{min(PORTS.values())}-{CLIENT_PORT}", f"{WORKERS[0]}-{WORKERS[1]}")


class RayError(Exception):
    """What was found, what was wanted and what to do."""


def not_copied() -> str:
    """The text of the list: every variable that belongs to one node, and the key of the API, which is the head's."""
    return json.dumps(sorted({*fabric_env.PER_NODE, api_key.VARIABLE}), indent=1) + "\n"


def environment(release: str) -> dict[str, str]:
    """Of the release, besides the profile's own. release: the path that its folder is found by."""
    return {**ENVIRONMENT, "VLLM_CONFIG_ROOT": f"{release}/{CONFIG_ROOT}"}


def own_address(variables: Mapping[str, str]) -> tuple[int, str, str]:
    """(rank, its own address, address:port of Ray on the head) of this start. Raises RayError."""
    try:
        rank = int(variables["TANDEM_NODE_RANK"])
        head = f"{variables['TANDEM_MASTER_ADDR']}:{int(variables['TANDEM_MASTER_PORT'])}"
        return rank, variables["VLLM_HOST_IP"], head
    except (KeyError, ValueError) as error:
        raise RayError(
            f"The rank's environment tells no place in the cluster ({type(error).__name__}: {error}). A rank is "
            "started by its unit, which writes /run/tandem/fabric.env before."
        ) from error


def start_words(ray: str, rank: int, address: str, head: str) -> list[str]:
    """`ray start` of a rank, in the foreground. A node has one GPU, whatever it looks like to Ray."""
    shared = [
        "--block",
        f"--node-ip-address={address}",
        "--num-gpus=1",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--disable-usage-stats",
        *(f"--{name}={port}" for name, port in PORTS.items()),
        f"--min-worker-port={WORKERS[0]}",
        f"--max-worker-port={WORKERS[1]}",
    ]
    if rank:
        return [ray, "start", f"--address={head}", *shared]
    port = head.rpartition(":")[2]
    # Nothing of the cluster is for anyone but the ranks.
    closed = ["--include-dashboard=false", f"--ray-client-server-port={CLIENT_PORT}"]
    return [ray, "start", "--head", f"--port={port}", *closed, *shared]
