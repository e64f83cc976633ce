# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL a profile's engine brings, and whether another one must be preloaded (controller only).

The lock lists decide, not what is installed: the same answer before and after an install, and on every rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils import nccl_rules
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import version_number

# Engines whose libraries no lock list of this collection names.
UNLISTED = ("container", "source")
_PIN = re.compile(r"^(nvidia-nccl-\w+)==(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Choice:
    """own: the NCCL of the engine, None where it brings none. lock: the list to preload from, None for none."""

    own: str | None
    lock: str | None
    why: str


def locked(lists: Path, name: str) -> str | None:
    """The version of NCCL that a lock list pins; None where it pins none, or is not there."""
    try:
        match = _PIN.search((lists / name).read_text(encoding="utf-8"))
    except OSError:
        return None
    return match[2] if match else None


def choose(profile: Mapping, lists: Path) -> Choice:
    """Whether something is preloaded, and why."""
    lock, minimum = profile["runtime"].get("lock"), profile["nccl"].get("minimum")
    own = locked(lists, lock) if lock else None
    preload = (profile["nccl"].get("preload") or {}).get("lock")
    if own is None and minimum and preload and profile["runtime"].get("kind") in UNLISTED:
        # What such an engine loads is known when it runs, and only then whether that is new enough.
        told = f"No list tells which NCCL the engine brings, {minimum} or newer is wanted"
        return Choice(None, preload, f"{told}: {locked(lists, preload)} is preloaded.")
    if own is None:
        return Choice(None, None, "The engine brings no NCCL of its own (gloo); nothing is preloaded.")
    if not minimum or version_number(own) >= version_number(minimum):
        wanted = f"{minimum} or newer is wanted" if minimum else "the profile wants no other"
        return Choice(own, None, f"The engine brings NCCL {own}, {wanted}; nothing is preloaded.")
    newer = locked(lists, preload) if preload else None
    return Choice(
        own, preload, f"The engine brings NCCL {own}, {minimum} or newer is wanted: {newer} is preloaded."
    )


def problems(profile: Mapping, lists: Path) -> list[str]:
    """What is wrong with a profile's `nccl`, all of it."""
    section = profile["nccl"]
    found = nccl_rules.environment_problems(profile["transport"], section.get("environment") or {})
    minimum = section.get("minimum")
    if minimum is None:
        return found
    if not re.fullmatch(r"\d+\.\d+\.\d+", minimum):
        return [*found, f"nccl.minimum is {minimum!r}, wanted is a version such as 2.30.4"]
    choice = choose(profile, lists)
    enough = choice.own is not None and version_number(choice.own) >= version_number(minimum)
    if enough or (choice.own is None and choice.lock is None):
        return found
    if choice.lock is None:
        wanted = "name a list under nccl.preload.lock, or take a newer engine"
        return [*found, f"the engine brings NCCL {choice.own}, older than nccl.minimum {minimum}: {wanted}"]
    newer = locked(lists, choice.lock)
    if newer is None:
        return [*found, f"nccl.preload.lock {choice.lock!r} is no list in {lists} that pins nvidia-nccl"]
    if version_number(newer) < version_number(minimum):
        return [*found, f"nccl.preload.lock pins NCCL {newer}, older than nccl.minimum {minimum}"]
    return found
