# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who gives an image, and who takes it (controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def image_steps(looks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """{giver, pulls, takers} of a group: looks is what container_image returned for each rank, the head first.

    giver is None where every rank has the same image ready. pulls: whether the giver must make it ready itself.
    """
    ready = {host: each["image"] for host, each in looks.items() if each.get("installed")}
    if len(ready) == len(looks) and len(set(ready.values())) == 1:
        return {"giver": None, "pulls": False, "takers": []}
    present = [host for host, each in looks.items() if each.get("present")]
    giver = next(iter([*ready, *present, *looks]))
    takers = [host for host in looks if host != giver and ready.get(host) != ready.get(giver, "none yet")]
    return {"giver": giver, "pulls": giver not in ready, "takers": takers}


class FilterModule:
    def filters(self) -> dict:
        return {"image_steps": image_steps}
