# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a look at a node that the doctor asks for and a plan does not: each is what one info module returns."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import (
    clock_caps,
    commands,
    containers,
    driver,
    driver_judgement,
    engine_state,
    firmware,
    host_memory,
    loaded_nccl,
    nccl_log,
    nccl_notes,
    own_endpoint,
    power_look,
    rank_processes,
    records,
    shared_memory,
    status,
    status_data,
    status_judgement,
)
from .engine_log import read_log
from .findings import Finding, finding
from .kernel_files import Tree, is_number
from .node_question import Part, Question

KIB_PER_GIB = 1 << 20
PAGES_S = 0.5  # long enough to tell 100 pages a second; tokens come more slowly
OOM_LINES = [
    "journalctl",
    "--dmesg",
    "--boot",
    "--no-pager",
    "--output=cat",
    "--grep=oom-kill:|NV_ERR_NO_MEMORY",
]


def driver_part(question: Question) -> Part:
    """What driver_info returns."""
    look = driver.look(question.root, question.kernel_log)
    verdict, notes = driver_judgement.judge(look)
    if (
        look.log and look.log.pcie
    ):  # told here, since one look at the kernel's log is enough; no fault of the driver
        notes.append(finding("host.pcie.fatal", evidence=look.log.pcie))
    return {"driver": {**look.as_dict(), "verdict": verdict}}, notes


def firmware_part(question: Question) -> Part:
    return {"firmware": firmware.look(question.tree)}, []


def pressure(question: Question) -> Part:
    """Whether memory is short now, and whether it ran out in this boot."""
    tree = question.tree
    before = host_memory.pages_in(tree.text("proc/vmstat") or "")
    log = question.kernel_log
    if question.live:
        started = time.monotonic()
        if log is None:
            answer = commands.ask(OOM_LINES)
            log = answer.out if answer.rc in (0, 1) else None  # 1: no line matches
        time.sleep(max(0.0, min(question.seconds, PAGES_S) - (time.monotonic() - started)))
        seconds = time.monotonic() - started
    else:
        seconds = None
    after = host_memory.pages_in(tree.text("proc/vmstat") or "")
    kib = host_memory.meminfo(tree.text("proc/meminfo") or "")
    available = round(kib["MemAvailable"] / KIB_PER_GIB, 2) if "MemAvailable" in kib else None
    judged = host_memory.judge(available, before, after, seconds)
    if judged.state == "swapping":
        judged = host_memory.judge(available, before, after, seconds, loading=_loads(question))
    shared = shared_memory.look(tree)
    pollers = host_memory.pollers(tree)
    lines = (log or "").splitlines()
    killed = host_memory.killed_by_oom(lines)
    swap = {
        name: round(kib[name] / KIB_PER_GIB, 2) if name in kib else None for name in ("SwapTotal", "SwapFree")
    }
    return {
        "pressure": {
            "state": judged.state,
            "swap_total_gib": swap["SwapTotal"],
            "swap_free_gib": swap["SwapFree"],
            "oom_kills": None if log is None else len(killed),
            "no_memory_lines": None if log is None else host_memory.no_memory_lines(lines),
            "shared": [asdict(each) for each in shared],
            "killers": list(pollers),
        }
    }, [*judged.findings, *killed, *shared_memory.findings(shared), *host_memory.pollers_told(pollers)]


def _running(question: Question) -> tuple[str, dict[str, Any]] | None:
    """The unit of a rank that runs here, and what systemd says of it."""
    units = engine_state.units() if question.live else {}
    return next(((name, unit) for name, unit in units.items() if unit["active"] == "active"), None)


def _loads(question: Question) -> bool:
    running = _running(question)
    return running is not None and not read_log(status.journal_of_start(running[1])).ready


def power(question: Question) -> Part:
    """What power_info returns, with the tokens of the own engine where this is the head, and who sets caps."""
    caps = clock_caps.caps(question.tree)
    notes = clock_caps.findings(caps)
    shown = [asdict(each) for each in caps]
    if not question.live or not commands.there(power_look.COMMAND[0]):
        # Without nvidia-smi there is no reading; that there is no driver is the finding of another part.
        return {"power": {"gpus": [], "tokens_moved": None, "caps": shown}}, notes
    asked = power_look.Question(
        url=_own_url(question), seconds=question.seconds, cap_mhz=clock_caps.cap_mhz(caps)
    )
    found, said = power_look.look(asked, power_look.World(ask=lambda argv: question.ask(argv)[0]))
    return {"power": {**found, "caps": shown}}, [*notes, *said, *clock_caps.lost(caps, found["gpus"])]


def _own_url(question: Question) -> str | None:
    running = _running(question)
    if running is None or running[0] != engine_state.UNITS[0]:
        return None
    root = Path(question.root)
    plan = records.read_json(root / status.PLAN) or {}
    return own_endpoint.api(plan, own_endpoint.serving(root / engine_state.CURRENT[1:]))[0]


def nccl(question: Question) -> Part:
    """What nccl_info returns of every process that has NCCL in memory; an engine's own wishes hold for its units.

    And what those processes, and containers of engines, were given of the node.
    """
    seen = loaded_nccl.look(question.root)
    wanted = own_endpoint.serving(Path(question.root) / engine_state.CURRENT[1:]).get("nccl")
    wanted = wanted if isinstance(wanted, dict) else {}
    ours = [each for each in seen.processes if each.unit in engine_state.UNITS]
    others = [each for each in seen.processes if each.unit not in engine_state.UNITS]
    notes = [_of_others(each) for each in loaded_nccl.judge(replace(seen, processes=tuple(others)))]
    notes += loaded_nccl.judge(replace(seen, processes=tuple(ours), unreadable=()), wanted.get("minimum"))
    said = None
    if ours and wanted.get("transport") and (running := _running(question)):
        said = nccl_log.read_log("\n".join(status.journal_of_start(running[1])))
        notes += nccl_notes.judge(said, wanted.get("minimum"), wanted["transport"])
    proc = Tree(os.path.join(question.root, "proc"))
    ranks = rank_processes.look(proc, [(each.pid, each.name, each.unit) for each in seen.processes])
    made = containers_of(question)
    ports, netdevs = _ports(question.tree), question.tree.names("sys/class/net")
    notes += rank_processes.judge(ranks, ports, netdevs)
    notes += containers.judge(made, [hca for hca, _port in ports])
    for each in made:
        told = rank_processes.environment_of("\0".join(each.environment)) if each.engine else {}
        notes += rank_processes.of_environment(told, f"container {each.name}", ports, netdevs)
    return {
        "nccl": {
            "processes": [asdict(process) for process in seen.processes],
            "versions": seen.versions,
            "log": said.as_dict() if said else None,
            "ranks": [asdict(each) for each in ranks],
            "containers": [
                {"name": each.name, "image": each.image, "state": each.state, "lacks": each.lacks}
                for each in made
                if each.engine
            ],
        }
    }, notes


def _ports(tree: Tree) -> list[tuple[str, int]]:
    folder = "sys/class/infiniband"
    return [
        (hca, int(port))
        for hca in tree.names(folder)
        for port in tree.names(folder, hca, "ports")
        if is_number(port)
    ]


def containers_of(question: Question) -> tuple[containers.Container, ...]:
    """Of every engine of containers that is here and answers; one that hangs is asked no longer than others."""
    programs = [name for name in containers.PROGRAMS if question.live and commands.there(name)]
    found: dict[str, containers.Container] = {}
    for program, listed in zip(
        programs, question.ask(*([name, *containers.LISTED] for name in programs)), strict=True
    ):
        if ids := containers.ids(listed.out):
            (told,) = question.ask([program, "inspect", *ids])
            # docker may be podman's own wrapper, and tell the same ones.
            found.update({each.id: each for each in containers.read_inspect(told.out, program)})
    return tuple(found.values())


def containers_part(question: Question) -> Part:
    """Every container, whoever made it. Of engines those that come back unasked are told."""
    made = containers_of(question)
    return {"containers": [containers.described(each) for each in made]}, containers.foreign(made)


def _of_others(found: Finding) -> Finding:
    """What somebody else's process has in memory keeps no engine from serving, and no role mends it."""
    return replace(found, severity="warning" if found.severity == "error" else found.severity, fixed_by=None)


def rank(question: Question) -> Part:
    """What status_info returns. Null, and no finding, where nothing of the collection was ever put on this node."""
    root = Path(question.root)
    traces = (status.PLAN, engine_state.CURRENT[1:], engine_state.RELEASES[1:])
    if not any(os.path.lexists(root / path) for path in traces):
        return {"status": None}, []
    seen = status.look(root)
    notes: list[Finding] = status_judgement.judge(seen)
    return {"status": status_data.as_dict(seen, notes)}, notes
