# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evaluation by lm-eval, the well-kept harness: its command line, and what its results say."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LAST_WORDS = 20  # lines
_SAY_EVERY_S = 20.0


class EvaluationError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Evaluation:
    """What is asked. limit: questions of each task, 0 for all. include: a folder with tasks of one's own."""

    program: str
    url: str
    model: str
    tasks: tuple[str, ...]
    limit: int
    concurrency: int
    thinking: bool
    max_tokens: int
    timeout_s: float
    folder: Path
    include: str | None = None
    api_key: str | None = field(default=None, repr=False)


def command(asked: Evaluation, output: Path) -> list[str]:
    """The command line of lm-eval 0.4; the key is not in it."""
    base = asked.url.rstrip("/")
    base = base if base.endswith("/v1") else f"{base}/v1"
    model = {
        "model": asked.model,
        "base_url": f"{base}/chat/completions",
        "num_concurrent": asked.concurrency,
        "max_retries": 2,
        "tokenized_requests": False,
        "timeout": int(asked.timeout_s),
    }
    generation = {
        "temperature": 0,
        "max_gen_toks": asked.max_tokens,
        # The default changed between releases of vLLM: always said.
        "chat_template_kwargs": {"thinking": asked.thinking},
    }
    words = [asked.program, "run", "--model", "local-chat-completions", "--model_args", json.dumps(model)]
    words += ["--tasks", *asked.tasks, "--gen_kwargs", json.dumps(generation), "--apply_chat_template"]
    words += ["--output_path", str(output), "--log_samples"]
    words += ["--limit", str(asked.limit)] if asked.limit else []
    words += ["--include_path", asked.include] if asked.include else []
    return words


def environment(asked: Evaluation) -> dict[str, str]:
    """What lm-eval finds in its surroundings: caches below its folder, and the key."""
    return {
        **os.environ,
        "HF_HOME": str(asked.folder / "cache"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "OPENAI_API_KEY": asked.api_key or "none",
        "PYTHONUNBUFFERED": "1",
    }


def run(asked: Evaluation, say: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """{results, version, seconds, file}: as lm-eval wrote them. EvaluationError with its last words where it failed."""
    output = asked.folder / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    output.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    words = command(asked, output)
    try:
        process = subprocess.Popen(
            words,
            env=environment(asked),
            cwd=output,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise EvaluationError(
            f"{asked.program} cannot be run: {error.strerror}. Run evaluate.yml again."
        ) from error
    expired = threading.Event()

    def end() -> None:
        expired.set()
        os.killpg(process.pid, signal.SIGKILL)

    limit = threading.Timer(asked.timeout_s, end)
    limit.daemon = True
    limit.start()
    last = _follow(process, say)
    code = process.wait()
    limit.cancel()
    if expired.is_set():
        raise EvaluationError(
            f"lm-eval did not end within {asked.timeout_s:g} s. Ask fewer questions (tandem_evaluate_limit) or give it "
            f"more time (tandem_evaluate_timeout_s). Its last words:\n{last}"
        )
    if code:
        raise EvaluationError(f"lm-eval ended with {code}. Its last words:\n{last}")
    files = sorted(output.rglob("results_*.json"))
    if not files:
        raise EvaluationError(
            f"lm-eval ended well and left no results below {output}. Its last words:\n{last}"
        )
    results, version = read(files[-1])
    seconds = round(time.monotonic() - began, 1)
    return {"results": results, "version": version, "seconds": seconds, "file": str(files[-1])}


def _follow(process: subprocess.Popen[bytes], say: Callable[[str], None]) -> str:
    """Says a line of progress now and then; returns the last ones."""
    last: deque[str] = deque(maxlen=_LAST_WORDS)
    said = 0.0
    with process.stdout as stream:
        rest = b""
        while block := os.read(stream.fileno(), 65536):
            *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            for line in (line.decode("utf-8", "replace").strip() for line in lines):
                if not line:
                    continue
                last.append(line)
                if time.monotonic() - said >= _SAY_EVERY_S:
                    said = time.monotonic()
                    say(line[:200])
    last.append(rest.decode("utf-8", "replace").strip())
    return "\n".join(line for line in last if line)


def read(path: Path) -> tuple[list[dict[str, Any]], str | None]:
    """([{task, figure, value, error, questions}], version of lm-eval) of a results file; EvaluationError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EvaluationError(f"The results {path} cannot be read: {error}") from error
    results = found.get("results") if isinstance(found, Mapping) else None
    if not isinstance(results, Mapping) or not results:
        raise EvaluationError(f"The results {path} have no task.")
    counts, version = _map(found.get("n-samples")), found.get("lm_eval_version")
    lines = [
        line for task, told in results.items() for line in _lines(task, _map(told), _map(counts.get(task)))
    ]
    if not lines:
        raise EvaluationError(f"The results {path} have no figure.")
    return lines, version if isinstance(version, str) else None


def _lines(task: str, told: Mapping[str, Any], counts: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """A line for each figure; names are `metric,filter`, errors `metric_stderr,filter`."""
    lines = []
    for name, value in told.items():
        metric, comma, kept = name.partition(",")
        if not comma or metric.endswith("_stderr") or not _finite(value):
            continue
        error = told.get(f"{metric}_stderr,{kept}")
        lines.append(
            {
                "task": task,
                "figure": name,
                "value": float(value),
                "error": float(error) if _finite(error) else None,
                "questions": counts["effective"] if _finite(counts.get("effective")) else None,
            }
        )
    return lines


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
