# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a DeepGEMM and a FlashInfer have what DeepSeek-V4 needs on SM120 and SM121: asked of what lies there.

Two repositories are named DeepGEMM, and each had revisions with and without these kernels, so neither a name nor a
version answers it (seed 000; vllm-project/vllm#51959 and #52732).
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import commands
from .findings import Finding, finding

# hc_mult of the checkpoint is 4, so every forward pass goes through this one.
KERNEL = "sm120_tf32_hc_prenorm_gemm"
HEADERS = "include/deep_gemm/impls"
DISPATCH = "csrc/apis/hyperconnection.hpp"
# Where an installed one lies below site-packages: vLLM's own copy, or a package by itself.
INSTALLED = ("vllm/third_party/deep_gemm", "deep_gemm")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRANCH = re.compile(r"\barch_major\s*[=>]=\s*12\b|\b12\s*==\s*[\w.>()-]*arch_major\b|\bcase\s+12\s*:")
_URL = re.compile(r"(?m)^\s*url\s*=\s*\S*?([\w.-]+/[\w.-]+?)(?:\.git)?/?\s*$")
ASK = """
import importlib, json, sys
try:
    module = importlib.import_module("flashinfer.mla._sparse_mla_sm120")
    has = tuple(map(int, sys.argv[1:])) in module._DECODE_DSV4_DISPATCH
    answer = {"has": has, "why": None}
except Exception as error:
    answer = {"has": None, "why": f"{type(error).__name__}: {error}"}
try:
    answer["version"] = importlib.import_module("importlib.metadata").version("flashinfer-python")
except Exception:
    answer["version"] = None
print(json.dumps(answer))
"""
ASK_TIMEOUT_S = 300  # a first import of torch from a cold disk


@dataclass(frozen=True)
class DeepGemm:
    """layout: source, installed or none. dispatch: whether its host code goes to `KERNEL` on arch 12; None: unknown.

    repository: owner/name@commit of a checkout, for the reader alone; it decides nothing.
    """

    path: str
    layout: str
    kernels: tuple[str, ...] = ()
    dispatch: bool | None = None
    repository: str | None = None

    @property
    def good(self) -> bool:
        return KERNEL in self.kernels and self.dispatch is True

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "kernels": list(self.kernels), "good": self.good}


@dataclass(frozen=True)
class FlashInfer:
    """has: whether it takes the shape; None where it could not be asked, and `why` says what came of it."""

    has: bool | None
    version: str | None = None
    why: str | None = None


def look_at_deepgemm(path: str) -> DeepGemm:
    """A source tree of DeepGEMM, an installed one, or the site-packages that hold one."""
    root = Path(path)
    if (root / "csrc").is_dir():
        text = _text(root / DISPATCH)
        code = None if text is None else _COMMENTS.sub(" ", text)
        branch = None if code is None else bool(_BRANCH.search(code)) and f"{KERNEL}(" in code
        return DeepGemm(path, "source", _kernels(root / "deep_gemm"), branch, _repository(root))
    for folder in (root, *(root / name for name in INSTALLED)):
        if (folder / HEADERS).is_dir():
            libraries = sorted(folder.glob("_C*.so"))
            found = any(_holds(library, KERNEL.encode()) for library in libraries) if libraries else None
            return DeepGemm(str(folder), "installed", _kernels(folder), found)
    return DeepGemm(path, "none")


def _kernels(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (folder / HEADERS).glob("sm120_*.cuh")))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _holds(path: Path, word: bytes) -> bool:
    """Whether a library has this word: the host code includes the kernel's header by its name when it compiles it."""
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(word) >= 0
    except (OSError, ValueError):
        return False


def _repository(root: Path) -> str | None:
    url, head = _URL.search(_text(root / ".git/config") or ""), (_text(root / ".git/HEAD") or "").strip()
    commit = f"@{head}" if re.fullmatch(r"[0-9a-f]{40}", head) else ""
    return url[1] + commit if url else None


def ask_flashinfer(python: str, heads: int, top_k: int) -> FlashInfer:
    """Asks the FlashInfer of an environment as vLLM does: is (heads, top_k) in its dispatch of DSV4 decode?

    heads: query heads of one rank. Its interpreter is run, since a later release answers by a predicate and no table.
    """
    if not os.access(python, os.X_OK):
        return FlashInfer(None, why=f"{python} cannot be run")
    answer = commands.ask([python, "-c", ASK, str(heads), str(top_k)], timeout_s=ASK_TIMEOUT_S)
    return read_answer(answer.out, answer.rc)


def read_answer(out: str, rc: int | None) -> FlashInfer:
    """The last line that is an answer: packages print their own words when they are imported."""
    for line in reversed(out.splitlines()):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and isinstance(told.get("has"), bool | None):
            return FlashInfer(told.get("has"), _word(told.get("version")), _word(told.get("why")))
    ended = "did not end in its time" if rc is None else f"ended with {rc}"
    return FlashInfer(None, why=f"its interpreter {ended} and said nothing")


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def error(deepgemm: DeepGemm) -> Finding | None:
    """Why a DeepGEMM will not do; None where it does, or where that could not be told."""
    return next((note for note in judge(deepgemm, None, ()) if note.severity == "error"), None)


def judge(deepgemm: DeepGemm | None, flashinfer: FlashInfer | None, shape: Sequence[int]) -> list[Finding]:
    """What an operator should know; None is what was not asked for."""
    notes = []
    if deepgemm is not None and not deepgemm.good:
        whose = f" ({deepgemm.repository})" if deepgemm.repository else ""
        if deepgemm.layout == "none":
            notes.append(finding("build.deepgemm.missing", path=deepgemm.path))
        elif deepgemm.dispatch is None and KERNEL in deepgemm.kernels:
            notes.append(finding("build.deepgemm.unknown", path=deepgemm.path + whose))
        else:
            lacks = [] if KERNEL in deepgemm.kernels else [f"the kernel {KERNEL}"]
            lacks += [] if deepgemm.dispatch else ["the branch for arch_major 12"]
            notes.append(
                finding("build.deepgemm.sm120", path=deepgemm.path + whose, lacks=" and ".join(lacks))
            )
    if flashinfer is not None and flashinfer.has is not True:
        values = {"version": flashinfer.version or "?", "heads": shape[0], "top_k": shape[1]}
        if flashinfer.has is False:
            notes.append(finding("build.flashinfer.top_k", **values))
        else:
            notes.append(finding("build.flashinfer.unknown", evidence=flashinfer.why or "", **values))
    return notes
