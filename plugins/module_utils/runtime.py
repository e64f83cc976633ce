# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's virtual environment on a node: installed offline from wheels whose hashes a lock list names.

An environment lies at BASE/KEY; KEY stands for the lock list, the machine and the Python. It counts as
installed only when its fingerprint file is there, which is written last: an install that was cut off leaves none
and is begun anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from . import commands, container_image, engine_config

FINGERPRINT = "fingerprint.json"
# Written by the installer for its own use: they differ between two installs of the same wheels.
INSTALLERS_OWN = re.compile(
    r"(\.\./|.*\.dist-info/(INSTALLER|REQUESTED|RECORD|direct_url\.json|uv_cache\.json)$)"
)
# Unpacked wheels and the installer's cache together, against the size of the wheels. Measured: 885 MB became 3.5 GB.
SPACE_FACTOR = 4.5


class RuntimeInstallError(Exception):
    """What was found, what was wanted and what to do."""


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def missing(wheelhouse: Path, wheels: dict[str, str]) -> list[str]:
    """The file names of `wheels` ({file name: sha256}) that are not there with their right content."""
    return [
        name
        for name, digest in sorted(wheels.items())
        if not (wheelhouse / name).is_file() or sha256_of(wheelhouse / name) != digest
    ]


def adopt(incoming: Path, wheelhouse: Path, wheels: dict[str, str]) -> None:
    """Moves transferred wheels into the wheelhouse, each one only with its right content.

    Raises RuntimeInstallError naming every file that arrived damaged.
    """
    wheelhouse.mkdir(parents=True, exist_ok=True)
    damaged = []
    for name, digest in sorted(wheels.items()):
        arrived = incoming / name
        if not arrived.is_file():
            continue
        if sha256_of(arrived) != digest:
            damaged.append(name)
            continue
        shutil.move(arrived, wheelhouse / name)
        (wheelhouse / name).chmod(0o644)
    if damaged:
        raise RuntimeInstallError(
            f"{', '.join(damaged)} arrived with another content than the lock list names. "
            "Run again: only these are sent anew."
        )


def read_fingerprint(path: Path) -> dict | None:
    """{digest, packages{name: version}} of an installed environment; None where it is missing or was cut off."""
    try:
        content = json.loads((path / FINGERPRINT).read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(content, dict) and content.keys() >= {"digest", "packages"}
    return content if whole else None


def fingerprint(path: Path) -> dict:
    """The content of an environment: every package's version and the hashes of its files, as RECORD lists them.

    {digest, packages {name: version}, files {name: a hash for its files}}.
    """
    packages, contents, digest = {}, {}, hashlib.sha256()
    for folder in sorted(path.glob("lib/python*/site-packages/*.dist-info")):
        name, version = folder.name[: -len(".dist-info")].rsplit("-", 1)
        spelled = name.lower().replace("_", "-")
        packages[spelled] = version
        record = (folder / "RECORD").read_text(encoding="utf-8")
        files = sorted(line for line in record.splitlines() if not INSTALLERS_OWN.match(line.split(",")[0]))
        text = "\n".join([folder.name, *files]).encode()
        contents[spelled] = hashlib.sha256(text).hexdigest()[:16]
        digest.update(text)
    return {"digest": digest.hexdigest(), "packages": packages, "files": contents}


def nvcc(cuda_home: str) -> dict[str, str | None]:
    """{path, version} of the compiler that kernels are made with at run time; version is None where there is none."""
    path = Path(cuda_home, "bin", "nvcc")
    found = re.search(r"release (\d+\.\d+)", commands.ask([str(path), "--version"], timeout_s=20).out)
    return {"path": str(path), "version": found[1] if found else None}


def described(path: Path) -> dict:
    """What is installed at `path` now, and the packages that are not as they were installed.

    {installed, path}, and where it is installed {fingerprint, packages, files, changed_since} as of this moment.
    """
    then = read_fingerprint(path)
    if then is None:
        return {"installed": False, "path": str(path)}
    now = fingerprint(path)
    return {
        "installed": True,
        "path": str(path),
        "fingerprint": now["digest"],
        "packages": now["packages"],
        "files": now["files"],
        "changed_since": differences(then, now, ("the day it was installed", "this one")),
    }


def of_release(release: Path) -> dict:
    """The engine that the release in this folder starts, as `described` says it; {nvcc} too where it compiles."""
    folder = Path(os.path.realpath(release / "runtime"))
    if (folder / container_image.RECORD).exists():
        return in_container(folder)
    found = described(folder)
    cuda_home = (engine_config.read_environment(release / "env") or {}).get("CUDA_HOME")
    return {**found, "nvcc": nvcc(cuda_home)} if cuda_home else found


def in_container(folder: Path) -> dict:
    """The same of an image that a folder stands for: it is installed while the image is there."""
    record = container_image.read_record(folder) or {}
    question = [record.get("program", "docker"), "image", "inspect", record.get("image", "none")]
    image = container_image.read_inspect(commands.ask(question, timeout_s=60).out) if record else None
    if image is None:
        return {"installed": False, "path": str(folder)}
    return {
        "installed": True,
        "path": str(folder),
        "fingerprint": record["fingerprint"],
        "image": image.id,
        "packages": record.get("packages") or {},
        "files": {},
        "changed_since": [],
    }


def differences(one: Mapping, other: Mapping, names: tuple[str, str]) -> list[str]:
    """A sentence for each package by which two fingerprints differ; names: of what they are the fingerprints."""
    if one.get("digest") == other.get("digest") and one.get("nvcc") == other.get("nvcc"):
        return []
    found = []
    compilers = [(each.get("nvcc") or {}).get("version") for each in (one, other)]
    if compilers[0] != compilers[1]:
        said = [each or "missing" for each in compilers]
        found.append(f"nvcc is {said[0]} on {names[0]} and {said[1]} on {names[1]}")
    here, there = one.get("packages") or {}, other.get("packages") or {}
    for package in sorted(here.keys() | there.keys()):
        versions = [here.get(package, "missing"), there.get(package, "missing")]
        if versions[0] != versions[1]:
            found.append(f"{package} is {versions[0]} on {names[0]} and {versions[1]} on {names[1]}")
    files = [each.get("files") or {} for each in (one, other)]
    for package in sorted(files[0].keys() & files[1].keys()):
        if files[0][package] != files[1][package] and here.get(package) == there.get(package):
            found.append(f"{package} {here[package]} has other files on {names[0]} than on {names[1]}")
    if found or one.get("digest") == other.get("digest"):
        return found
    return [
        f"the files of {names[0]} and {names[1]} differ, and which is not known: one was installed before"
    ]


def _extract_uv(wheelhouse: Path, wheels: dict[str, str], target: Path) -> Path:
    wheel = next((name for name in wheels if name.startswith("uv-")), None)
    if wheel is None:
        raise RuntimeInstallError(
            "The lock list holds no uv, which installs the others. Add uv to its .in file "
            "and run `make lock`."
        )
    with zipfile.ZipFile(wheelhouse / wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(archive.read(member))
    target.chmod(0o755)
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeInstallError(
            f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )


def check_space(base: Path, wheelhouse: Path, wheels: dict[str, str]) -> None:
    """Raises RuntimeInstallError where the disk has no room for the environment."""
    wanted = SPACE_FACTOR * sum((wheelhouse / name).stat().st_size for name in wheels)
    free = shutil.disk_usage(base).free
    if free < wanted:
        raise RuntimeInstallError(
            f"{base} has {free / 2**30:.1f} GiB free, the engine's environment wants {wanted / 2**30:.1f} GiB. "
            f"Make room (df -h {base}) and run again."
        )


def install(path: Path, lock: str, wheelhouse: Path, wheels: dict[str, str], python: str) -> dict:
    """Installs the wheels into a new environment at `path` and returns its fingerprint.

    Nothing is fetched: `--offline --no-index`, and `--require-hashes` refuses a wheel with another content.
    Raises RuntimeInstallError with the installer's last words.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    check_space(path.parent, wheelhouse, wheels)
    if path.exists():
        shutil.rmtree(path)
    scratch = path.parent / f".{path.name}"
    scratch.mkdir(exist_ok=True)
    try:
        (scratch / "lock.txt").write_text(lock)
        # A cache on the same file system lets uv link the files into place in place of copying them.
        uv = [
            str(_extract_uv(wheelhouse, wheels, scratch / "uv")),
            "--no-config",
            "--quiet",
            "--cache-dir",
            str(scratch / "cache"),
        ]
        _run([*uv, "venv", "--python", python, str(path)])
        _run(
            [
                *uv,
                "pip",
                "install",
                "--offline",
                "--no-index",
                "--no-deps",
                "--require-hashes",
                "--python",
                str(path / "bin" / "python"),
                "--find-links",
                str(wheelhouse),
                "--requirements",
                str(scratch / "lock.txt"),
            ]
        )
        content = fingerprint(path)
        partial = path / f".{FINGERPRINT}"
        partial.write_text(json.dumps(content, indent=1, sort_keys=True))
        os.replace(partial, path / FINGERPRINT)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return content
