# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image: what it is, whether it is for this machine and its driver, and by what two of them are the same.

A folder below /opt/tandem/runtime stands for an image as it stands for an environment of wheels: RECORD in it, written
last, says which image and what is in it, and bin/python runs the image's Python.

Source: `image inspect`, `manifest inspect --verbose` and `buildx imagetools inspect` of Docker, the same of podman.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .findings import Finding, finding
from .nccl_speaker import version_number

RECORD = "container.json"
# uname -m -> the word of images.
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
# NVIDIA's own images say which driver they were built for; their start prints it where it is missing.
_DRIVER = "CUDA_DRIVER_VERSION"


class ImageError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Image:
    """id: sha256:…; layers: the hashes of their content, equal wherever an image is kept. size: bytes, None unknown."""

    id: str
    architecture: str | None
    layers: tuple[str, ...]
    environment: tuple[str, ...]
    config: Mapping[str, Any]
    labels: Mapping[str, str]
    size: int | None

    @property
    def variables(self) -> dict[str, str]:
        pairs = (each.partition("=") for each in self.environment)
        return {name: value for name, _equals, value in pairs if _NAME.match(name)}

    def fingerprint(self, *more: str) -> str:
        """64 digits for what is in it. Dates and the order in which it was made do not count, nor where it is kept."""
        said = [self.architecture, list(self.layers), sorted(self.environment), dict(self.config), *more]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def prefixed(image_id: str) -> str:
    """podman leaves the name of the hash out."""
    return image_id if image_id.startswith("sha256:") else f"sha256:{image_id}"


def read_inspect(text: str) -> Image | None:
    """The JSON of `image inspect` of one image; None where it is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    each = told[0] if isinstance(told, list) and told else None
    if not isinstance(each, Mapping) or not isinstance(each.get("Id"), str) or not each["Id"]:
        return None
    config = _map(each.get("Config"))
    kept = {
        name: config.get(name) for name in ("Entrypoint", "Cmd", "User", "WorkingDir") if config.get(name)
    }
    labels = {str(name): str(value) for name, value in _map(config.get("Labels")).items()}
    architecture, size = each.get("Architecture"), each.get("Size")
    return Image(
        prefixed(each["Id"]),
        architecture if isinstance(architecture, str) and architecture else None,
        _texts(_map(each.get("RootFS")).get("Layers")),
        _texts(config.get("Env")),
        kept,
        labels,
        size if isinstance(size, int) and not isinstance(size, bool) else None,
    )


@dataclass(frozen=True)
class Remote:
    """What a registry says of an image before it is pulled. environment: None where it was not told."""

    architectures: tuple[str, ...]
    environment: tuple[str, ...] | None = None


def read_remote(text: str, wanted: str) -> Remote | None:
    """What one of remote_questions prints, None where that says nothing.

    Of an image for several processors the environment is that of `wanted`.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(told, list):  # manifest inspect --verbose, of several
        found = [arch for each in told if (arch := _platform(_map(each)))]
        return Remote(tuple(found)) if found else None
    if not isinstance(told, Mapping):
        return None
    if isinstance(told.get("architecture"), str):  # the image's own configuration
        config = _map(told.get("config"))
        return Remote((told["architecture"],), _texts(config.get("Env")))
    if arch := _platform(told):
        return Remote((arch,))
    of = {str(name).split("/")[1]: _map(each) for name, each in told.items() if str(name).count("/") >= 1}
    if of:  # buildx, of several: {"linux/arm64": configuration}
        chosen = _map(of.get(wanted, {}).get("config"))
        return Remote(tuple(of), _texts(chosen.get("Env")) if wanted in of else None)
    return None


def _platform(told: Mapping[str, Any]) -> str | None:
    platform = _map(_map(told.get("Descriptor")).get("platform"))
    found = platform.get("architecture")
    return found if isinstance(found, str) and found not in ("", "unknown") else None


def remote_questions(program: str, reference: str) -> list[list[str]]:
    """Commands that ask the registry, the one that tells most first."""
    if program == "podman":
        return [["skopeo", "inspect", "--config", f"docker://{reference}"]]
    return [
        ["docker", "buildx", "imagetools", "inspect", reference, "--format", "{{json .Image}}"],
        ["docker", "manifest", "inspect", "--verbose", reference],
    ]


def judge(
    name: str, architectures: Sequence[str], environment: Iterable[str], machine: str, driver: str | None
) -> list[Finding]:
    """Is it for this machine, and for the driver that is loaded here? What is not told is not judged."""
    notes = []
    wanted = ARCHITECTURES.get(machine, machine)
    if architectures and wanted not in architectures:
        notes.append(
            finding("container.image.arch", name=name, found=", ".join(architectures), wanted=wanted)
        )
    told = {each.partition("=")[0]: each.partition("=")[2] for each in environment}
    needed = told.get(_DRIVER, "")
    if driver and version_number(needed) > version_number(driver) and _branch(needed) > _branch(driver):
        values = {"wanted": needed, "found": driver, "branch": _branch(needed)}
        notes.append(finding("container.image.driver", name=name, **values))
    return notes


def _branch(version: str) -> int:
    return (version_number(version) or (0,))[0]


def key(reference: str, overlay: Mapping[str, Any] | None, command: str, python: str, as_root: bool) -> str:
    """Names the folder that stands for an image with its overlay: twelve digits, the same on every rank."""
    said = json.dumps([reference, overlay or None, command, python, as_root], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def read_record(folder: Path) -> dict[str, Any] | None:
    """What was found in the image when it was made ready; None where it never was, or was cut off."""
    try:
        content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(content, dict) and isinstance(content.get("image"), str) and content.get("fingerprint")
    return content if whole else None


PROBE = """
import importlib.metadata, json, shutil, sys
names = {}
for each in importlib.metadata.distributions():
    try:
        names[each.metadata["Name"].lower().replace("_", "-")] = each.version
    except Exception:
        pass
told = {"python": sys.version.split()[0], "command": shutil.which(sys.argv[1]), "packages": names}
print("TANDEM " + json.dumps(told))
"""


def read_probe(text: str) -> dict[str, Any] | None:
    """What PROBE printed in the image: {python, command, packages}; None where it did not come to its end."""
    for line in text.splitlines():
        if line.startswith("TANDEM "):
            try:
                told = json.loads(line.removeprefix("TANDEM "))
            except (ValueError, RecursionError):
                return None
            return told if isinstance(told, dict) and isinstance(told.get("packages"), dict) else None
    return None
