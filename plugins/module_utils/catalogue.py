# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an entry of the finding catalogue looks like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One kind of finding.

    severity: error, warning or info. scope: node or group.
    summary, remedy: str.format templates; the values come from the caller of finding().
    fixed_by: the role that mends it in site.yml, or None. source: where the knowledge comes from.
    lasts: until somebody mends it (mended), as long as the engine's present start (start), or as long as the boot
    whose log tells of it, whatever was done since (boot). site.yml stops only on unmended errors of the first kind.
    """

    severity: str
    scope: str
    summary: str
    remedy: str
    fixed_by: str | None = None
    source: str = ""
    lasts: str = "mended"
