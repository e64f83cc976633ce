# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of recovery.md from what `make faults` measured; `make recovery` calls it with the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).with_name("recovery.md")
BEGIN, END = "<!-- begin: make recovery -->\n", "<!-- end: make recovery -->"
COLUMNS = {
    "found_s": "found",
    "own_s": "ours",
    "boot_s": "start",
    "warm_up_s": "warm-up",
    "answered_s": "right answer",
    "lost": "lost",
}


def cell(value: object) -> str:
    return "–" if value is None else f"{value:.0f}" if isinstance(value, float) else str(value)


def table(measured: Mapping[str, Mapping]) -> str:
    """Seconds; found and right answer from the fault on."""
    rows = [["fault", *COLUMNS.values(), "`/healthz`, and since when"], ["---"] * (len(COLUMNS) + 2)]
    for fault, told in measured.items():
        rows.append([fault, *(cell(told[name]) for name in COLUMNS), told["health"]])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    measured = json.loads(Path(sys.argv[1]).read_text())
    before, _begin, rest = PAGE.read_text().partition(BEGIN)
    _old, _end, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(measured)}\n{END}{after}")


if __name__ == "__main__":
    main()
