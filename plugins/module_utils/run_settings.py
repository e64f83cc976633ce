# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With which settings of memory a release ran: those that two Sparks were reset by, so that every record tells them.

A head reset itself three times in a prefill of 131K tokens, and no more with another allocator and without FlashInfer's
autotuning; which of the two it was is not known (NVIDIA/dgx-spark-playbooks#97).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # torch prefers the first
AUTOTUNE = "enable-flashinfer-autotune"


def read(release: Path) -> dict[str, str | bool | None]:
    """{allocator, flashinfer_autotune} of a release's folder; null is what it does not say, or cannot be read."""
    environment = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', _text(release / "env")))
    told = [environment[name] for name in ALLOCATOR if environment.get(name)]
    return {
        "allocator": told[0] if told else None,
        "flashinfer_autotune": _switch(_text(release / "engine.yaml")),
    }


def _switch(engine_yaml: str) -> bool | None:
    found = re.findall(rf"(?m)^(no-)?{AUTOTUNE}: *(\S+)\s*$", engine_yaml)
    if not found:
        return None
    no, value = found[-1]
    try:
        said = json.loads(value.lower())
    except (ValueError, RecursionError):
        return None
    return said != bool(no) if isinstance(said, bool) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
