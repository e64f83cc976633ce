# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel's log of a boot says: the driver's Xids, a GPU that did not start or must be reset, a lost card."""

from __future__ import annotations

import re
from dataclasses import dataclass

_XID = re.compile(r"NVRM: Xid \(PCI:([\w:.]+)\): (\d+)(?:, (.*))?")
# A fatal error on PCIe, and what mlx5 says of a card that such an error took away. Not "failed, status", which healthy
# cards print at every boot.
_PCIE = re.compile(
    r"AER: (?:Multiple )?Uncorrect\w+ \(Fatal\)|PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)|mlx5_pci_slot_reset|"
    r"mlx5_core.*(?:pci_err_detected|error_sw_reset|Fatal error|health compromised|timeout abort|failed with error)"
)
_ACTION = re.compile(r"recovery action changed from .* to .*?\(([^)]*)\)", re.IGNORECASE)


@dataclass(frozen=True)
class KernelLog:
    """xids: code -> how often. wanted: what the driver wants done to the GPU now (Xid 154), None if nothing.

    not_started: the line of a GPU that could not be started. doe: the line of a firmware mailbox that did not answer.
    pcie: the first line of a device that PCIe lost.
    """

    xids: dict[str, int]
    wanted: str | None
    not_started: str | None
    doe: str | None
    pcie: str | None = None


def read_kernel_log(text: str) -> KernelLog:
    xids: dict[str, int] = {}
    wanted: dict[str, str] = {}
    not_started = doe = pcie = None
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
        elif pcie is None and _PCIE.search(line):
            pcie = line.strip()
    # The newest word of each GPU counts: it may have been reset since.
    actions = [action for action in wanted.values() if action.lower() != "none"]
    return KernelLog(xids, ", ".join(sorted(set(actions))) or None, not_started, doe, pcie)
