# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines of several ranks, compared field by field (controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.runtime import differences


def engine_differences(engines: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each field by which a rank differs from the first, or from the day it was installed.

    engines: {host: what the module runtime or runtime_info returned}.
    """
    missing = [host for host, each in engines.items() if not each.get("installed", True)]
    # In check mode one that would be installed is no difference.
    said = [
        f"{host} has no engine in {engines[host]['path']}"
        for host in missing
        if not engines[host].get("changed")
    ]
    prints = {
        host: {
            "digest": each.get("fingerprint"),
            **{key: each.get(key) for key in ("packages", "files", "nvcc")},
        }
        for host, each in engines.items()
        if host not in missing
    }
    (first, of_first), *others = prints.items() or [("", {})]
    said += [line for host, each in others for line in differences(of_first, each, (first, host))]
    said += [
        f"{host} is not as it was installed ({', '.join(each['changed_since'])})"
        for host, each in engines.items()
        if each.get("changed_since")
    ]
    return said


class FilterModule:
    def filters(self) -> dict:
        return {"engine_differences": engine_differences}
