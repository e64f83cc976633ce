# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is to build: what it has of a plan, whether it may begin now, and the run itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import build_store, build_unit, engine_state, host_memory, runtime, toolchain
from .build_run import GIB
from .checkpoint_seals import save
from .findings import Finding, finding
from .kernel_files import Tree

JOB = "job.json"
KIB_PER_GIB = 1 << 20
# What the build must leave to the host, besides what a job takes: below it the kernel would look for somebody to end.
SPARED_GIB = toolchain.HOST_GIB / 2


@dataclass(frozen=True)
class Wish:
    """What is to be built here. wheels: as build_plan.job tells them. consent: to build beside an engine."""

    key: str
    folder: Path
    wheels: Sequence[Mapping[str, Any]]
    cuda_home: str | None
    toolkit: str | None
    tools: Mapping[str, str]
    paths: Sequence[str]
    job_gib: float
    reserve_gib: float
    consent: bool


@dataclass(frozen=True)
class Look:
    """A node as it is. going: the key of the build that works here now, empty where it does not tell; None for none."""

    built: Mapping[str, dict[str, Any]]
    going: str | None
    serving: Sequence[str]
    available_gib: float | None
    free_gib: float
    cpus: int
    half_gib: float
    tools: Sequence[toolchain.Found]
    driver: str | None

    def left(self, wish: Wish) -> list[Mapping[str, Any]]:
        """The wheels that are to be built here and are not yet."""
        return [wheel for wheel in wish.wheels if wheel["wanted"] and wheel["digest"] not in self.built]


def search_path(wish: Wish) -> tuple[str, ...]:
    """Where the build finds its tools: what the plan names first, then the toolkit's."""
    return (*wish.paths, *toolchain.search_path(wish.cuda_home or toolchain.CUDA_HOME))


def look(wish: Wish, root: str = "/") -> Look:
    """Everything about this node that decides whether it builds."""
    tree = Tree(root)
    found = {wheel["digest"]: build_store.built(wish.folder, wheel["digest"]) for wheel in wish.wheels}
    record = {digest: each for digest, each in found.items() if each is not None}
    left = [wheel["digest"] for wheel in wish.wheels if wheel["wanted"] and wheel["digest"] not in record]
    half = [
        build_store.size(wish.folder / "work" / each) for each in build_store.half_done(wish.folder, left)
    ]
    kib = host_memory.meminfo(tree.text("proc/meminfo") or "").get("MemAvailable")
    return Look(
        built=record,
        going=(build_unit.told(Path(build_unit.STATE_FOLDER)).get("key") or "")
        if build_unit.going()
        else None,
        serving=engine_state.running(),
        available_gib=None if kib is None else kib / KIB_PER_GIB,
        free_gib=free_gib(wish.folder),
        cpus=len(os.sched_getaffinity(0)),
        half_gib=max(half, default=0) / GIB,
        tools=toolchain.look(search_path(wish)) if left else (),
        driver=engine_state.driver_version(Path(root)),
    )


def free_gib(folder: Path) -> float:
    """Free space where the folder lies or will lie."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free / GIB


def judge(wish: Wish, seen: Look) -> list[Finding]:
    """What keeps a build from being begun, and what is only to be known. Nothing where nothing is to be built."""
    left = seen.left(wish)
    if not left or seen.going == wish.key:
        return []
    if seen.going is not None:
        return [finding("build.unit.other", unit=build_unit.UNIT)]
    notes = []
    if seen.serving and not wish.consent:
        notes.append(finding("build.engine.serves", units=", ".join(seen.serving)))
    notes += toolchain.judge(seen.tools, wish.toolkit, seen.driver, wish.tools)
    notes += toolchain.judge_memory(seen.available_gib, seen.cpus, wish.job_gib)
    wanted = max(wheel["disk_gib"] for wheel in left) + wish.reserve_gib
    if seen.free_gib + seen.half_gib < wanted:
        values = {"folder": wish.folder, "free_gib": f"{seen.free_gib:.1f}", "wanted_gib": f"{wanted:.1f}"}
        values["names"] = ", ".join(wheel["name"] for wheel in left)
        notes.append(finding("build.disk.short", **values))
    return notes


def missing(wish: Wish, sources: Mapping[str, str], requires: Mapping[str, str]) -> dict[str, list[str]]:
    """The archives and wheels ({file: sha256}) that the node lacks."""
    return {
        "sources": runtime.missing(wish.folder / "sources", dict(sources)),
        "requires": runtime.missing(wish.folder / "requires", dict(requires)),
    }


def prepare(wish: Wish, user: str) -> None:
    """The folders of a build, which the builder's user writes to. OSError, LookupError."""
    for name in build_store.FOLDERS:
        (wish.folder / name).mkdir(parents=True, exist_ok=True)
    for path in (wish.folder, wish.folder / "work", wish.folder / "wheels", wish.folder / "log"):
        shutil.chown(path, user, user)


def adopt(wish: Wish, incoming: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Takes finished wheels ({digest: record}) that came back from the controller. RuntimeInstallError, OSError."""
    for digest, record in known.items():
        arrived = incoming / f"{digest}.whl"
        if runtime.missing(incoming, {arrived.name: record["sha256"]}):
            raise runtime.RuntimeInstallError(f"{record['file']} arrived with another content. Run again.")
        whole = incoming / record["file"]
        arrived.rename(whole)
        more = {key: record[key] for key in ("seconds", "tools") if key in record}
        build_store.finish(wish.folder, digest, whole, more)


def write_job(wish: Wish, seen: Look, requires: str, requires_wheels: Mapping[str, str], python: str) -> Path:
    """Writes down what the unit is to do."""
    tools = {each.name: each.path for each in seen.tools if each.path}
    environment = {"CUDA_HOME": wish.cuda_home} if wish.cuda_home else {}
    if "gxx" in tools:  # the newest that was found, which need not be what plain g++ is
        cxx = tools["gxx"]
        cc = cxx.replace("g++", "gcc")
        environment.update({"CXX": cxx, "CUDAHOSTCXX": cxx, **({"CC": cc} if os.access(cc, os.X_OK) else {})})
    content = {
        "key": wish.key,
        "folder": str(wish.folder),
        "python": python,
        "path": ":".join(search_path(wish)),
        "jobs": max(1, toolchain.max_jobs(seen.available_gib or 0.0, seen.cpus, wish.job_gib)),
        "reserve_gib": wish.reserve_gib,
        "environment": environment,
        "requires": requires,
        "requires_wheels": dict(requires_wheels),
        "wheels": list(wish.wheels),
    }
    save(wish.folder / JOB, content)
    return wish.folder / JOB


def words(wish: Wish, seen: Look, user: str, limit_s: int) -> list[str]:
    """The command line of the unit for this node."""
    bound = None if seen.available_gib is None else int((seen.available_gib - SPARED_GIB) * GIB)
    network = any(wheel["network"] for wheel in seen.left(wish))
    job = str(wish.folder / JOB)
    return build_unit.command(
        job, str(wish.folder), user, network, bound if bound and bound > GIB else None, limit_s
    )


def run(
    wish: Wish, begin: Callable[[], None], say: Callable[[str], None], limit_s: float
) -> build_unit.Outcome:
    """Begins the unit, or goes on following the one that works already; returns how it ended."""
    if build_unit.going():
        say("a build works here already: follows it")
    else:
        begin()
    return build_unit.follow(Path(build_unit.STATE_FOLDER), say, limit_s)


def complaint(outcome: build_unit.Outcome, limit_s: float) -> Finding | None:
    """Why a build that was followed did not come to its end; None where it did."""
    if outcome.state == "done":
        return None
    if outcome.state == "failed" and outcome.finding:
        return Finding(**{**outcome.finding, "hosts": tuple(outcome.finding.get("hosts") or ())})
    name = outcome.wheel or "the first wheel"
    if outcome.state == "going":
        return finding("build.unit.time", name=name, hours=f"{limit_s / 3600:.1f}", unit=build_unit.UNIT)
    return finding("build.unit.interrupted", name=name, unit=build_unit.UNIT)


def link_into(wheelhouse: Path, folder: Path, digests: Sequence[str]) -> None:
    """Puts finished wheels where the engine's environment is installed from, without taking room twice. OSError."""
    wheelhouse.mkdir(parents=True, exist_ok=True)
    for digest in digests:
        record = build_store.built(folder, digest)
        if record is None or not runtime.missing(wheelhouse, {record["file"]: record["sha256"]}):
            continue
        target = wheelhouse / record["file"]
        target.unlink(missing_ok=True)
        try:
            os.link(folder / "wheels" / digest / record["file"], target)
        except OSError:
            shutil.copyfile(folder / "wheels" / digest / record["file"], target)
