# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pretend node for uninstall.yml: whatever looks at a node or changes it is answered here, and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretend_tune import keep, state

MODULES = ("node_info", "uninstall", "driver_packages", "fabric_rails")
NETWORK = {"management": [{"name": "eth0", "reasons": ["default route"]}], "backend": "networkd"}
HELD = {"unhold": ["nvidia-driver-580-open"], "auto": [], "unmask": []}
TRACES = [{"kind": "unit", "name": "tandem-guard.service"}, {"kind": "folder", "name": "/opt/tandem"}]
STAYS = ["the weights in /srv/models/lab; -e tandem_uninstall_weights=true takes them too"]


def answer(name: str, args: Mapping[str, Any], host: str, check_mode: bool) -> dict[str, Any]:
    """State: {gone: hosts that were cleaned, steps: what was done, trouble: {module: msg}}."""
    now = state()
    if name == "node_info":
        return {"changed": False, "node": {"network": NETWORK}, "findings": []}
    told = f"{name} {args.get('state', 'absent')}"
    if not check_mode:
        now["steps"].append([host, told, args.get("weights")])
        if name == "uninstall" and told.endswith("absent"):
            now["gone"].append(host)
        keep(now)
    if msg := now["trouble"].get(told):
        return {"failed": True, "msg": msg}
    here = host not in state()["gone"] or (name == "uninstall" and not check_mode)
    if name == "driver_packages":
        return {"changed": here, "steps": HELD if here else {}}
    if name == "fabric_rails":
        return {"changed": here, "files": ["/etc/netplan/90-tandem-fabric.yaml"] if here else [], "kept": []}
    return {"changed": here, "traces": TRACES if here else [], "kept": STAYS}
