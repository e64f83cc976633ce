# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools that compile an engine from its source: which are here, and are they new enough; how many jobs fit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import commands
from .findings import Finding, finding

# NVIDIA CUDA Toolkit release notes: the branch of the driver that came with a toolkit.
# Each row with the driver that NVIDIA's table of that release pairs it with, and who ran the two together.
DRIVER_BRANCHES = {
    "13.0": 580,  # 13.0 GA: 580.65.06 or newer. vLLM's wheels are of 13.0.3, and most pairs run 580.142 or 580.173.02
    "13.1": 590,  # 13.1 GA: 590.44.01 or newer. An image for 590.48 refused 580.159.03 (eugr/spark-vllm-docker#266)
    "13.2": 595,  # 13.2 GA: 595.45.04 or newer. Run on two Sparks with 595.84 (seed 000)
    "13.3": 610,  # 13.3 GA: 610.43.02 or newer, which is seen on GB10 and signed (eugr/spark-vllm-docker#266)
}
OLDEST_BRANCHES = {"13": 580}  # minor version compatibility of CUDA 13.x, in the same notes

GCC_MAJORS = range(20, 12, -1)  # newest first; 13 is the oldest that vLLM takes
CUDA_HOME = "/usr/local/cuda"
# rustup's folder for a build: the unit that compiles is not root's and sees nobody's home.
RUST_HOME = "/opt/tandem/rust"
# One compiler of CUDA kernels takes about 6 GiB, and the host wants 8: seed 000 built with 18 jobs on 128 GB.
JOB_GIB = 6.0
HOST_GIB = 8.0

Version = tuple[int, ...]
_VERSION = r"(\d{1,6}(?:\.\d{1,6}){0,3})"


@dataclass(frozen=True)
class Tool:
    """What is sought, how it is asked, where its version stands, the oldest that will do, and how to get it."""

    name: str
    label: str
    programs: tuple[tuple[str, ...], ...]
    pattern: str
    oldest: Version
    remedy: str


TOOLS = (
    Tool(
        "nvcc",
        "nvcc",
        (("nvcc", "--version"),),
        rf"release {_VERSION}",
        (12, 8),  # the first that knows SM120
        "Install the CUDA toolkit of the profile from NVIDIA's repository, never its driver packages",
    ),
    Tool(
        "gxx",
        "g++",
        tuple((f"g++-{major}", "-dumpfullversion") for major in GCC_MAJORS) + (("g++", "-dumpfullversion"),),
        rf"\A{_VERSION}\Z",
        (13,),
        "Install g++-13 or newer; it may lie beside the one that is there",
    ),
    Tool(
        "rustc",
        "rustc",
        (("rustc", "--version"),),
        rf"\Arustc {_VERSION}",
        (1, 95),  # rust-toolchain.toml of vLLM 0.33.0
        "Name build.rust in the profile and run site.yml, which installs it: Ubuntu 24.04 has none that is new enough",
    ),
    Tool(
        "cargo",
        "cargo",
        (("cargo", "--version"),),
        rf"\Acargo {_VERSION}",
        (1, 95),
        "Install cargo with rustc",
    ),
    Tool(
        "python",
        "Python",
        (("python3.12", "--version"),),
        rf"\APython {_VERSION}",
        (3, 12),
        "Install python3.12 and python3.12-dev",
    ),
    Tool("ninja", "ninja", (("ninja", "--version"),), rf"\A{_VERSION}", (1, 11), "Install ninja-build"),
)


@dataclass(frozen=True)
class Found:
    """One tool: the program that answered and its version; both None where none did."""

    name: str
    path: str | None = None
    version: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))


def search_path(cuda_home: str = CUDA_HOME) -> tuple[str, ...]:
    """Where tools are looked for, as in the build's own unit: the toolkit first, no shell's PATH."""
    return (os.path.join(cuda_home, "bin"), "/usr/local/bin", *commands.PATH.split(":"))


def rust_folder(version: str, machine: str) -> str:
    """Where the programs of a Rust lie that rustup installed below RUST_HOME."""
    return f"{RUST_HOME}/toolchains/{version}-{machine}-unknown-linux-gnu/bin"


def find(program: str, folders: Iterable[str]) -> str | None:
    places = (os.path.join(folder, program) for folder in folders)
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def look(
    folders: Sequence[str], ask: Callable[[Sequence[str]], commands.Answer] = commands.ask
) -> list[Found]:
    """Each tool of TOOLS: the first program that is there and says a version; one alone where none is new enough."""
    return [_look(tool, folders, ask) for tool in TOOLS]


def _look(tool: Tool, folders: Sequence[str], ask: Callable[[Sequence[str]], commands.Answer]) -> Found:
    seen = Found(tool.name)
    for program, *words in tool.programs:
        path = find(program, folders)
        if path is None:
            continue
        version = read_version(tool.pattern, ask([path, *words]).out)
        if version is not None:
            return Found(tool.name, path, version)
        seen = Found(tool.name, path)
    return seen


def read_version(pattern: str, text: str) -> str | None:
    row = re.search(pattern, text.strip())
    return row[1] if row else None


def judge(
    found: Iterable[Found],
    toolkit: str | None = None,
    driver: str | None = None,
    wanted_tools: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What an operator should know. toolkit: the X.Y that the stack is meant for; driver: the loaded one's version.

    wanted_tools: {tool: the oldest version that will do}; None wants all of TOOLS, as vLLM does.
    """
    by_name = {each.name: each for each in found}
    notes = []
    for tool in TOOLS:
        if wanted_tools is not None and tool.name not in wanted_tools:
            continue
        oldest = tool.oldest if wanted_tools is None else numbers(wanted_tools[tool.name])
        seen = by_name.get(tool.name, Found(tool.name))
        wanted = f"{tool.label} {'.'.join(map(str, oldest))} or newer"
        if seen.version is None:
            what = f"{tool.label} ({seen.path}, which says no version)" if seen.path else tool.label
            notes.append(finding("build.tool.missing", what=what, wanted=wanted, remedy=tool.remedy))
        elif numbers(seen.version) < oldest:
            values = {"what": seen.path, "found": seen.version, "wanted": wanted, "remedy": tool.remedy}
            notes.append(finding("build.tool.old", **values))
    nvcc = by_name.get("nvcc", Found("nvcc"))
    if nvcc.version and (wanted_tools is None or "nvcc" in wanted_tools):
        notes += _toolkit(nvcc, toolkit, driver)
    return notes


def _toolkit(nvcc: Found, wanted: str | None, driver: str | None) -> list[Finding]:
    release = ".".join(nvcc.version.split(".")[:2])
    notes = []
    if wanted and release != wanted:
        values = {"path": nvcc.path, "found": release, "wanted": wanted, "packaged": wanted.replace(".", "-")}
        notes.append(finding("build.toolkit.other", **values))
    return notes + toolkit_and_driver(release, driver)


def toolkit_and_driver(toolkit: str, driver: str | None) -> list[Finding]:
    """A toolkit X.Y against the loaded driver; nothing where either is unknown, which others say."""
    branch = re.match(r"\d{1,6}", driver or "")
    if not branch:
        return []
    oldest, own = OLDEST_BRANCHES.get(toolkit.partition(".")[0]), DRIVER_BRANCHES.get(toolkit)
    values = {"toolkit": toolkit, "driver": driver}
    if oldest and int(branch[0]) < oldest:
        return [finding("build.toolkit.driver", **values, wanted=oldest)]
    if own and int(branch[0]) < own:
        return [finding("build.toolkit.newer", **values, wanted=own)]
    return []


def max_jobs(available_gib: float, cpus: int, job_gib: float = JOB_GIB, host_gib: float = HOST_GIB) -> int:
    """Compilers at once: what fits the available memory beside the host, no more than CPUs. 0: not even one fits."""
    fitting = int(max(0.0, available_gib - host_gib) // job_gib)
    return max(0, min(cpus, fitting))


def judge_memory(available_gib: float | None, cpus: int, job_gib: float = JOB_GIB) -> list[Finding]:
    if available_gib is None or max_jobs(available_gib, cpus, job_gib):
        return []
    values = {"available_gib": round(available_gib, 1), "wanted_gib": job_gib + HOST_GIB}
    return [finding("build.memory.short", **values)]
