# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a picture of every node as the factory left it, for the test that everything can be taken off again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hands import INVENTORY, NODES, lab  # after the path to it is set

PROGRAM = Path(__file__).with_name("picture.py").read_text()
FOLDER = INVENTORY.parent / "factory"


def picture(node: str) -> dict[str, list[str]]:
    """What picture.py sees of a node, by subject."""
    return json.loads(lab("exec", node, "--", "/usr/bin/python3", "-c", PROGRAM))


def kept(node: str) -> dict[str, list[str]]:
    """The picture of before anything was done to it."""
    return json.loads((FOLDER / f"{node}.json").read_text())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in NODES:
        (FOLDER / f"{each}.json").write_text(json.dumps(picture(each)))
