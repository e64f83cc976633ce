# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a whole node, in subsets; module node_info returns it.

Files are read below `root`. Commands tell of the live machine only, so they run only where root is /.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import (
    api_key,
    containers,
    engine_state,
    fabric_look,
    firewall,
    gpu,
    gpu_users,
    guard_look,
    host_memory,
    listeners,
    network,
    node_deep,
    processes,
    records,
)
from .findings import Finding, finding
from .kernel_files import Tree
from .node_question import Part, Question, unknown

KIB_PER_GIB = 1 << 20
NETPLAN_FOLDERS = ("usr/lib/netplan", "lib/netplan", "etc/netplan", "run/netplan")
NETWORK_UNITS = ("systemd-networkd.service", "NetworkManager.service")


PANICS = ("sys/fs/pstore", "var/lib/systemd/pstore")


def system(question: Question) -> Part:
    tree = question.tree
    kept = [f"/{folder}/{name}" for folder in PANICS for name in tree.names(folder)]
    notes = [finding("host.kernel.panicked", files=", ".join(kept[-4:]))] if kept else []
    hostname = socket.gethostname() if question.live else tree.text("etc/hostname")
    return {
        "hostname": hostname,
        "boot_id": tree.text("proc/sys/kernel/random/boot_id"),
        "os": os_release(tree.text("etc/os-release") or tree.text("usr/lib/os-release") or ""),
        "arch": os.uname().machine,
        "kernel": tree.text("proc/sys/kernel/osrelease"),
        "python": {"version": ".".join(map(str, sys.version_info[:3])), "executable": sys.executable},
    }, notes


def os_release(text: str) -> dict[str, str | None]:
    """/etc/os-release -> {id, version_id, pretty}; lines that are no assignment are left out."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        try:
            values[name.strip()] = "".join(shlex.split(value))
        except ValueError:
            continue
    names = {"id": "ID", "version_id": "VERSION_ID", "pretty": "PRETTY_NAME"}
    return {key: values.get(name) for key, name in names.items()}


def memory(question: Question) -> Part:
    kib = host_memory.meminfo(question.tree.text("proc/meminfo") or "")

    def gib(name: str) -> float | None:
        return round(kib[name] / KIB_PER_GIB, 2) if name in kib else None

    found = {"total_gib": gib("MemTotal"), "available_gib": gib("MemAvailable")}
    notes = [] if None not in found.values() else [unknown("The memory", "cat /proc/meminfo")]
    return {"memory": found}, notes


def network_part(question: Question) -> Part:
    tree = Tree(os.path.join(question.root, "sys"))
    targets = _other_ends(question)
    shown, default4, default6, *routes = question.ask(
        ["ip", "-j", "address"],
        ["ip", "-j", "-4", "route", "show", "table", "all"],
        ["ip", "-j", "-6", "route", "show", "table", "all"],
        *(["ip", "-j", "route", "get", address] for address in targets.values()),
    )
    addresses = network.read_addresses(shown.out)
    links = network.read_links(tree, addresses)
    managed = network.management(
        network.default_netdevs(default4.out, default6.out),
        {end: network.route_netdev(route.out) for end, route in zip(targets, routes, strict=True)},
        _connected(question),
        addresses,
        network.lower_links(tree),
    )
    notes = [] if shown.ok else [unknown("The addresses of the interfaces", "ip -j address")]
    if not managed:
        notes.append(finding("host.management.unknown"))
    return {
        "network": {
            "links": [{**asdict(link), "addresses": list(link.addresses)} for link in links],
            "management": [{"name": each.name, "reasons": list(each.reasons)} for each in managed],
            "backend": _backend(question),
        }
    }, notes


def _ssh(question: Question) -> tuple[str, str] | None:
    return processes.ssh_connection(Tree("/proc"), os.getpid()) if question.live else None


def _other_ends(question: Question) -> dict[str, str]:
    """Words for the other end -> its address, for every way by which this node is known to be reached."""
    ends = {}
    ssh = _ssh(question)
    if ssh:
        ends[f"the ssh client {ssh[0]}"] = ssh[0]
    if question.controller_address:
        ends[f"the controller {question.controller_address}"] = question.controller_address
    return ends


def _connected(question: Question) -> list[str]:
    ssh = _ssh(question)
    return [address for address in (question.ansible_host, ssh and ssh[1]) if address]


def _backend(question: Question) -> str:
    tree = question.tree
    texts = {}
    for folder in NETPLAN_FOLDERS:
        # A file in a later folder hides one of the same name; all are read in the order of their names.
        texts.update(
            {name: tree.text(folder, name) or "" for name in tree.names(folder) if name.endswith(".yaml")}
        )
    units = engine_state.units(NETWORK_UNITS) if question.live else {}
    networkd, manager = (units.get(name, {}).get("active") == "active" for name in NETWORK_UNITS)
    renderer = network.netplan_renderer(texts[name] for name in sorted(texts))
    return network.backend(os.path.exists(tree.path("usr/sbin/netplan")), renderer, networkd, manager)


def ibv(question: Question) -> Part:
    look = fabric_look.look(os.path.join(question.root, "sys"), question.wish)
    return {"ibv": look.as_dict()}, list(look.findings)


def listeners_part(question: Question) -> Part:
    found = listeners.read_listeners(os.path.join(question.root, "proc"))
    # Who publishes a port is a proxy, or a process in a container's own cgroup.
    behind = any(
        each.process == "docker-proxy" or containers.SCOPE.fullmatch(each.unit or "") for each in found
    )
    made = node_deep.containers_of(question) if behind else ()
    return {
        "listeners": [
            {
                **asdict(each),
                "container": _named(
                    containers.of_scope(each.unit, made) or containers.at_port(each.port, made)
                ),
            }
            for each in found
        ]
    }, []


def _named(container: containers.Container | None) -> dict[str, Any] | None:
    return containers.described(container) if container else None


def gpu_part(question: Question) -> Part:
    (answer,) = question.ask(["nvidia-smi"])
    seen = gpu.read_nvidia_smi(answer.out)
    tree = Tree(os.path.join(question.root, "proc"))
    notes = []
    if answer.rc is not None and not seen.devices:
        why = answer.out.strip().splitlines() or [f"nvidia-smi ended with {answer.rc}"]
        notes.append(finding("host.gpu.none", why=why[0].rstrip(".")))
    users = [{**asdict(each), **_owner(tree, each.pid)} for each in seen.processes]
    contained = any(containers.SCOPE.fullmatch(each["unit"] or "") for each in users)
    made = node_deep.containers_of(question) if contained else ()
    users = [{**each, "container": _named(containers.of_scope(each["unit"], made))} for each in users]
    left_over = gpu_users.orphans(tree)
    return {
        "gpu": {
            "present": bool(seen.devices),
            "driver": seen.driver or engine_state.driver_version(Path(question.root)),
            "devices": [asdict(device) for device in seen.devices],
            "processes": users,
            "orphans": [asdict(each) for each in left_over],
        }
    }, [*notes, *gpu_users.gpu_findings(users, left_over)]


def _owner(tree: Tree, pid: int) -> dict[str, str | None]:
    process = processes.owner(tree, pid)
    return {"unit": process.unit if process else None, "user": process.user if process else None}


def engine(question: Question) -> Part:
    shown = None if question.live else {}
    return {"engine": engine_state.look(Path(question.root), shown)}, []


def guard(question: Question) -> Part:
    shown = engine_state.units((guard_look.UNIT,)) if question.live else {}
    return {"guard": guard_look.look(Path(question.root), shown.get(guard_look.UNIT))}, []


def access(question: Question) -> Part:
    root = Path(question.root)
    host = firewall.Host(root, question.live)
    seen = firewall.look(host)
    shown = engine_state.units() if question.live else {}
    notes = []
    if question.live and seen["kept"] and seen["in_force"] != seen["kept"]:
        what = "it has another one" if seen["in_force"] else "it has none"
        notes.append(finding("access.firewall.gone", found=what))
    return {"access": {"firewall": seen, "api_key": api_key.look(root, shown)}}, notes


def plan_in_force(question: Question) -> Part:
    """The plan that a run before this one left; null where there is none, or it cannot be read."""
    return {"plan": records.read_json(Path(question.root) / "etc/tandem/plan.json")}, []


def packages(question: Question) -> Part:
    text = question.tree.text("var/lib/dpkg/status")
    if text is None:
        return {"packages": {"missing": []}}, [unknown("The installed packages", "dpkg-query --list")]
    installed = installed_packages(text)
    missing = [name for name in question.packages if name not in installed]
    notes = []
    if missing:
        notes.append(finding("host.packages.missing", packages=" ".join(missing)))
    return {"packages": {"missing": missing}}, notes


def installed_packages(text: str) -> set[str]:
    """dpkg's status file -> names of installed packages; a held one is installed as well."""
    pattern = re.compile(r"(?m)^Package: (\S+)\n(?:.+\n)*?Status: \S+ \S+ installed$")
    return set(pattern.findall(text))


SUBSETS: dict[str, Callable[[Question], Part]] = {
    "system": system,
    "memory": memory,
    "network": network_part,
    "ibv": ibv,
    "listeners": listeners_part,
    "gpu": gpu_part,
    "engine": engine,
    "guard": guard,
    "access": access,
    "plan": plan_in_force,
    "packages": packages,
    "driver": node_deep.driver_part,
    "firmware": node_deep.firmware_part,
    "pressure": node_deep.pressure,
    "power": node_deep.power,
    "nccl": node_deep.nccl,
    "containers": node_deep.containers_part,
    "status": node_deep.rank,
}
# What is seen where nothing is there: the shape of a part that could not be looked at.
NOTHING = "/dev/null"


def look(question: Question, subsets: Iterable[str] = ()) -> tuple[dict[str, Any], list[Finding]]:
    """The named subsets (all, if none is named) joined into one dict, and everything that was found.

    They are looked at at the same time: most of them wait, for commands or for the second reading of a counter.
    """
    names = tuple(dict.fromkeys(subsets)) or tuple(SUBSETS)
    node: dict[str, Any] = {}
    notes: list[Finding] = []
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        for found, said in pool.map(lambda name: _part(name, question), names):
            node.update(found)
            notes += said
    return node, list(dict.fromkeys(notes))


def _part(name: str, question: Question) -> Part:
    """One subset. Whatever its input does to it, the others are still told, and this one is unknown."""
    try:
        return SUBSETS[name](question)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        evidence = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
        empty, _notes = SUBSETS[name](Question(root=NOTHING))
        return empty, [finding("host.look.broken", evidence=evidence, subset=name)]
