# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel's log of a boot says about the driver: its Xids, a GPU that did not start, a GPU to be reset."""

from __future__ import annotations

import re
from dataclasses import dataclass

_XID = re.compile(r"NVRM: Xid \(PCI:([\w:.]+)\): (\d+)(?:, (.*))?")
_ACTION = re.compile(r"recovery action changed from .* to .*?\(([^)]*)\)", re.IGNORECASE)


@dataclass(frozen=True)
class KernelLog:
    """xids: code -> how often. wanted: what the driver wants done to the GPU now (Xid 154), None if nothing.

    not_started: the line of a GPU that could not be started. doe: the line of a firmware mailbox that did not answer.
    """

    xids: dict[str, int]
    wanted: str | None
    not_started: str | None
    doe: str | None


def read_kernel_log(text: str) -> KernelLog:
    xids: dict[str, int] = {}
    wanted: dict[str, str] = {}
    not_started = doe = None
    for line in text.splitlines():
        if found := _XID.search(line):
            xids[found[2]] = xids.get(found[2], 0) + 1
            if found[2] == "154":
                action = _ACTION.search(found[3] or "")
                wanted[found[1]] = action[1] if action else "not told"
        elif "RmInitAdapter failed" in line:
            not_started = line.strip()
        elif re.search(r"\bDOE\b.*(?:timeout|timed out|[Ff]ailed|[Aa]bort)", line):
            doe = line.strip()
    # The newest word of each GPU counts: it may have been reset since.
    actions = [action for action in wanted.values() if action.lower() != "none"]
    return KernelLog(xids, ", ".join(sorted(set(actions))) or None, not_started, doe)
