# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL is preloaded, and whether the ranks of a group run what is wanted (controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils import loaded_nccl
from ansible_collections.tandem.spark.plugins.plugin_utils import nccl_library


def nccl_preload(profile: Mapping, lists: str) -> dict[str, str | None]:
    """{own, lock, why} for a profile; `lists` is the folder of the lock lists."""
    return asdict(nccl_library.choose(profile, Path(lists)))


def nccl_problems(looks: Mapping[str, Mapping]) -> list[str]:
    """What is wrong with the NCCL of a group, a sentence each; empty where every rank has the same good one.

    `looks` is the result of nccl_info for each host.
    """
    found = [
        f"{host}: {note['summary']}. {note['remedy']}."
        for host, look in looks.items()
        for note in look["findings"]
        if note["severity"] == "error"
    ]
    found += [
        f"{host}: no process has NCCL in memory, so what its rank runs is unknown. See that its unit is up."
        for host, look in looks.items()
        if not any(process["libraries"] for process in look["processes"])
    ]
    mixed = loaded_nccl.differences({host: look["processes"] for host, look in looks.items()})
    return found + [f"{note.summary}. {note.remedy}." for note in mixed]


class FilterModule:
    def filters(self) -> dict:
        return {"nccl_preload": nccl_preload, "nccl_problems": nccl_problems}
