# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of the API: one file on the head, which systemd reads for the engine, and who else asks reads by itself.

It is never in a release, an argument or a log: a release is readable for all, and so are arguments.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .engine_state import UNITS

FILE = "etc/tandem/api.env"
VARIABLE = "VLLM_API_KEY"
# What systemd's files, a shell and an HTTP header all take as it is.
FORM = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")


class ApiKeyError(ValueError):
    """What was found, what was wanted and what to do."""


def text(key: str | None) -> str:
    """The file; without a key it is there all the same, or the unit that names it would not start."""
    said = f"{VARIABLE}={key}\n" if key else "# No key: tandem_api_auth is open.\n"
    return f"# Written by tandem.spark (role access).\n{said}"


def parse(content: str) -> str | None:
    """The key in such a file, or in one that holds nothing but the key; None where it has none."""
    lines = [
        line.strip() for line in content.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        return None
    name, equals, value = lines[-1].partition("=")
    return value.strip("\"'") or None if equals and name == VARIABLE else lines[-1]


def read(path: Path) -> str | None:
    """The key that a file holds; None where there is no file or no key in it. ApiKeyError where it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ApiKeyError(
            f"{path} cannot be read ({getattr(error, 'strerror', None) or error}), wanted the API key. "
            "Run this as root."
        ) from error


def of(module: Any) -> str | None:
    """The key that an AnsibleModule's `api_key` or `api_key_file` names; its results never show it. ApiKeyError."""
    given, file = module.params["api_key"], module.params["api_key_file"]
    key = given or (read(Path(file)) if file else None)
    if key:
        module.no_log_values.add(key)
    return key


def look(root: Path, units: Mapping[str, Mapping]) -> dict[str, bool | None]:
    """{file, kept, running}: whether the file is there, whether it holds a key that others cannot read, and whether the
    engine that runs here was started with what it holds.

    running is None where no head runs, or it cannot be told. Nothing of the key itself is said.
    """
    path = root / FILE
    try:
        key, mode = read(path), stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    except (ApiKeyError, OSError):
        return {"file": None, "kept": None, "running": None}
    pid = (units.get(UNITS[0]) or {}).get("main_pid")
    kept = key is not None and mode == 0o600
    return {"file": mode is not None, "kept": kept, "running": _runs_with(root, pid, key) if pid else None}


def _runs_with(root: Path, pid: int, key: str | None) -> bool | None:
    try:
        pairs = (root / f"proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    given = [
        pair.partition(b"=")[2].decode("utf-8", "replace")
        for pair in pairs
        if pair.startswith(b"VLLM_API_KEY=")
    ]
    return (given[-1] if given else None) == key
