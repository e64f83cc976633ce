# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers of its driver: what was done to hold it, so that it can be undone, and a change under way."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from . import files
from .records import read_json

PATH = "/var/lib/tandem/driver.json"
# In this order. installing: apt may be at work. installed: the packages are there, the pair does not run yet. booting:
# the wanted kernel boots once. failed: it did not come up well. good: it runs and is the default, and is not proved.
STAGES = ("installing", "installed", "booting", "failed", "good")


@dataclass(frozen=True)
class Change:
    """From one pair (driver, kernel) to another; boot_id is that of the boot in which the stage was reached."""

    stage: str
    driver: str
    kernel: str
    before: tuple[str | None, str | None]
    boot_id: str | None = None
    at: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """held, manual, masked: what was done here and was not so before. grub: whether GRUB's default was set here."""

    held: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    grub: bool = False
    change: Change | None = None

    @property
    def empty(self) -> bool:
        return self == Record()


def read(path: str = PATH) -> Record:
    """The record; an empty one where there is none. ValueError where it is there and makes no sense."""
    if not Path(path).exists():
        return Record()
    content = read_json(Path(path))
    try:
        return _made(content)
    except (TypeError, KeyError, AttributeError):
        raise ValueError(
            f"{path} cannot be understood. Look at it, and at `apt-mark showhold`; without it nothing is known of an "
            "earlier change, so move it away only when the node runs what it should"
        ) from None


def _made(content: Mapping[str, Any] | None) -> Record:
    lists = {name: _names(content[name]) for name in ("held", "manual", "masked")}
    grub, told = content["grub"], content["change"]
    if not isinstance(grub, bool):
        raise TypeError
    change = None
    if told is not None:
        driver, kernel = told["before"]
        change = Change(**{**told, "before": (driver, kernel), "reasons": _names(told["reasons"])})
        if change.stage not in STAGES or not all(
            isinstance(each, str) for each in (change.driver, change.kernel)
        ):
            raise TypeError
    return Record(**lists, grub=grub, change=change)


def _names(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TypeError
    return tuple(found)


def write(record: Record, path: str = PATH) -> None:
    """Keeps the record, or removes it where there is nothing to remember. files.FilesError where the disk refuses."""
    wanted = files.Wanted(path, "absent")
    if not record.empty:
        wanted = files.Wanted(
            path, content=(json.dumps(asdict(record), indent=1) + "\n").encode(), mode=0o644
        )
    found = files.look(path, with_content=True)
    if files.differences(wanted, found):
        files.apply(wanted, found)


def at_stage(record: Record, change: Change, boot_id: str | None) -> Record:
    """The record with a change that has reached its stage now."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return replace(record, change=replace(change, boot_id=boot_id, at=at))
