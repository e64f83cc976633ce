# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a bench on the controller: one for each run, and the evaluations beside them (controller only)."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = 1  # of the files' shape
BENCH, EVALUATION = "bench", "evaluation"


class BenchFilesError(Exception):
    """What was found, what was wanted and what to do."""


def name_of(record: Mapping[str, Any]) -> str:
    """tandem-20261130T120000Z.json: the group, when the run began, and what it is where that is no bench."""
    group = re.sub(r"[^A-Za-z0-9_.-]", "_", str(record["group"]))
    stamp = re.sub(r"[^0-9TZ]", "", str(record["at"]))
    kind = "" if record["kind"] == BENCH else f"-{record['kind']}"
    return f"{group}-{stamp}{kind}.json"


def write(path: Path, content: bytes) -> None:
    """Replace a file and make its folder; BenchFilesError where that cannot be."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".bench-", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary:
            temporary.unlink(missing_ok=True)
        why = error.strerror or error
        raise BenchFilesError(
            f"{path} cannot be written: {why}. Name a folder of yours (tandem_bench_folder, tandem_telemetry_folder)."
        ) from error


def keep(folder: str, record: Mapping[str, Any]) -> Path:
    """Write one record and return its path."""
    path = expanded(folder) / name_of(record)
    write(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    return path


def expanded(folder: str) -> Path:
    return Path(os.path.expanduser(folder)).absolute()


def read_all(folder: str, group: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of a group, oldest first, and a sentence for each file that is none."""
    records, trouble = [], []
    for path in sorted(expanded(folder).glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            trouble.append(f"{path.name} cannot be read and is left out: {error}")
            continue
        if not isinstance(record, dict) or record.get("kind") not in (BENCH, EVALUATION):
            continue
        if record.get("version") != VERSION or not _SHAPES[record["kind"]] <= set(record):
            trouble.append(f"{path.name} is of another version of this collection and is left out")
        elif record["group"] == group:
            records.append({**record, "file": path.name})
    return sorted(records, key=lambda each: str(each["at"])), trouble


_SHAPES = {
    BENCH: {"group", "at", "summaries", "draws", "stack", "hosts", "profile", "telemetry", "findings"},
    EVALUATION: {"group", "at", "stack", "results"},
}
