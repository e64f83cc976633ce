# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's checkpoints: the good one, its defective twins and one that four ranks can share, made once and laid into
every node."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

import settings
from settings import Lab
from system import lock, remove_tree, run

MAKER = settings.HERE / "make_lab_model.py"
SOURCES = [MAKER, *sorted((settings.HERE / "checkpoint").glob("*.py"))]
VARIANTS = {
    "lab": [],
    "lab-count": ["--defect", "count"],
    "lab-loop": ["--defect", "loop"],
    "lab-wrong": ["--defect", "wrong"],
    "lab-8-heads": ["--heads", "8"],
}


def build(lab: Lab) -> Path:
    """A folder to lay over the image: srv/models/VARIANT, readable by all (11 MB each, made in a second)."""
    models = lab.home / "models"
    layer = models / hashlib.sha256(b"\0".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    with lock(models / "lock"):
        for unfinished in models.glob(".unfinished-*"):
            remove_tree(unfinished)
        if not layer.exists():
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=models))
            for name, options in VARIANTS.items():
                run([sys.executable, MAKER, unfinished / "srv" / "models" / name, *options])
            unfinished.chmod(0o755)
            os.rename(unfinished, layer)
    return layer
