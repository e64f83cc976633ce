# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write findings.md beside this file from the catalogue of findings; `make findings` calls it."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "findings.md"
HEAD = """\
# Findings

Everything that a look can find, by its id. Ids are stable. `make findings` writes this page from the catalogue;
words in capitals stand for what was found.

`ansible-playbook tandem.spark.doctor -i inventory` says which of them are so now. An **error** keeps the group from
serving, or will; a **warning** may cost speed or the next start, or is what could not be read; an **info** is told and
asks for nothing. A finding of a *group* compares its ranks.
"""


def plain(template: str) -> str:
    """`{free} GiB` -> `FREE GiB`."""
    return re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), template).replace("{{", "{").replace("}}", "}")


def wrapped(label: str, text: str) -> str:
    words = f"{label}{' '.join(text.split())}"
    return textwrap.fill(words, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def entry(name: str, found) -> Iterator[str]:
    scope = ", of the group" if found.scope == "group" else ""
    yield wrapped(f"- `{name}` (**{found.severity}**{scope}): ", plain(found.summary))
    yield wrapped("  *Do:* ", plain(found.remedy))
    if found.fixed_by:
        yield f"  *Fixed by* site.yml, role `{found.fixed_by}`"
    if found.source:
        yield wrapped("  *Source:* ", found.source)


def page(catalogue: Mapping) -> str:
    parts = [HEAD]
    for theme in sorted({name.partition(".")[0] for name in catalogue}):
        names = sorted(name for name in catalogue if name.partition(".")[0] == theme)
        # A line that ends in a backslash is a line of its own.
        told = ["\\\n".join(entry(name, catalogue[name])) for name in names]
        parts.append("\n".join([f"## {theme}", "", *told, ""]))
    return "\n".join(parts)


def catalogue() -> Mapping:
    sys.path.insert(0, str(ROOT / "collections"))
    from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE

    return CATALOGUE


if __name__ == "__main__":
    PAGE.write_text(page(catalogue()), encoding="utf-8")
    print(PAGE)
