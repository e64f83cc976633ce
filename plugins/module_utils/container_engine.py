# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that runs containers here: whether it answers, whose it is, and by which way it gives one the GPU.

Source: `docker info` of Docker 20 to 29, `podman info` of podman 4 and 5, CDI 0.5 and newer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import commands, driver_traces
from .findings import FindingError, finding
from .kernel_files import Tree

PROGRAMS = ("docker", "podman")
INFO = {"docker": ["info", "--format", "{{json .}}"], "podman": ["info", "--format", "json"]}
SNAP = "/var/snap/"
INFO_S = 30.0
# How `--gpus all` and a CDI device are said.
BY_RUNTIME = ("--runtime=nvidia", "--gpus=all")
BY_CDI = ("--device=nvidia.com/gpu=all",)


@dataclass(frozen=True)
class Engine:
    """root: where it keeps images; None where it does not say. cdi: whether it reads CDI descriptions at all."""

    program: str
    version: str | None = None
    root: str | None = None
    runtimes: tuple[str, ...] = ()
    cdi: bool = False

    @property
    def snap(self) -> bool:
        return bool(self.root and self.root.startswith(SNAP))


def read_info(program: str, text: str) -> Engine | str:
    """What `info` prints; a sentence why not, where the program itself runs and what it asks does not answer."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return "its answer cannot be read"
    if not isinstance(told, Mapping):
        return "its answer cannot be read"
    return _podman(told) if program == "podman" else _docker(told)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _part(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return told[name] if isinstance(told.get(name), Mapping) else {}


def _docker(told: Mapping[str, Any]) -> Engine | str:
    errors = told.get("ServerErrors")
    version = _text(told.get("ServerVersion"))
    if version is None:
        why = str(errors[0]) if isinstance(errors, list) and errors else "the daemon does not say its version"
        return " ".join(why.split())[:300]
    runtimes = tuple(sorted(map(str, _part(told, "Runtimes"))))
    folders = told.get("CDISpecDirs")
    cdi = isinstance(folders, list) and bool(folders)
    return Engine("docker", version, _text(told.get("DockerRootDir")), runtimes, cdi)


def _podman(told: Mapping[str, Any]) -> Engine | str:
    version = _text(_part(told, "version").get("Version"))
    if version is None:
        return "it does not say its version"
    return Engine("podman", version, _text(_part(told, "store").get("graphRoot")), (), True)


def look(program: str) -> Engine:
    """The program as it answers now. Raises FindingError where no container can be run with it."""
    if not commands.there(program):
        if program == "docker" and os.path.exists("/snap/bin/docker"):
            raise FindingError(finding("container.engine.snap", root="/snap/bin/docker"))
        raise FindingError(finding("container.engine.missing", program=program))
    answer = commands.ask([program, *INFO[program]], timeout_s=INFO_S)
    if answer.rc is None:
        why = f"`{program} info` gave no answer within {INFO_S:.0f} s"
        raise FindingError(finding("container.engine.silent", program=program, why=why))
    found = read_info(program, answer.out)
    if isinstance(found, str):
        raise FindingError(finding("container.engine.silent", program=program, why=found))
    if found.snap:
        raise FindingError(finding("container.engine.snap", root=found.root))
    return found


def gpu_words(engine: Engine, cdi: Mapping[str, tuple[str, ...]], loaded: str | None) -> tuple[str, ...]:
    """The words that give a container the GPU. cdi: descriptions by the driver versions that they name.

    CDI first, since it is what is asked for by name; one that names another driver than the loaded gives libraries that
    are not there. Raises FindingError where there is no way.
    """
    fresh = [file for file, named in cdi.items() if loaded is None or set(named) == {loaded}]
    if engine.cdi and fresh:
        return BY_CDI
    if "nvidia" in engine.runtimes:
        return BY_RUNTIME
    if engine.cdi and cdi:
        file, named = next(iter(cdi.items()))
        raise FindingError(
            finding("container.gpu.stale", file=file, named=", ".join(named), loaded=loaded or "unknown")
        )
    raise FindingError(finding("container.gpu.none", program=engine.program))


def gpu_here(engine: Engine, loaded: str | None, root: str = "/") -> tuple[str, ...]:
    """gpu_words for this node. FindingError."""
    return gpu_words(engine, driver_traces.cdi(Tree(root)), loaded)
