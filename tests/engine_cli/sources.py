# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source archives of vLLM from PyPI, by the hashes of ``vllm-sources.txt``, kept in the user's cache (40 MB each).

They come as those of a build from source do: nothing of vLLM runs.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

from ansible_collections.tandem.spark.plugins.plugin_utils.build_sources import download

LIST = Path(__file__).with_name("vllm-sources.txt")
CACHE = Path("~/.cache/tandem/vllm-sources").expanduser()


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
    pin, sha256 = f"vllm=={release}", releases()[release].rpartition("sha256:")[2]
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        os.replace(download(pin, sha256, Path(folder)), target)  # under its name only when it is whole
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
