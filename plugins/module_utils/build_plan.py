# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is built from source, in which order, and the digest of all that goes into each wheel.

`runtime.build` of a profile is read and checked here. A digest stands for the content of sources, trees and patches,
the commands, the environment, the list of build requirements, and the digests of the wheels that are needed. It does
not stand for where a source came from, how many jobs ran, or which patch level a compiler had: none of these is a
reason to build for hours again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

FORMAT = 1  # a change of how wheels are built begins all of them anew
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMIT, _SHA256 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!_-]*)")
KINDS = ("pypi", "url", "git")
# The builder sets these itself, for each node and each build.
OWN_VARIABLES = frozenset(
    ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL", "CARGO_BUILD_JOBS", "PATH", "HOME", "TMPDIR", "CARGO_HOME")
    + ("VIRTUAL_ENV", "SOURCE_DATE_EPOCH", "LC_ALL", "CUDA_HOME")
)


class BuildPlanError(Exception):
    """Everything that is wrong with a profile's `runtime.build`."""


@dataclass(frozen=True)
class Source:
    """kind: pypi (what is a pin NAME==VERSION), url or git (a repository). check: SHA-256, or a commit of 40 digits."""

    name: str
    kind: str
    what: str
    check: str
    submodules: bool = False

    @property
    def identity(self) -> str:
        """Names the content and nothing else: a mirror is no other source."""
        if self.kind == "git":
            return f"git:{self.check}{'+submodules' if self.submodules else ''}"
        return f"sha256:{self.check}"

    @property
    def file(self) -> str:
        """Its archive, on the controller and on the node."""
        return f"{self.check}{'-submodules' if self.submodules else ''}.tar"


@dataclass(frozen=True)
class Tree:
    """A source that is unpacked beside the one that is built; `folder` is what the variable names of it."""

    variable: str
    source: Source
    folder: str = ""


@dataclass(frozen=True)
class Wheel:
    """One wheel. version: what it must have, None for any. patches: (name, text). network: why it needs one.

    deepgemm: the variable of a tree that must have the kernels for SM120, empty where there is none.
    """

    name: str
    version: str | None
    source: Source
    needs: tuple[str, ...]
    trees: tuple[Tree, ...]
    patches: tuple[tuple[str, str], ...]
    before: tuple[tuple[str, ...], ...]
    environment: tuple[tuple[str, str], ...]
    network: str
    disk_gib: float
    deepgemm: str = ""
    digest: str = ""

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source, *(tree.source for tree in self.trees))


@dataclass(frozen=True)
class Plan:
    """wheels: in the order in which they are built, each after those that it needs."""

    wheels: tuple[Wheel, ...]
    requires: str
    job_gib: float

    @property
    def key(self) -> str:
        """Stands for all wheels together."""
        return _hash([wheel.digest for wheel in self.wheels])[:16]


def read(
    build: Mapping[str, Any],
    *,
    machine: str,
    python: str,
    toolkit: str | None,
    requires: str,
    patches: Mapping[str, Sequence[Mapping[str, str]]],
) -> Plan:
    """The plan of a profile.

    requires: the text of the list of build requirements. patches: {tree: [{name, text}]}, as patches/ has them.
    Raises BuildPlanError with all problems.
    """
    found = problems(build, patches)
    if found:
        raise BuildPlanError("; ".join(found))
    sources = {name: _source(name, told) for name, told in build["sources"].items()}
    common = {
        "format": FORMAT,
        "machine": machine,
        "python": python,
        "toolkit": toolkit,
        "requires": requires,
    }
    digests: dict[str, str] = {}
    wheels = []
    for told in build["wheels"]:
        wheel = _wheel(told, build.get("environment") or {}, sources, patches)
        digests[wheel.name] = digest(wheel, common, {name: digests[name] for name in wheel.needs})
        wheels.append(replace(wheel, digest=digests[wheel.name]))
    return Plan(tuple(wheels), build["requires"], float(build.get("job_gib") or 6.0))


def problems(build: Mapping[str, Any], patches: Container[str]) -> list[str]:
    """What is wrong with a profile's `runtime.build`, all of it. patches: the trees that patches/ has."""
    return list(_problems(build, patches))


def digest(wheel: Wheel, common: Mapping[str, Any], needed: Mapping[str, str]) -> str:
    """Sixteen hex digits for all that goes into a wheel."""
    return _hash(
        {
            **common,
            "name": wheel.name,
            "version": wheel.version,
            "source": wheel.source.identity,
            "trees": [[tree.variable, tree.source.identity, tree.folder] for tree in wheel.trees],
            "patches": [list(patch) for patch in wheel.patches],
            "before": [list(words) for words in wheel.before],
            "environment": sorted(wheel.environment),
            "needs": dict(needed),
        }
    )[:16]


def job(plan: Plan, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """What a node must know of each wheel; wanted: the digests that are to be built."""
    by_name = {wheel.name: wheel.digest for wheel in plan.wheels}
    return [
        {
            "name": wheel.name,
            "version": wheel.version,
            "digest": wheel.digest,
            "wanted": wheel.digest in wanted,
            "archive": wheel.source.file,
            "needs": [by_name[name] for name in wheel.needs],
            "trees": [
                {"variable": tree.variable, "archive": tree.source.file, "folder": tree.folder}
                for tree in wheel.trees
            ],
            "patches": [{"name": name, "text": text} for name, text in wheel.patches],
            "before": [list(words) for words in wheel.before],
            "environment": dict(wheel.environment),
            "network": wheel.network,
            "deepgemm": wheel.deepgemm,
            "disk_gib": wheel.disk_gib,
        }
        for wheel in plan.wheels
    ]


def normal(name: str) -> str:
    """The name of a package as the indexes have it: Flash_Infer.Python is flash-infer-python."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _kind(told: Mapping[str, Any]) -> list[str]:
    return [kind for kind in KINDS if told.get(kind)]


def _source(name: str, told: Mapping[str, Any]) -> Source:
    kind = _kind(told)[0]
    check = told["revision"] if kind == "git" else told["sha256"]
    return Source(name, kind, told[kind], check, bool(told.get("submodules")))


def _wheel(
    told: Mapping[str, Any],
    environment: Mapping[str, Any],
    sources: Mapping[str, Source],
    patches: Mapping[str, Sequence[Mapping[str, str]]],
) -> Wheel:
    merged = {**environment, **(told.get("environment") or {})}
    trees = []
    for variable, place in sorted((told.get("trees") or {}).items()):
        name, _colon, folder = place.partition(":")
        trees.append(Tree(variable, sources[name], folder))
    return Wheel(
        name=told["name"],
        version=told.get("version"),
        source=sources[told["source"]],
        needs=tuple(told.get("needs") or ()),
        trees=tuple(trees),
        patches=tuple((each["name"], each["text"]) for each in patches.get(told.get("patches") or "", ())),
        before=tuple(tuple(words) for words in told.get("before") or ()),
        environment=tuple(sorted((name, str(value)) for name, value in merged.items())),
        network=told.get("network") or "",
        deepgemm=told.get("deepgemm") or "",
        disk_gib=float(told.get("disk_gib") or 1.0),
    )


def _problems(build: Mapping[str, Any], patches: Container[str]) -> Iterator[str]:
    if not build.get("wheels"):
        yield "wheels names nothing that is to be built"
    if not build.get("requires"):
        yield "requires names no list of build requirements"
    yield from _environment("environment", build.get("environment") or {})
    sources = build.get("sources") or {}
    for name, told in sources.items():
        yield from _source_problems(f"sources.{name}", told)
    seen: list[str] = []
    for told in build.get("wheels") or []:
        where = f"wheels.{told['name']}"
        if not _NAME.fullmatch(told["name"]):
            yield f"{where}: a name has small letters, digits and single hyphens"
        if told["name"] in seen:
            yield f"{where} is there twice"
        if told["source"] not in sources:
            yield f"{where}: source {told['source']} is not among sources"
        for need in told.get("needs") or []:
            if need not in seen:
                yield f"{where} needs {need}, which is not built before it"
        if told.get("patches") and told["patches"] not in patches:
            yield f"{where}: patches/ has no {told['patches']}"
        if told.get("deepgemm") and told["deepgemm"] not in (told.get("trees") or {}):
            yield f"{where}.deepgemm: {told['deepgemm']} is not among its trees"
        for words in told.get("before") or []:
            if not words or not all(isinstance(word, str) for word in words):
                yield f"{where}: each of before is a list of words"
        yield from _trees(where, told.get("trees") or {}, sources)
        yield from _environment(f"{where}.environment", told.get("environment") or {})
        seen.append(told["name"])


def _source_problems(where: str, told: Mapping[str, Any]) -> Iterator[str]:
    kinds = _kind(told)
    if len(kinds) != 1:
        yield f"{where} has {' and '.join(kinds) or 'no place'}, wanted is one of {', '.join(KINDS)}"
        return
    if kinds == ["git"] and not _COMMIT.fullmatch(str(told.get("revision") or "")):
        yield f"{where}.revision is {told.get('revision')!r}, wanted is a whole commit of 40 digits: a tag may move"
    if kinds != ["git"] and not _SHA256.fullmatch(str(told.get("sha256") or "")):
        yield f"{where}.sha256 is {told.get('sha256')!r}, wanted is the SHA-256 of its archive"
    if kinds == ["pypi"] and not _PIN.fullmatch(told["pypi"]):
        yield f"{where}.pypi is {told['pypi']!r}, wanted is NAME==VERSION"


def _trees(where: str, trees: Mapping[str, str], sources: Mapping[str, Any]) -> Iterator[str]:
    for variable, place in trees.items():
        name, _colon, folder = str(place).partition(":")
        if not _VARIABLE.fullmatch(variable) or variable in OWN_VARIABLES:
            yield f"{where}.trees: {variable} is no variable that can be set"
        if name not in sources:
            yield f"{where}.trees.{variable}: {name} is not among sources"
        if folder.startswith("/") or ".." in folder.split("/"):
            yield f"{where}.trees.{variable}: {folder} leads out of the tree"


def _environment(where: str, environment: Mapping[str, Any]) -> Iterator[str]:
    for name, value in environment.items():
        if name in OWN_VARIABLES:
            yield f"{where}: {name} is set for each build by itself, take it out"
        elif not _VARIABLE.fullmatch(name):
            yield f"{where}: {name!r} is no name of a variable"
        if isinstance(value, (Mapping, list)) or value is None or "\n" in str(value):
            yield f"{where}: {name} is no text of one line"
