# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree that every node boots from, built once per content of image/ and shared read-only.

Virtual machines have theirs from the same hands: see vm_image.py.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import settings
from settings import Lab
from system import lock, remove_tree, run

SUITE = "bookworm"  # Python 3.11, for which there is a CPU build of torch; see docs/design.md
RECIPE = settings.HERE / "image"


def build(lab: Lab, name: str = RECIPE.name) -> Path:
    """The image's folder; built if no lab needed it before, at a cost of a minute and 700 MB.

    name: another recipe than image/, whose packages and script are added to those of image/.
    """
    if name == RECIPE.name:
        return kept(lab, RECIPE, bootstrap)
    more = settings.HERE / name
    hooks = [f"--include={','.join(packages(more))}", f"--customize-hook={more / 'customize.sh'}"]
    return kept(lab, more, lambda root: bootstrap(root, hooks=hooks), RECIPE)


def kept(lab: Lab, recipe: Path, make: Callable[[Path], None], *beneath: Path) -> Path:
    """The folder that `make` filled from this recipe, and from those beneath it, now or for an earlier lab."""
    images = lab.home / "images"
    image = images / digest(recipe, *beneath)
    with lock(images / f"{recipe.name}.lock"):
        for unfinished in images.glob(f".{recipe.name}-*"):
            remove_tree(unfinished)
        if not image.exists():
            print(f"building {image} from {recipe.name} (about a minute)", flush=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{recipe.name}-", dir=images))
            make(unfinished)
            os.rename(unfinished, image)
    return image


def digest(*recipes: Path) -> str:
    """Names the image by what it is made of."""
    parts = [SUITE.encode()]
    for recipe in recipes:
        first = [recipe / name for name in ("packages.txt", "customize.sh")]
        others = sorted(path for path in recipe.rglob("*") if path.is_file() and path not in first)
        named = [part for path in others for part in (bytes(path.relative_to(recipe)), path.read_bytes())]
        parts += [*(path.read_bytes() for path in first), *named]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def packages(recipe: Path) -> list[str]:
    lines = (recipe / "packages.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def bootstrap(root: Path, recipe: Path = RECIPE, hooks: Sequence[str] = ()) -> None:
    """Debian's mirror is mmdebstrap's own unless LAB_MIRROR names another one. hooks: further words for mmdebstrap."""
    # mmdebstrap mounts the host's /dev and /sys in the tree: nobody else may see them there, and nothing may
    # go on when this process is killed, for the next build removes the tree.
    alone = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private"]
    alone += ["--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(packages(recipe))}",
        *hooks,
    ]
    command += [f"--customize-hook={recipe / 'customize.sh'}", SUITE, root]
    run([*alone, *command, *([os.environ["LAB_MIRROR"]] if "LAB_MIRROR" in os.environ else [])])
