#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second inventory: the engine of the rehearsal with a Ray beside it, started by itself or over Ray."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from hands import INVENTORY, PROJECT  # noqa: E402 - after the path to it

OWN = INVENTORY.with_name("ray")  # beside the lab's
REHEARSAL = PROJECT / "roles" / "runtime" / "files" / "rehearsal.txt"
ENTRY = re.compile(r"(?m)^(\S+?)==.*(?:\n[ \t].*)*")


def entries(path: Path) -> dict[str, str]:
    """{name: its lines} of a hashed list."""
    return {found[1]: found[0] for found in ENTRY.finditer(path.read_text())}


def together() -> str:
    """The rehearsal's list as it is, and of Ray's what that one does not have."""
    found = {**entries(HERE / "lab-ray.txt"), **entries(REHEARSAL)}
    return "".join(f"{found[name]}\n" for name in sorted(found))


def inventory() -> dict:
    """What a user says in an inventory: two profiles of one environment."""
    return {
        "tandem_profile": "lab-mp",
        "tandem_profiles": {
            "lab-mp": {
                "base": "rehearsal",
                "summary": "the rehearsal's engine with a Ray that nobody starts",
                "runtime": {"lock": str(OWN / "lock.txt")},
            },
            "lab-ray": {
                "base": "lab-mp",
                "summary": "the same over a cluster of Ray",
                "rendezvous": "ray",
                "engine": {"flags": {"distributed-executor-backend": "ray"}},
            },
        },
    }


def main() -> None:
    (OWN / "group_vars").mkdir(parents=True, exist_ok=True)
    (OWN / "lock.txt").write_text(together())
    (OWN / "hosts.yml").write_text("tandem: {}\n")
    (OWN / "group_vars" / "tandem.yml").write_text(json.dumps(inventory(), indent=1) + "\n")


if __name__ == "__main__":
    main()
