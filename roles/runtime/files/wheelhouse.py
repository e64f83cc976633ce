# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill a folder on the controller with the wheels of one lock list, for another machine and Python than its own.

Prints JSON: ``changed`` (something was downloaded), ``bytes`` (of all wheels) and ``wheels`` (name, size and sha256
of each). A folder that already holds the list is neither hashed again nor is the network asked: the installer on
the node compares every hash anyway. The folder may be shared by several lists.

usage: wheelhouse.py LOCK DIRECTORY --python 3.11 --machine x86_64 [--glibc 2.36] [--extra-index URL …]
"""
from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import vllm_alias  # lies beside this file

OLDEST_GLIBC_MINOR = 5  # manylinux1
LEGACY_PLATFORMS = {"x86_64": ["manylinux2014", "manylinux2010", "manylinux1"], "aarch64": ["manylinux2014"]}


class WheelhouseError(Exception):
    """What is missing, in words for the operator."""


def platforms(machine: str, glibc: str) -> list[str]:
    """Return the platform tags that a machine with this glibc ("2.36") takes, best first.

    pip orders wheels by the tags it is given and expands none of them.
    """
    minors = range(int(glibc.split(".")[1]), OLDEST_GLIBC_MINOR - 1, -1)
    names = [f"manylinux_2_{minor}" for minor in minors] + LEGACY_PLATFORMS.get(machine, []) + ["linux"]
    return [f"{name}_{machine}" for name in names]


def locked(text: str) -> dict[str, set[str]]:
    """Return {"name==version": sha256 of each of its files} of a hashed requirements list."""
    pins: dict[str, set[str]] = {}
    for entry in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        if found := re.match(r"([^\s#;]+==[^\s;]+)", entry):
            pins[found[1]] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return pins


def download(lock: Path, directory: Path, options: argparse.Namespace) -> None:
    """Let pip fetch what ``directory`` does not hold. Raises WheelhouseError with pip's own last words."""
    abi = "cp" + options.python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--python-version", options.python]
    command += ["--implementation", "cp", "--abi", abi, "--abi", "abi3", "--abi", "none"]
    for platform in platforms(options.machine, options.glibc):
        command += ["--platform", platform]
    for index in options.extra_index:
        command += ["--extra-index-url", index]
    command += ["--find-links", str(directory), "--dest", str(directory), "--requirement", str(lock)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")][-12:]
        raise WheelhouseError("pip could not download the list {}:\n{}".format(lock.name, "\n".join(words)))


def find_wheels(pins: dict[str, set[str]], directory: Path) -> list[dict]:
    """Return name, size and sha256 of the one wheel of each pin. Raises WheelhouseError naming those without one."""
    by_digest = {}
    for path in sorted(directory.glob("*.whl")):
        with path.open("rb") as wheel:
            by_digest[hashlib.file_digest(wheel, "sha256").hexdigest()] = path
    wheels, missing = [], []
    for pin, digests in sorted(pins.items()):
        digest = next((digest for digest in sorted(digests) if digest in by_digest), None)
        if digest is None:
            missing.append(pin)
        else:
            path = by_digest[digest]
            wheels.append({"name": path.name, "size": path.stat().st_size, "sha256": digest})
    if missing:
        raise WheelhouseError(f"{directory} has no wheel with a listed hash for {', '.join(missing)}")
    return wheels


def known_wheels(manifest: Path, lock_digest: str) -> list[dict] | None:
    """Return the wheels that an earlier run found for this very list; None where one is gone or the list is new."""
    try:
        record = json.loads(manifest.read_text())
        complete = record["lock"] == lock_digest and all(
            (manifest.parent / wheel["name"]).stat().st_size == wheel["size"] for wheel in record["wheels"]
        )
    except (OSError, ValueError, KeyError):
        return None
    return record["wheels"] if complete else None


def fill(options: argparse.Namespace) -> dict:
    """Make the folder hold every wheel of the list and return what is printed."""
    text = options.lock.read_text()
    directory = options.directory.expanduser()
    directory.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(f"{text}{options.python}{options.machine}{options.glibc}".encode()).hexdigest()
    manifest = directory / f"{options.lock.stem}.json"
    wheels = known_wheels(manifest, digest)
    changed = wheels is None
    if wheels is None:
        pins = locked(text)
        if f"vllm=={vllm_alias.VERSION}" in pins:
            vllm_alias.write_wheel(directory)
        download(options.lock, directory, options)
        wheels = find_wheels(pins, directory)
        manifest.write_text(json.dumps({"lock": digest, "wheels": wheels}, indent=1))
    return {"changed": changed, "bytes": sum(wheel["size"] for wheel in wheels), "wheels": wheels}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill a folder with the wheels of one lock list.")
    parser.add_argument("lock", type=Path, help="hashed requirements list")
    parser.add_argument("directory", type=Path, help="folder for the wheels")
    parser.add_argument("--python", required=True, help="Python of the nodes, such as 3.11")
    parser.add_argument("--machine", required=True, help="machine of the nodes: x86_64 or aarch64")
    parser.add_argument("--glibc", default="2.36", help="glibc of the nodes (default: %(default)s)")
    parser.add_argument("--extra-index", action="append", default=[], help="index to ask besides pip's own")
    try:
        print(json.dumps(fill(parser.parse_args()), indent=1))
    except (OSError, WheelhouseError) as error:
        sys.exit(f"wheelhouse: {error}")


if __name__ == "__main__":
    main()
