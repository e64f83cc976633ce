#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that keeps images as docker does, in a folder: enough of its words for the steps of an image.

An image is a folder of files with image.json; what a registry has lies in registry/, what is here in images/. Every
command is a line of said.jsonl.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

HOME = Path(os.environ["PRETEND_DOCKER"])


def fail(text: str, code: int = 1):
    print(text, file=sys.stderr)
    sys.exit(code)


def digest(folder: Path) -> str:
    mark = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        mark.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return mark.hexdigest()


def make(source: Path, name: str, **told) -> str:
    """Puts an image into images/; its id."""
    image = digest(source) if not told.get("id") else told["id"]
    place = HOME / "images" / image
    if not place.exists():
        shutil.copytree(source, place / "files")
        kept = {
            "architecture": told.get("architecture", "arm64"),
            "env": told.get("env", []),
            "starts": told.get("starts", {}),
            "names": [name],
        }
        (place / "image.json").write_text(json.dumps(kept))
    return image


def found(name: str) -> Path:
    for place in sorted((HOME / "images").glob("*")):
        told = json.loads((place / "image.json").read_text())
        if name.removeprefix("sha256:") == place.name or name in told["names"]:
            return place
    fail(f"Error: No such image: {name}")


def inspect(place: Path) -> str:
    told = json.loads((place / "image.json").read_text())
    size = sum(path.stat().st_size for path in (place / "files").rglob("*") if path.is_file())
    layers = [f"sha256:{digest(place / 'files')}"]
    return json.dumps(
        [
            {
                "Id": f"sha256:{place.name}",
                "Architecture": told["architecture"],
                "Size": size,
                "Config": {"Env": told["env"], **told["starts"]},
                "RootFS": {"Layers": layers},
            }
        ]
    )


def copy(source: str, target: str):
    def place(text: str) -> Path:
        name, colon, path = text.partition(":")
        return HOME / "made" / name / path.lstrip("/") if colon else Path(text)

    here, there = place(source.removesuffix("/.")), place(target)
    if not here.exists():
        fail(f"Error response from daemon: Could not find the file {source}")
    if here.is_dir():
        shutil.copytree(here, there, dirs_exist_ok=True)
    else:
        shutil.copy(here, there)


def main(words: list[str]) -> None:
    with (HOME / "said.jsonl").open("a") as log:
        log.write(json.dumps(words) + "\n")
    if words[0] == "info":
        print(json.dumps({"ServerVersion": "29.1.0", "DockerRootDir": str(HOME)}))
    elif words[:2] == ["image", "inspect"]:
        print(inspect(found(words[2])))
    elif words[0] == "manifest":
        there = HOME / "registry" / words[-1].rpartition(":")[2] / "image.json"
        if not there.exists():
            fail("no such manifest")
        arch = json.loads(there.read_text())["architecture"]
        print(json.dumps({"Descriptor": {"platform": {"architecture": arch}}}))
    elif words[0] == "pull":
        there = HOME / "registry" / words[-1].rpartition(":")[2]
        if not there.exists():
            fail(f"Error response from daemon: manifest for {words[-1]} not found")
        told = json.loads((there / "image.json").read_text())
        print("0123456789ab: Pulling fs layer\n0123456789ab: Pull complete")
        make(there / "files", words[-1], **told)
    elif words[0] == "save":
        place = found(words[-1])
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as stream:
            stream.add(place, arcname=place.name)
    elif words[0] == "load":
        with tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())) as stream:
            stream.extractall(HOME / "images", filter="data")
        print(f"Loaded image ID: sha256:{os.environ.get('PRETEND_OTHER_ID', 'x')}")
        if other := os.environ.get("PRETEND_OTHER_ID"):
            for place in (HOME / "images").glob("*"):
                place.rename(place.with_name(other))
    elif words[0] == "create":
        shutil.copytree(found(words[-1]) / "files", HOME / "made" / "c0ffee")
        print("c0ffee")
    elif words[0] == "cp":
        copy(*words[1:])
    elif words[0] == "commit":
        print("sha256:" + make(HOME / "made" / words[-1], "overlay"))
    elif words[0] == "rm":
        shutil.rmtree(HOME / "made" / words[-1])
        print(words[-1])
    elif words[0] == "run":
        at = next(n for n, each in enumerate(words) if each.startswith("sha256:"))
        place, python = found(words[at]), words[at - 1].partition("=")[2]
        answer = json.loads((place / "image.json").read_text()).get("answers", {}).get(python)
        files = place / "files"
        if words[at + 3 : at + 4] == ["vllm"] and "find_spec" in words[at + 2]:
            print("TANDEM /site" if (files / "site/vllm").is_dir() else "TANDEM ")
        elif answer is None and python != "python3":
            fail(f"exec: {python}: no such file")
        else:
            command = words[at + 3]
            path = f"/usr/bin/{command}" if (files / "usr/bin" / command).exists() else None
            told = {"python": "3.12.3", "command": path, "packages": {"vllm": "0.26.0"}}
            print("a notice of the image\nTANDEM " + json.dumps(told))
    else:
        fail(f"unknown: {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
