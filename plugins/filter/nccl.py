# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about the NCCL of a group of ranks (controller only)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.tandem.spark.plugins.module_utils import loaded_nccl


def nccl_differences(looks: Mapping[str, Sequence[Mapping]]) -> list[dict]:
    """The findings of `processes` of nccl_info, for each host."""
    return [note.as_dict() for note in loaded_nccl.differences(looks)]


class FilterModule:
    def filters(self) -> dict:
        return {"nccl_differences": nccl_differences}
