# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the installed FlashInfer whether it has the decode that the draft needs, as vLLM itself asks at its start.

    PYTHONPATH=/opt/tandem/lib ENGINE/bin/python -P -m tandem.flashinfer_question HEADS TOP_K

prints {"takes": true, false or null, "version", "why"}. vLLM 0.33.0 (utils/flashinfer.py) asks whether the pair is in
`_DECODE_DSV4_DISPATCH`. That is a table until 0.6.18 and a predicate since 0.7.0, which cannot be listed: only the
question itself holds for both. null: it could not be asked, and nothing is known.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .checkpoint_seals import save

MODULE, TABLE = "flashinfer.mla._sparse_mla_sm120", "_DECODE_DSV4_DISPATCH"
PROGRAM = "tandem.flashinfer_question"
ANSWERS = "flashinfer.json"
LIMIT_S = 180.0  # torch is imported, cold


def answer(heads: int, top_k: int) -> dict[str, Any]:
    """In the engine's Python."""
    try:
        version = importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        return {"takes": False, "version": None, "why": "flashinfer-python is not installed"}
    try:
        table = getattr(importlib.import_module(MODULE), TABLE, None)
    except Exception as error:  # whatever a foreign import does, it is no answer
        return {"takes": None, "version": version, "why": f"{type(error).__name__}: {error}"[:300]}
    if table is None:
        return {"takes": False, "version": version, "why": f"{MODULE} has no {TABLE}"}
    try:
        return {"takes": (heads, top_k) in table, "version": version, "why": ""}
    except Exception as error:
        return {"takes": None, "version": version, "why": f"{type(error).__name__}: {error}"[:300]}


def ask(environment: Path, heads: int, top_k: int, library: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The answer of an installed environment, asked once: it lies beside its fingerprint from then on."""
    kept = environment / ANSWERS
    key = f"{heads} heads, top_k {top_k}"
    try:
        answers = json.loads(kept.read_text(encoding="utf-8"))
        if answers[key]["takes"] is not None:
            return answers[key]
    except (OSError, ValueError, LookupError, TypeError):
        answers = {}
    found = _asked(environment, heads, top_k, library, limit_s)
    if found["takes"] is not None:
        save(kept, {**(answers if isinstance(answers, dict) else {}), key: found})
    return found


def _asked(environment: Path, heads: int, top_k: int, library: str, limit_s: float) -> dict[str, Any]:
    command = [str(environment / "bin" / "python"), "-P", "-m", PROGRAM, str(heads), str(top_k)]
    nothing = {"takes": None, "version": None}
    try:
        done = subprocess.run(
            command,
            env={
                "PYTHONPATH": library,
                "PATH": "/usr/bin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": "/nonexistent",
            },
            cwd="/",
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        line = next(each for each in reversed(done.stdout.splitlines()) if each.startswith("{"))
        found = json.loads(line)
        return {key: found[key] for key in ("takes", "version", "why")}
    except subprocess.TimeoutExpired:
        return {**nothing, "why": f"no answer within {limit_s:.0f} s"}
    except OSError as error:
        return {**nothing, "why": f"{command[0]}: {error.strerror}"}
    except (StopIteration, ValueError, LookupError):
        return {**nothing, "why": " ".join(done.stderr.split())[-300:] or f"it ended with {done.returncode}"}


if __name__ == "__main__":
    print(json.dumps(answer(*map(int, sys.argv[1:3]))))
