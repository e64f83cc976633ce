# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two pretend nodes for a playbook that starts releases: whatever asks or changes a node is answered here.

All else is the collection itself.

What runs is kept in a JSON file between the modules. Above two sequences with CUDA graphs the answers are degenerate.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.tandem.spark.plugins.plugin_utils.release import Release

ROOT = Path(__file__).resolve().parents[2]
HEAD, WORKER = HOSTS = ("spark-a", "spark-b")
# Everything that reaches for a node.
MODULES = (
    "node_info runtime runtime_info checkpoint_info checkpoint_fetch release group_unit guard_wait engine_wait "
    "engine_warmup engine_proof generation_check serving_bench rank_record nccl_info api_key api_info"
).split()
_ACTION = """
from ansible.plugins.action import ActionBase
import {answers}

class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        result.update({answers}.answer("{name}", self._task.args, host, self._task.check_mode))
        return result
"""
SERVING = {
    "port": 8888,
    "model": "m",
    "max_num_seqs": 4,
    "start_timeout_s": 600,
    "warm_up": {},
    "speculates": True,
    "proof": {"operands": [10, 99], "one_by_one": 3, "request_timeout_s": 120},
    "nccl": {},
    "expect": {},
}
PROVEN = "0123456789abcdef"


def collection(folder: Path, answers: str = "pretend_tune", modules: Iterable[str] = MODULES) -> Path:
    """A collection path with this collection, in which the Python module `answers` speaks for these modules."""
    target = folder / "ansible_collections" / "tandem" / "spark"
    target.mkdir(parents=True)
    for part in ("roles", "playbooks", "galaxy.yml", "meta"):
        (target / part).symlink_to(ROOT / part)
    shutil.copytree(ROOT / "plugins", target / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    for name in modules:
        text = _ACTION.replace("{name}", name).replace("{answers}", answers)
        (target / "plugins" / "action" / f"{name}.py").write_text(text)
    return folder


class Pair:
    """Two hosts in an inventory, and a playbook that is run over them. variables: what else the inventory says."""

    def __init__(self, folder: Path, playbook: str, variables: Mapping[str, Any], **answers: Any):
        self.folder, self.results, self._playbook = folder, folder / "results", playbook
        self.collections = collection(folder / "collections", **answers)
        self.file = folder / "state.json"
        hosts = {
            host: {"ansible_connection": "local", "ansible_host": f"192.0.2.{n}"}
            for n, host in enumerate(HOSTS)
        }
        said = {
            "ansible_python_interpreter": sys.executable,
            "tandem_profile": "rehearsal",
            "tandem_checkpoint_path": "/srv/models/lab",
            "tandem_tune_folder": str(self.results),
            **variables,
        }
        self.inventory = folder / "hosts.json"
        self.inventory.write_text(json.dumps({"tandem": {"hosts": hosts, "vars": said}}))
        self.set()

    def set(self, **more) -> None:
        self.file.write_text(json.dumps(fresh(**more)))

    @property
    def state(self) -> dict:
        return json.loads(self.file.read_text())

    def run(self, *words: str) -> subprocess.CompletedProcess:
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORCE_COLOR": "0",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_FORKS": "1",  # two hosts that write their state at the same time would lose some
            "PYTHONPATH": f"{Path(__file__).parent}:{self.collections}",
            "TANDEM_PRETEND": str(self.file),
            "ANSIBLE_HOME": str(self.folder / ".ansible"),
        }
        command = ["ansible-playbook", "-i", str(self.inventory), f"tandem.spark.{self._playbook}", *words]
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )

    def records(self) -> dict[tuple[str, int], str]:
        told = [json.loads(path.read_text()) for path in self.results.rglob("*.json")]
        return {
            (each["point"]["cudagraph_mode"], each["point"]["max_num_seqs"]): each["outcome"] for each in told
        }


def state() -> dict[str, Any]:
    return json.loads(Path(os.environ["TANDEM_PRETEND"]).read_text())


def keep(changed: Mapping[str, Any]) -> None:
    path = Path(os.environ["TANDEM_PRETEND"])
    half = path.with_suffix(f".{os.getpid()}")
    half.write_text(json.dumps(changed))
    half.replace(path)  # two hosts read it at the same time


def fresh(**more: Any) -> dict[str, Any]:
    """A pair that serves what it proved. faults: {word of a step: the names of releases' flags that make it fail}."""
    return {
        "current": PROVEN,
        "applied": PROVEN,
        "releases": {},
        "steps": [],
        "history": [],
        "lost": [],
        **more,
    }


def answer(name: str, args: Mapping[str, Any], host: str, _check_mode: bool) -> dict[str, Any]:
    now = state()
    if host in now["lost"] and name in ("release", "rank_record"):
        raise AnsibleConnectionFailure("no route to host")
    result = globals()[f"_{name}"](now, args, host)
    keep(now)
    return {"changed": False, **result}


def _flags(now: Mapping[str, Any]) -> dict[str, Any]:
    """Of the release that runs; those of the proven one are good."""
    return now["releases"].get(now["current"], {"max-num-seqs": 4, "enforce-eager": True})


def _degenerate(now: Mapping[str, Any]) -> bool:
    flags = _flags(now)
    mode = (flags.get("compilation-config") or {}).get("cudagraph_mode", "FULL_AND_PIECEWISE")
    return flags["max-num-seqs"] > 2 and not flags.get("enforce-eager") and mode != "NONE"


def _node_info(now, _args, host):
    runs_as = {"driver": now.get("driver"), "kernel": "6.14", "boot_options": "quiet", "boot_id": "1"}
    unit = {"load": "loaded", "active": "active", "sub": "running", "result": "success", "main_pid": 7}
    names = {HEAD: "tandem-head.service", WORKER: "tandem-worker.service"}
    proven = {"outcome": "proven", "ran_as": {**runs_as, "invocation_id": "i"}, "seconds": {"down": 60.0}}
    engine = {
        "current": now["current"],
        "applied": now["applied"],
        "applied_manifest": {"serving": SERVING},
        "proof": proven if now["current"] == now["applied"] else None,
        "proven": [{"digest": each, "at": "then", "serving": SERVING} for each in now.get("proven", [])],
        "proven_as": [],
        "rejected": {},
        "runs_as": {**runs_as, "invocation_id": "i"},
        "units": {names[host]: {**unit, "invocation_id": "i", "since": None}},
    }
    rails = ("enp1s0f0np0", "enP2p1s0f0np0")
    links = [{"name": each, "carrier": True, "addresses": [], "mtu": 1500} for each in rails]
    links.append({"name": "eth0", "carrier": True, "addresses": ["192.168.1.10/24"], "mtu": 1500})
    devices = [
        {
            "name": f"roce{number}",
            "pci": f"000{number}:01:00.0",
            "ports": [{"netdev": each, "link_layer": "Ethernet"}],
        }
        for number, each in enumerate(rails)
    ]
    node = {
        "arch": "x86_64",
        "python": {"version": "3.11.2"},
        "engine": engine,
        "listeners": [],
        "network": {"links": links, "management": [{"name": "eth0", "reasons": ["default route"]}]},
        "ibv": {"devices": devices},
        "gpu": {"processes": []},
        "guard": None,
        "access": {
            "firewall": {"in_force": None, "kept": None, "unit": False},
            "api_key": {"file": True, "kept": True, "running": now.get("key_runs", True)},
        },
        "packages": {"missing": []},
    }
    return {"node": node, "findings": []}


def _runtime(now, _args, _host):
    return {
        "fingerprint": now.get("engine", "f" * 64),
        "path": "/opt/tandem/runtime/x",
        "packages": {},
        "installed": True,
    }


def _runtime_info(now, _args, host):
    return now.get("engines", {}).get(host) or _runtime(now, _args, host)


def _checkpoint_info(_now, _args, _host):
    return {"ok": True, "revision": "weights", "sha256": {}, "shards": {}, "findings": []}


def _checkpoint_fetch(_now, _args, _host):
    return {}


def _release(now, args, host):
    release = Release(**args)
    now["releases"][release.digest] = yaml.safe_load(args["content"]["engine.yaml"])
    now["steps"].append(f"staged {host}")
    return {"digest": release.digest}


def _group_unit(now, args, _host):
    if args.get("release"):
        now["current"] = args["release"]
        now["steps"].append(f"restarted with {args['release']}")
    if WORKER in now["lost"]:
        return {
            "failed": True,
            "msg": f"{WORKER} was lost while its rank was to be stopped: no route to host",
        }
    return {"began": 0.0, "seconds": {"stopped": 1.0, "started": 1.0}}


def _guard_wait(_now, _args, _host):
    return {}


def _engine_wait(now, _args, _host):
    if _flags(now)["max-num-seqs"] >= now.get("too_large", 1000):
        found = {"id": "engine.kv_cache.too_small", "severity": "error"}
        return {"failed": True, "msg": "the KV cache is too small", "ready": False, "findings": [found]}
    if now.get("dies_at") == _flags(now)["max-num-seqs"]:
        os._exit(1)
    return {"ready": True, "seconds": 10.0, "ranks": {}}


def _engine_warmup(_now, _args, _host):
    return {"ok": True, "phases": [{"name": "ramp", "seconds": 5.0}]}


def _engine_proof(now, _args, _host):
    if _degenerate(now):
        reason = "4 of 4 answers degenerate. The known ways out are eager mode and max_num_seqs 2"
        return {
            "conclusion": {"outcome": "rejected", "reason": reason},
            "cases": [{"verdict": "degenerate"}],
            "seconds": 2.0,
        }
    now["steps"].append("proved")
    conclusion = {"outcome": "proven", "reason": "3 of 3 answers right"}
    return {"conclusion": conclusion, "cases": [{"verdict": "correct"}], "seconds": 2.0, "draft": None}


_generation_check = _engine_proof


def _serving_bench(now, args, _host):
    def row(streams):
        speed = 10.0 * streams**0.8
        known = {"tokens_per_s": speed, "acceptance": 0.5, "verify_steps_per_s": 3.0}
        figures = {name: {"low": value, "median": value, "high": value} for name, value in known.items()}
        return {"name": f"{streams}", "concurrency": streams, "void": None, "figures": figures}

    draw = {"seconds": 4.0, "void": None, "streams": [{"verdict": "correct"}]}
    now["steps"].append("measured")
    return {"summaries": [row(int(n)) for n in args["concurrency"]], "draws": [draw], "ended": None}


def _rank_record(now, args, host):
    now["history"].append([host, args["event"], args["digest"], args["outcome"]])
    if args["outcome"] == "proven":
        now["applied"] = args["digest"]
    return {"record": None, "removed": []}


def _api_key(now, _args, _host):
    return {"changed": now.get("key_changed", False), "source": "kept"}


def _api_info(now, _args, _host):
    return {"statuses": {}, "key": True, "findings": now.get("strangers", [])}


def _nccl_info(_now, _args, _host):
    return {}
