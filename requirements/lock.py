# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the hashed lists beside and below this file from their ``.in`` files.

What a list already pins stays as it is, unless ``--upgrade`` is given. No list says where a file was found.

usage: lock.py [--upgrade] [NAME …]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENGINES = HERE.parent / "roles" / "runtime" / "files"

# PyPI builds these three for CUDA alone: they fail to load beside a CPU torch, and text needs none of them.
CUDA_ONLY = {"torchvision", "torchaudio", "torchcodec"}

CONTROLLER = ["--universal", "--python-version", "3.12"]
# Of the lowest Python that a node may have, so that the versions exist for all of them; hashes are of all files.
NODE = ["--python-platform", "x86_64-manylinux_2_35", "--python-version", "3.11"]
SPARK = ["--python-platform", "aarch64-manylinux_2_35", "--python-version", "3.12"]

# These have no wheels, and a node installs nothing else. Only some tasks of lm-eval import them: it says so there.
WITHOUT_WHEELS = ["rouge-score", "sqlitedict", "word2number"]

# Name of the list: its folder and what uv is told. The rehearsal is not here: uv does not read pip's
# configuration, where a CPU build of torch may be named.
UV_LISTS = {
    "uv": (HERE, CONTROLLER),
    "runtime": (HERE, CONTROLLER),
    "report": (HERE, CONTROLLER),
    "dev": (HERE, CONTROLLER),
    "v4-flash-next": (ENGINES, SPARK),
    "v4-flash-main-ray": (ENGINES, SPARK),
    "nccl-cu13": (ENGINES, SPARK),
    # The headers that torch is built with are those of the libraries that it will find.
    "v4-flash-build": (ENGINES, [*SPARK, "--constraints", str(ENGINES / "v4-flash-next.txt")]),
    "evaluate": (HERE.parent / "roles" / "evaluate" / "files", NODE),
    # What the lab builds stands in for an engine.
    "lab-engine": (HERE.parent / "molecule" / "build", NODE),
    "lab-build": (HERE.parent / "molecule" / "build", NODE),
    # It is installed together with the engine of the rehearsal, so what both ask for is the version of that one.
    "lab-ray": (
        HERE.parent / "molecule" / "ray",
        [*NODE, "--constraints", str(ENGINES / "rehearsal.txt")],
    ),
    # The release whose command line is checked is the one that the Sparks get.
    "engine-cli": (
        HERE,
        [
            "--universal",
            "--python-version",
            "3.11",
            "--no-deps",
            "--constraints",
            str(ENGINES / "v4-flash-next.txt"),
        ],
    ),
}


def lock_with_uv(name: str, upgrade: bool) -> Path:
    """Resolve NAME.in with uv and write NAME.txt with the hashes of all files of each version."""
    folder, options = UV_LISTS[name]
    target = folder / f"{name}.txt"
    command = ["uv", "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += [word for each in WITHOUT_WHEELS for word in ("--no-emit-package", each)]
    command += ["--generate-hashes", *options, *(["--upgrade"] if upgrade else [])]
    subprocess.run([*command, "--output-file", str(target), str(HERE / f"{name}.in")], check=True)
    return target


def lock_rehearsal(upgrade: bool) -> Path:
    """Resolve rehearsal.in with pip for the Python of the nodes and write the hash of each wheel chosen.

    Python 3.11 must really run: pip judges environment markers by the interpreter it runs in. The alias of
    ``vllm_alias.py`` is on no index and is added from its own bytes.
    """
    target = ENGINES / "rehearsal.txt"
    with tempfile.TemporaryDirectory() as scratch:
        make_venv = ["uv", "venv", "--quiet", "--no-project", "--seed", "--python", "3.11"]
        subprocess.run([*make_venv, f"{scratch}/venv"], check=True)
        python = f"{scratch}/venv/bin/python"
        pins = Path(scratch, "pins.txt")
        kept = [] if upgrade else [pin for pin in pinned(target) if not pin.startswith("vllm==")]
        pins.write_text("\n".join(kept))
        command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", "--constraint", str(pins), "--report", f"{scratch}/report.json"]
        subprocess.run([*command, "--requirement", str(HERE / "rehearsal.in")], check=True)
        report = json.loads(Path(scratch, "report.json").read_text())

        hashes = dict(wheel_of(item) for item in report["install"])
        alias = subprocess.check_output([python, str(ENGINES / "vllm_alias.py"), scratch], text=True).strip()
        digest = hashlib.sha256(Path(alias).read_bytes()).hexdigest()
        hashes["vllm==" + Path(alias).name.split("-")[1]] = f"sha256:{digest}"
    kept = [pin for pin in sorted(hashes) if pin.split("==")[0] not in CUDA_ONLY]
    target.write_text("".join(f"{pin} \\\n    --hash={hashes[pin]}\n" for pin in kept))
    return target


def wheel_of(item: dict) -> tuple[str, str]:
    """Return ("name==version", "sha256:…") of one entry of pip's report."""
    name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}=={item['metadata']['version']}", f"sha256:{digest}"


def pinned(path: Path) -> list[str]:
    """Return the "name==version" of a list; none where it does not exist yet."""
    return re.findall(r"^([^\s#]+==\S+)", path.read_text(), re.MULTILINE) if path.exists() else []


def main() -> None:
    known = [*UV_LISTS, "rehearsal"]
    parser = argparse.ArgumentParser(description="Write the hashed requirement lists.")
    parser.add_argument("names", nargs="*", default=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--upgrade", action="store_true", help="take newer versions than those pinned")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        sys.exit(f"lock.py: no list is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in options.names:
        if name == "rehearsal":
            print(lock_rehearsal(options.upgrade))
        else:
            print(lock_with_uv(name, options.upgrade))


if __name__ == "__main__":
    main()
