# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release holds for a cluster of Ray (controller only)."""

from __future__ import annotations

from ansible_collections.tandem.spark.plugins.module_utils import ray_settings


def ray_environment(release: str) -> dict[str, str]:
    """The variables of a rank that takes part in a cluster; release: the path that its folder is found by."""
    return ray_settings.environment(release)


def ray_not_copied(_nothing: str) -> str:
    """The list of what the head of a cluster may not copy to the others."""
    return ray_settings.not_copied()


class FilterModule:
    def filters(self) -> dict:
        return {"ray_environment": ray_environment, "ray_not_copied": ray_not_copied}
