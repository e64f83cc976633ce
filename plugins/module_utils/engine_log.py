# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the log of one vLLM rank: what it is, how far it came, what it measured, and what killed it.

Understands 0.26 to 0.33, heads and headless workers, with the prefixes of vLLM, journald and containers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .engine_faults import FATAL, fatal_in
from .findings import Finding, finding

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_REQUEST = re.compile(r'"(?:GET|POST|HEAD|OPTIONS) \S+ HTTP/')
_BOOT = re.compile(r"▄▄? ▄█ .*version |Launching vLLM \(v|non-default args: ")
_VERSION = re.compile(r"(?:vLLM|LLM engine) \(v([^\s)]+)\)|[█▀▄] +version v?(\d\S*)")
_PROGRESS = re.compile(r"(?:\|\s*|Completed \| )(\d+)/(\d+)\b")
_STALLED = re.compile(r"No available shared memory broadcast block found in (\d+) seconds")
_GENERATING = re.compile(r"generation throughput: (?!0\.0 )[\d.]+ tokens/s")

# A line that matches puts the rank into that stage; the last one counts.
_STAGES = tuple(
    (stage, re.compile(pattern))
    for stage, pattern in (
        (
            "starting",
            r"non-default args: |Resolved architecture|V1 LLM engine \(v|Launching vLLM \(v|[█▀▄] +version \d",
        ),
        (
            "waiting for the other rank",
            r"world_size=(?!1\b)\d+ rank=\d+ .*distributed_init_method=|waiting for Ray at |"
            r"Waiting for creating a placement group",
        ),
        ("joined the other rank", r"rank \d+ in world size \d+ is|vLLM is using nccl==|all-reduce backends"),
        (
            "loading weights",
            r"Starting to load model|Loading model from scratch|checkpoint shards: +\d+% Comp",
        ),
        ("loading the draft", r"Loading drafter model|draft model loaded"),
        ("profiling memory", r"Model loading took"),
        (
            "compiling",
            r"torch\.compile took|Dynamo bytecode|[Cc]ompil(?:ing|ed) (?:a|the|model|function|graph)|"
            r"for the compilation|AOT compiled|Warming up done|warmup run took|[Jj][Ii][Tt] (?:warmup|compil)",
        ),
        ("sizing the KV cache", r"Available KV cache memory|KV cache size: |GiB for KV cache"),
        ("capturing graphs", r"Capturing CUDA graphs|Profiling CUDA graph"),
        ("warmed up", r"Graph capturing finished|init engine \(profile"),
        ("starting the API", r"Starting vLLM server|Started server process"),
        ("serving", r"Application startup complete"),
        (
            "stopped",
            r"Application shutdown complete|\[shutdown\] |Finished server process|Parent process exited",
        ),
    )
)
_MEASURES = tuple(
    (name, convert, re.compile(pattern))
    for name, convert, pattern in (
        ("model_gib", float, r"Model loading took ([\d.]+) GiB(?: memory)? and"),
        (
            "kv_gib",
            float,
            r"Available KV cache memory: (-?[\d.]+) GiB|Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV",
        ),
        ("kv_tokens", int, r"KV cache size: ([\d,]+) tokens"),
        ("max_concurrency", float, r"Maximum concurrency for [\d,]+ tokens(?: per |/)request: ([\d.]+)x"),
        ("nccl", str, r"vLLM is using nccl==([\w.+-]+)"),
        ("rank", int, r"world_size=\d+ rank=(\d+) "),
    )
)
_LOADED_IN = re.compile(r"Model loading took .*?and ([\d.]+) seconds|Loading weights took ([\d.]+) seconds")
_DRAFT = re.compile(r"(?:draft|drafter) model loaded")
_GRAPHS = re.compile(r"Graph capturing finished in ([\d.]+) secs?, took ([\d.]+) GiB")


@dataclass(frozen=True)
class Fatal:
    """What killed the engine: the id of its finding, and the line that says so."""

    id: str
    line: str

    def finding(self) -> Finding:
        return finding(self.id, evidence=self.line)


@dataclass(frozen=True)
class EngineLog:
    """The newest start in a log. Sizes in GiB, times in seconds; None where the log does not say.

    stage: in words; reached: the same, but for a failed engine the stage that it failed in. progress: (done, of)
    within the stage. graphs: (seconds, GiB) of the captured CUDA graphs.
    stalled_s: seconds since which the rank reports to be waiting for another one; long compilation looks the same.
    """

    version: str | None = None
    rank: int | None = None
    stage: str = "not started"
    reached: str = "not started"
    progress: tuple[int, int] | None = None
    model_gib: float | None = None
    load_seconds: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    nccl: str | None = None
    draft_loaded: bool = False
    graphs: tuple[float, float] | None = None
    stalled_s: int = 0
    ready: bool = False
    fatal: Fatal | None = None

    def as_dict(self) -> dict[str, Any]:
        fatal = self.fatal.finding() if self.fatal else None
        return {
            **asdict(self),
            "progress": {"done": self.progress[0], "of": self.progress[1]} if self.progress else None,
            "graphs": {"seconds": self.graphs[0], "gib": self.graphs[1]} if self.graphs else None,
            "fatal": fatal
            and {"id": fatal.id, "line": fatal.evidence, "cause": fatal.summary, "remedy": fatal.remedy},
        }


class _Reader:
    """Takes in a log line by line."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.loads: dict[bool, float] = {}
        self.fatal: tuple[int, str] | None = None

    def take(self, line: str) -> None:
        if _BOOT.search(line) and (self.fatal or self.facts.get("stage") not in (None, "starting")):
            self.__init__()
        stage = next((name for name, pattern in reversed(_STAGES) if pattern.search(line)), None)
        if stage and not (stage == "stopped" and self.fatal):
            if stage != self.facts.get("stage"):
                self.facts["progress"] = None
            self.facts.update(stage=stage, stalled_s=0)
        self._measure(line)
        place = fatal_in(line)
        if place is not None and (self.fatal is None or place < self.fatal[0]):
            self.fatal = (place, line.strip()[:400])

    def _measure(self, line: str) -> None:
        for name, convert, pattern in _MEASURES:
            if match := pattern.search(line):
                self.facts[name] = convert(next(filter(None, match.groups())).replace(",", ""))
        if match := _VERSION.search(line):
            self.facts["version"] = match.group(1) or match.group(2)
        if match := _LOADED_IN.search(line):
            # The whole model counts, not its parts; of parts the first is the model's, later ones the draft's.
            whole = match.group(1) is not None
            seconds = float(match.group(1) or match.group(2))
            self.loads[whole] = (
                max(self.loads.get(whole, 0.0), seconds) if whole else self.loads.get(whole, seconds)
            )
        if _DRAFT.search(line):
            self.facts["draft_loaded"] = True
        if match := _GRAPHS.search(line):
            self.facts["graphs"] = (float(match.group(1)), float(match.group(2)))
        if (match := _PROGRESS.search(line)) and self.facts.get("stage") in (
            "loading weights",
            "capturing graphs",
        ):
            self.facts["progress"] = (int(match.group(1)), int(match.group(2)))
        if match := _STALLED.search(line):
            self.facts["stalled_s"] = self.facts.get("stalled_s", 0) + int(match.group(1))
        elif _GENERATING.search(line):
            self.facts["stalled_s"] = 0

    def log(self) -> EngineLog:
        facts = dict(self.facts)
        facts["reached"] = facts.get("stage", EngineLog.reached)
        if self.fatal:
            facts["stage"] = "failed"
            facts["fatal"] = Fatal(FATAL[self.fatal[0]][0], self.fatal[1])
        facts["load_seconds"] = self.loads.get(True, self.loads.get(False))
        return EngineLog(**facts, ready=facts.get("stage") == "serving")


def read_log(lines: Iterable[str]) -> EngineLog:
    """Read a log, whole or cut anywhere. A log of several starts is read from the newest on."""
    reader = _Reader()
    for line in lines:
        if not _REQUEST.search(line):
            reader.take(_ANSI.sub("", line))
    return reader.log()
