# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source archives of vLLM from PyPI, by the hashes of ``vllm-sources.txt``, kept in the user's cache (40 MB each).

pip wants the metadata of an archive that it downloads, and would run vLLM's own build for that, with torch beside it.
A build backend of two functions says the name and the version in its place, and nothing of vLLM runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

LIST = Path(__file__).with_name("vllm-sources.txt")
CACHE = Path("~/.cache/tandem/vllm-sources").expanduser()
BACKEND = """
import os, pathlib

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, f"vllm-{os.environ['VLLM_RELEASE']}.dist-info")
    folder.mkdir()
    version = os.environ["VLLM_RELEASE"]
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {version}\\n")
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    return folder.name
"""


def releases() -> dict[str, str]:
    """Return {release: its line of the list}."""
    text = LIST.read_text().replace("\\\n", "")
    return {
        line.split()[0].removeprefix("vllm=="): line
        for line in text.splitlines()
        if line.startswith("vllm==")
    }


def archive(release: str) -> Path:
    """Return the archive of one release; download it where it is not there yet."""
    target = CACHE / f"vllm-{release}.tar.gz"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        backend = Path(folder, "backend", "setuptools")
        backend.mkdir(parents=True)
        (backend / "__init__.py").touch()
        (backend / "build_meta.py").write_text(BACKEND)
        wanted = Path(folder, "list.txt")
        wanted.write_text(releases()[release] + "\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command += [
            "--no-build-isolation",
            "--require-hashes",
            "--dest",
            folder,
            "--requirement",
            str(wanted),
        ]
        environment = {**os.environ, "PYTHONPATH": str(backend.parent), "VLLM_RELEASE": release}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"The source of vLLM {release} could not be downloaded:\n{done.stderr[-2000:]}"
            )
        os.replace(Path(folder, target.name), target)  # under its name only when it is whole
    return target


def unpack(release: str, folder: Path, names: set[str]) -> Path:
    """Unpack the named files into ``folder`` where they are, and return the tree."""
    left = set(names)
    with tarfile.open(archive(release)) as tar:
        for member in tar:
            path = member.name.partition("/")[2]
            if path in left and member.isfile():
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())
                left.remove(path)
            if not left:
                break
    return folder
