# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patches of this collection: patches/TREE/series and the files that it names."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import PatchError, read_patch

PATCHES = Path(__file__).resolve().parents[2] / "patches"


def read_series(folder: Path) -> list[dict[str, str]]:
    """[{name, text}] in the order of the series. Raises PatchError with everything that is wrong with it."""
    try:
        lines = (folder / "series").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        there = ", ".join(sorted(path.parent.name for path in PATCHES.glob("*/series")))
        raise PatchError(
            f"{folder} has no series that can be read ({getattr(error, 'strerror', None) or error}). "
            f"This collection has patches for: {there or 'nothing'}."
        ) from error
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    strange = [name for name in names if {" ", "/"} & set(name)]
    there = {path.name for path in folder.iterdir()} - {"series"}
    problems = [f"{name!r}: a line of it is the name of a file" for name in strange]
    problems += [f"{name} is named twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    problems += [f"{name} is named and not there" for name in names if name not in {*there, *strange}]
    problems += [f"{name} is there and not named" for name in sorted(there - set(names))]
    if problems:
        raise PatchError(f"{folder}/series: {'; '.join(problems)}. Correct it.")
    series = []
    for name in names:
        try:
            # Without newline= Python would take carriage returns for ends of lines.
            with (folder / name).open(encoding="utf-8", newline="") as stream:
                text = stream.read()
            read_patch(name, text)
        except UnicodeDecodeError as error:
            problems.append(f"{name} is no UTF-8: {error}")
        except PatchError as error:
            problems += error.problems
        else:
            series.append({"name": name, "text": text})
    if problems:
        raise PatchError(*problems)
    return series


def pick(series: list[dict[str, str]], only: list[str]) -> list[dict[str, str]]:
    """Those of the series that are named, in its order; all, where none is. Raises PatchError for unknown names."""
    known = [each["name"] for each in series]
    unknown = [name for name in only if name not in known]
    if unknown:
        raise PatchError(f"The series has no {', '.join(unknown)}. It has: {', '.join(known)}.")
    return [each for each in series if not only or each["name"] in only]
