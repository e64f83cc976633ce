# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the wheels of a job, one after the other, where nobody watches: the work of the unit tandem-build.

Everything lies in the job's folder by its hash. What ends a wheel is a finding in the outcome; what was built of it
stays for the next run. A wheel that is finished is never built again.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import build_store, build_trees, commands, runtime, sm120_kernels
from .checkpoint_seals import save
from .findings import Finding, finding
from .kernel_files import Tree

LOOK_EVERY_S = 1.0
SAY_EVERY_S = 30.0
SETTLE_EVERY_S = 300.0
LAST_LINES = 25
GIB = 1 << 30
STATE, PROGRESS = "state.json", "progress"
# ninja's own [done/all], and what setuptools says of each file.
_STEPS = re.compile(r"\[(\d{1,7})/(\d{1,7})\]")
_NO_SPACE = re.compile(r"No space left on device|\bENOSPC\b")
_KILLED = re.compile(
    r"Killed signal terminated program|terminated by signal 9|\bKilled\b.*(cicc|ptxas|cc1plus|nvcc)"
)
_VERSION = re.compile(r"\d\.\d")
# One day after the oldest date that a zip file can tell, so that two builds of one source are alike where they can be.
EPOCH = "315619200"

Say = Callable[[str], None]


class BuildStop(Exception):
    """A finding that ends the build of a wheel."""

    def __init__(self, what: Finding):
        super().__init__(f"{what.summary}. {what.remedy}")
        self.finding = what


@dataclass(frozen=True)
class Job:
    """What the module wrote down of a build. wheels: as build_plan.job tells them."""

    key: str
    folder: Path
    python: str
    path: str
    jobs: int
    reserve_gib: float
    environment: Mapping[str, str]
    requires: str
    requires_wheels: Mapping[str, str]
    wheels: Sequence[Mapping[str, Any]]


def read_job(told: Mapping[str, Any]) -> Job:
    """Raises KeyError, TypeError or ValueError where it is no job."""
    return Job(
        key=told["key"],
        folder=Path(told["folder"]),
        python=told["python"],
        path=told["path"],
        jobs=int(told["jobs"]),
        reserve_gib=float(told["reserve_gib"]),
        environment=dict(told["environment"]),
        requires=told["requires"],
        requires_wheels=dict(told["requires_wheels"]),
        wheels=list(told["wheels"]),
    )


class Builder:
    """One run. `state`: a folder that a reboot empties, for what is shown of it."""

    def __init__(self, job: Job, state: Path, say: Say, root: str = "/"):
        self.job, self.state, self.say, self.tree = job, state, say, Tree(root)
        self.boot_id = self.tree.text("proc/sys/kernel/random/boot_id")

    def run(self) -> int:
        """0 where all is built. The outcome lies in `state` whatever comes."""
        self._tell("running", None)
        wheel: Mapping[str, Any] = {}
        try:
            for wheel in self.job.wheels:
                self._one(wheel)
        except BuildStop as stop:
            return self._failed(wheel, stop.finding)
        except (build_trees.TreeError, runtime.RuntimeInstallError, OSError) as error:
            return self._failed(wheel, self._why(wheel, str(error)))
        self._tell("done", None)
        return 0

    def _failed(self, wheel: Mapping[str, Any], found: Finding) -> int:
        self.say(f"{wheel.get('name')}: {found.summary}")
        self._tell("failed", wheel.get("name"), found)
        return 1

    def _tell(self, state: str, wheel: str | None, found: Finding | None = None) -> None:
        told = {"state": state, "key": self.job.key, "wheel": wheel, "finding": found and found.as_dict()}
        save(self.state / STATE, told)

    # One wheel

    def _one(self, wheel: Mapping[str, Any]) -> None:
        record = build_store.built(self.job.folder, wheel["digest"])
        if record is not None:
            self.say(f"{wheel['name']}: {record['file']} is built")
            return
        if not wheel["wanted"]:
            return  # the controller has it, and nothing that is built here needs it
        self._tell("running", wheel["name"])
        begun = time.monotonic()
        work = self.job.folder / "work" / wheel["digest"]
        mended = build_trees.mend(work, self.boot_id)
        self.say(f"{wheel['name']}: {mended or 'begins'}, {self.job.jobs} jobs")
        work.mkdir(parents=True, exist_ok=True)
        log = self.job.folder / "log" / f"{wheel['name']}-{wheel['digest']}.log"
        log.parent.mkdir(exist_ok=True)
        python = self._environment(wheel, work)
        variables = self._variables(wheel, work, python)
        self._trees(wheel, work, variables, log)
        build_trees.settle(work, self.boot_id)
        file = self._compile(wheel, work, python, variables, log)
        more = {"seconds": round(time.monotonic() - begun), "tools": tools(self.job.path)}
        record = build_store.finish(self.job.folder, wheel["digest"], file, more)
        shutil.rmtree(work)
        self.say(f"{wheel['name']}: {record['file']} in {record['seconds'] / 60:.0f} min")

    def _environment(self, wheel: Mapping[str, Any], work: Path) -> Path:
        """The interpreter of an environment with the build requirements and the wheels that are needed."""
        place = work / "venv"
        if runtime.read_fingerprint(place) is None:
            self.say(f"{wheel['name']}: makes its environment")
            house = work / "wheelhouse"
            shutil.rmtree(house, ignore_errors=True)
            house.mkdir()
            wheels = dict(self.job.requires_wheels)
            for file in wheels:
                (house / file).symlink_to(self.job.folder / "requires" / file)
            lock = self.job.requires
            for record in self._needed(wheel):
                lock += f"{record['name']}=={record['version']} --hash=sha256:{record['sha256']}\n"
                wheels[record["file"]] = record["sha256"]
                (house / record["file"]).symlink_to(record["path"])
            runtime.install(place, lock, house, wheels, self.job.python)
        return place / "bin" / "python"

    def _needed(self, wheel: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The wheels that this one needs, and those that these need."""
        by_digest = {each["digest"]: each for each in self.job.wheels}
        found: dict[str, dict[str, Any]] = {}
        left = list(wheel["needs"])
        while left:
            digest = left.pop()
            record = build_store.built(self.job.folder, digest)
            if record is None:
                raise build_trees.TreeError(
                    f"the wheel {digest}, which this one needs, is not there any more"
                )
            found[digest] = {**record, "path": self.job.folder / "wheels" / digest / record["file"]}
            left += by_digest[digest]["needs"]
        return list(found.values())

    def _trees(self, wheel: Mapping[str, Any], work: Path, variables: dict[str, str], log: Path) -> None:
        """Everything unpacked; the source itself is there only once it is patched and prepared too."""
        for tree in wheel["trees"]:
            build_trees.unpack(self._archive(tree["archive"]), work / "trees" / tree["archive"])
        if wheel["deepgemm"]:
            # Now, not after hours: two repositories have this name, and each had revisions without the kernels.
            asked = sm120_kernels.look_at_deepgemm(variables[wheel["deepgemm"]])
            if lacks := sm120_kernels.error(asked):
                raise BuildStop(lacks)
        if (work / "source").is_dir():
            return
        raw = work / "source.raw"
        shutil.rmtree(raw, ignore_errors=True)
        build_trees.unpack(self._archive(wheel["archive"]), raw)
        for line in build_trees.patch(raw, list(wheel["patches"])):
            self.say(f"{wheel['name']}: {line}")
        for words in wheel["before"]:
            self._watched(wheel, words, raw, variables, log)
        os.replace(raw, work / "source")

    def _archive(self, name: str) -> Path:
        return self.job.folder / "sources" / name

    def _variables(self, wheel: Mapping[str, Any], work: Path, python: Path) -> dict[str, str]:
        """The whole environment of the commands: nothing of the unit's own gets in."""
        for name in ("home", "tmp", "cargo"):
            (work / name).mkdir(exist_ok=True)
        site = next((python.parents[1] / "lib").glob("python*/site-packages"), python.parent)
        trees = {
            tree["variable"]: str(work / "trees" / tree["archive"] / tree["folder"])
            for tree in wheel["trees"]
        }
        variables = {**self.job.environment, **wheel["environment"]}
        for name, place in {"site": str(site), **trees}.items():
            variables = {key: str(value).replace(f"{{{name}}}", place) for key, value in variables.items()}
        return {
            **variables,
            **trees,
            "PATH": f"{python.parent}:{self.job.path}",
            "VIRTUAL_ENV": str(python.parents[1]),
            "HOME": str(work / "home"),
            "TMPDIR": str(work / "tmp"),
            "CARGO_HOME": str(work / "cargo"),
            "LC_ALL": "C.UTF-8",
            "SOURCE_DATE_EPOCH": EPOCH,
            "MAX_JOBS": str(self.job.jobs),
            "CMAKE_BUILD_PARALLEL_LEVEL": str(self.job.jobs),
            "CARGO_BUILD_JOBS": str(self.job.jobs),
        }

    def _compile(
        self, wheel: Mapping[str, Any], work: Path, python: Path, variables: dict[str, str], log: Path
    ) -> Path:
        out = work / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = [
            str(python.with_name("uv")),
            "--no-config",
            "build",
            "--offline",
            "--wheel",
            "--no-build-isolation",
        ]
        command += [
            "--no-create-gitignore",
            f"--python={python}",
            f"--cache-dir={work / 'uv'}",
            f"--out-dir={out}",
        ]
        self._watched(wheel, [*command, str(work / "source")], work / "source", variables, log)
        files = sorted(out.glob("*.whl"))
        told = [build_store.named(file.name) for file in files]
        wanted = (wheel["name"], wheel["version"])
        if (
            len(told) != 1
            or told[0] is None
            or told[0][0] != wanted[0]
            or wanted[1] not in (None, told[0][1])
        ):
            names = ", ".join(file.name for file in files) or "no wheel"
            values = {"name": wanted[0], "version": wanted[1] or "any version", "found": names}
            raise BuildStop(finding("build.wheel.other", **values))
        return files[0]

    # Commands

    def _watched(
        self,
        wheel: Mapping[str, Any],
        words: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        log: Path,
    ) -> None:
        """Runs a command to its end and tells how far it is. BuildStop, or OSError where it cannot be run."""
        killed = self._oom_kills()
        with log.open("ab") as stream:
            start = stream.tell()
            stream.write(f"\n$ {' '.join(words)}\n".encode())  # what was cut off before ends in no line
            stream.flush()
            process = subprocess.Popen(
                list(words),
                cwd=folder,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._watch(wheel, process, log)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode:
            said = tail(log, start)
            memory = self._oom_kills() > killed or bool(_KILLED.search(said))
            raise BuildStop(self._why(wheel, said, process.returncode, memory))

    def _watch(self, wheel: Mapping[str, Any], process: subprocess.Popen, log: Path) -> None:
        begun = said = settled = time.monotonic()
        work = self.job.folder / "work" / wheel["digest"]
        while True:
            try:
                process.wait(LOOK_EVERY_S)
                return
            except subprocess.TimeoutExpired:
                pass
            now, free = time.monotonic(), self.free_gib()
            if free < self.job.reserve_gib:
                values = {
                    "folder": self.job.folder,
                    "free_gib": f"{free:.2f}",
                    "reserve_gib": self.job.reserve_gib,
                }
                raise BuildStop(finding("build.disk.low", name=wheel["name"], **values))
            if now - said >= SAY_EVERY_S:
                said = now
                so_far = f"{how_far(tail(log, 0, 4096))}, {(now - begun) / 60:.0f} min, {free:.1f} GiB free"
                self.say(f"{wheel['name']}: {so_far}")
            if now - settled >= SETTLE_EVERY_S:
                settled = now
                build_trees.settle(work, self.boot_id)

    def free_gib(self) -> float:
        return shutil.disk_usage(self.job.folder).free / GIB

    def _oom_kills(self) -> int:
        """Processes of this unit that the kernel killed for memory; 0 where it does not tell."""
        group = re.search(r"(?m)^0::(/\S*)$", self.tree.text("proc/self/cgroup") or "")
        events = self.tree.text(f"sys/fs/cgroup{group[1]}/memory.events") if group else None
        count = re.search(r"(?m)^oom_kill (\d{1,9})$", events or "")
        return int(count[1]) if count else 0

    def _why(
        self, wheel: Mapping[str, Any], said: str, code: int | None = None, memory: bool = False
    ) -> Finding:
        """What ended a wheel, by what is known of the node and by what was said last."""
        name, log = (
            wheel.get("name"),
            self.job.folder / "log" / f"{wheel.get('name')}-{wheel.get('digest')}.log",
        )
        evidence = "\n".join(said.strip().splitlines()[-LAST_LINES:])
        free = self.free_gib()
        if _NO_SPACE.search(said) or free < self.job.reserve_gib:
            values = {
                "folder": self.job.folder,
                "free_gib": f"{free:.2f}",
                "reserve_gib": self.job.reserve_gib,
            }
            return finding("build.disk.low", name=name, evidence=evidence, **values)
        if memory:
            return finding("build.memory.killed", name=name, jobs=self.job.jobs, evidence=evidence)
        ended = "could not be begun" if code is None else f"ended with {code}"
        return finding("build.wheel.failed", name=name, ended=ended, log=log, evidence=evidence)


def tail(log: Path, start: int, most: int = 16384) -> str:
    """The end of a log from `start` on; empty where it cannot be read."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(start, stream.seek(0, os.SEEK_END) - most))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def how_far(said: str) -> str:
    """The last steps that ninja counted, or else the last line that there is."""
    steps = _STEPS.findall(said)
    if steps:
        return f"{steps[-1][0]} of {steps[-1][1]} steps"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:100] if lines else "no word yet"


def tools(path: str) -> list[str]:
    """What the compilers call themselves, kept with the wheel: their patch levels are no part of its digest."""
    asked = [(name, shutil.which(name, path=path)) for name in ("gcc", "nvcc", "rustc", "ninja")]
    there = [(name, place) for name, place in asked if place]
    answers = commands.ask_all([[place, "--version"] for _name, place in there], 20)
    told = []
    for (name, _place), answer in zip(there, answers, strict=True):
        line = next((line for line in answer.out.splitlines() if _VERSION.search(line)), "says no version")
        told.append(f"{name}: {line.strip()[:120]}")
    return told


def speaker(state: Path) -> Say:
    """Says a line to the journal and to the file that a controller follows; a full disk silences neither."""

    def say(line: str) -> None:
        print(line, file=sys.stdout, flush=True)
        try:
            with (state / PROGRESS).open("a", encoding="utf-8") as stream:
                stream.write(f"{line}\n")
        except OSError:
            pass  # the journal has it

    return say
