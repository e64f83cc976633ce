# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has the weights right, who gets them from whom, and whether anything must come from outside (controller only)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PINNED = re.compile(r"[0-9a-f]{40}")
HUB = "hub"


def checkpoint_steps(
    looks: Mapping[str, Mapping[str, Any]],
    source: str,
    revision: str | None,
    verify: str,
    manifest: str,
) -> dict[str, Any]:
    """{giver, source, takers} from {host: what checkpoint_info found}; giver is None where nothing is to be done.

    source: where the giver takes them from first, empty where it only lists what it has. A rank that is whole in itself
    and differs is a taker only where the giver's are known to be right: by the hub's list, or by the operator's.
    """
    nothing = {"giver": None, "source": "", "takers": []}
    revisions = {host: (look.get("listed") or {}).get("revision") for host, look in looks.items()}
    listed = {host for host, look in looks.items() if revision and revisions[host] == revision}
    other = {
        host
        for host in looks
        if source == HUB and PINNED.fullmatch(revision or "") and revisions[host] not in (None, revision)
    }
    whole = [host for host, look in looks.items() if look.get("ok") and host not in other]
    giver = next((host for host in [*(each for each in whole if each in listed), *whole, *looks]), None)
    if giver is None or (not whole and not source):
        return nothing
    compared = bool(manifest) and verify != "headers"
    asked = source if not whole or (verify == "sha256" and not compared and revisions[giver] is None) else ""
    known = bool(asked) or giver in listed or compared
    takers = [
        host
        for host, look in looks.items()
        if host != giver and (host not in whole or asked or (known and _differs(look, looks[giver])))
    ]
    return {"giver": giver, "source": asked, "takers": takers} if asked or takers else nothing


def _differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(one.get(key) != other.get(key) for key in ("revision", "sha256"))


class FilterModule:
    def filters(self) -> dict:
        return {"checkpoint_steps": checkpoint_steps}
