# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree that every node boots from, built once per content of image/ and shared read-only."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import settings
from settings import Lab
from system import lock, remove_tree, run

SUITE = "bookworm"  # Python 3.11, for which there is a CPU build of torch; see docs/design.md
RECIPE = settings.HERE / "image"


def build(lab: Lab) -> Path:
    """The image's folder; built if no lab needed it before, at a cost of a minute and 700 MB."""
    images = lab.home / "images"
    image = images / digest()
    with lock(images / "lock"):
        for unfinished in images.glob(".unfinished-*"):
            remove_tree(unfinished)
        if not image.exists():
            print(f"building the node image {image} (about a minute)", flush=True)
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=images))
            bootstrap(unfinished)
            os.rename(unfinished, image)
    return image


def digest() -> str:
    """Names the image by what it is made of."""
    parts = [SUITE.encode()] + [(RECIPE / name).read_bytes() for name in ("packages.txt", "customize.sh")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def packages() -> list[str]:
    lines = (RECIPE / "packages.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def bootstrap(root: Path) -> None:
    """Debian's mirror is mmdebstrap's own unless LAB_MIRROR names another one."""
    # mmdebstrap mounts the host's /dev and /sys in the tree: nobody else may see them there, and nothing may
    # go on when this process is killed, for the next build removes the tree.
    alone = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private"]
    alone += ["--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(packages())}",
    ]
    command += [f"--customize-hook={RECIPE / 'customize.sh'}", SUITE, root]
    run([*alone, *command, *([os.environ["LAB_MIRROR"]] if "LAB_MIRROR" in os.environ else [])])
