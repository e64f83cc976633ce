# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection renders for the ranks of its profiles."""

from __future__ import annotations

from pathlib import Path

import engine
from ansible_collections.tandem.spark.plugins.module_utils.engine_config import engine_yaml, rank_arguments
from ansible_collections.tandem.spark.plugins.plugin_utils import profile as profiles

FOLDER = engine.ROOT / "roles" / "profile" / "files" / "profiles"
PROFILES = {name: profiles.described(name, FOLDER) for name in profiles.names(FOLDER)}
FABRIC = {"${TANDEM_MASTER_ADDR}": "192.168.177.1", "${TANDEM_MASTER_PORT}": "25000"}


def rendered(
    profile: dict, rank: int = 0, model: str | None = None, **changed: object
) -> tuple[str, list[str]]:
    """Return what a rank gets: the text of its engine.yaml and its words, filled in as systemd does.

    changed: flags with underscores; None takes one out.
    """
    ranks = profile["tensor_parallel_size"]
    changes = {name.replace("_", "-"): value for name, value in changed.items()}
    flags = profiles.merged({"tensor-parallel-size": ranks, **profile["engine"]["flags"]}, changes)
    text = engine_yaml(flags, model or profile["checkpoint"]["path"], profile["served_model_name"])
    fabric = {**FABRIC, "${TANDEM_NODE_RANK}": str(rank)}
    return text, [fabric.get(word, word) for word in rank_arguments(rank, ranks, "0.0.0.0", 8888)]


def commands(texts: dict[str, tuple[str, list[str]]], folder: Path) -> dict[str, list[str]]:
    """Write the files into the folder; return the command line of each."""
    lines = {}
    for name, (text, words) in texts.items():
        file = folder / f"{name}.yaml"
        file.write_text(text)
        lines[name] = ["serve", "--config", str(file), *words]
    return lines
