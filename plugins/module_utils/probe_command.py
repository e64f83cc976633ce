# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem probe`: ask this group's model one short question, read the answer and judge it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from . import own_endpoint
from .fabric_command import read_plan
from .fabric_env import FabricEnvError
from .generation import Patience, check, findings_of
from .judge import worst_of
from .questions import Question, questions_of

NAME = "probe"
HELP = "ask the model a question that was never asked before, and judge the answer"

OPERANDS = (10, 99)
REQUEST_TIMEOUT_S = 120.0
# What the proof allows: an answer is a few words, thoughts are long.
MAX_TOKENS, MAX_TOKENS_THINKING = 64, 2048
_SHOWN = 200  # characters of an answer


class ProbeError(Exception):
    """The verdict and its reason, or why nothing could be asked."""


ERRORS = (ProbeError, own_endpoint.EndpointError, FabricEnvError)


def configure(parser: argparse.ArgumentParser) -> None:
    own_endpoint.configure(parser)
    parser.add_argument("--thinking", action="store_true", help="let the model think first")
    parser.add_argument(
        "--concurrency",
        type=int,
        default=1,
        metavar="N",
        help="questions at the same time, each another one (%(default)s)",
    )
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="longest time for an answer (the profile's)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 only where every answer was read and is right; a ProbeError names the worst verdict otherwise."""
    plan = {} if arguments.url and arguments.model else read_plan(arguments.plan)
    endpoint = own_endpoint.endpoint(plan, arguments)
    questions, patience = _asked(own_endpoint.serving(arguments.release).get("proof"), arguments)
    began = time.monotonic()
    cases = check(endpoint, questions, concurrency=arguments.concurrency, patience=patience, ask_again=False)
    seconds = time.monotonic() - began
    for case in cases:
        print("\n".join(_lines(case)), flush=True)
    right = sum(case["verdict"] == "correct" for case in cases)
    print(f"in all    {right} of {len(cases)} correct, {seconds:.1f} s, {_tokens(cases)}", flush=True)
    worst = worst_of([case["verdict"] for case in cases])
    if worst != "correct":
        raise ProbeError(_reason(worst, cases, endpoint.url))
    return 0


def _asked(profile: Any, arguments: argparse.Namespace) -> tuple[list[Question], Patience]:
    """Fresh products of the operands for which the profile knows its checkpoint to be right."""
    proof: Mapping[str, Any] = profile if isinstance(profile, Mapping) else {}
    timeout = arguments.timeout or proof.get("request_timeout_s") or REQUEST_TIMEOUT_S
    params = {
        "suite": "arithmetic",
        "cases": None,
        "operands": proof.get("operands") or OPERANDS,
        "questions": arguments.concurrency,
        "concurrency": arguments.concurrency,
        "thinking": [arguments.thinking],
        "max_tokens": MAX_TOKENS,
        "max_tokens_thinking": MAX_TOKENS_THINKING,
        "request_timeout": timeout,
        "total_timeout": None,
    }
    try:
        # All are asked at once, so each has its own time; the total only ends what hangs in between.
        return questions_of(params), Patience(float(timeout), float(timeout) + 5)
    except (TypeError, ValueError) as error:
        raise ProbeError(f"This cannot be asked: {error}") from error


def _lines(case: Mapping[str, Any]) -> list[str]:
    said = " ".join((case["text"] or case["reasoning"]).split())
    if len(said) > _SHOWN:
        said = f"{said[:_SHOWN]}…"
    first = f", the first after {case['ttft_s']:.2f} s" if case["ttft_s"] is not None else ""
    rate = f", {case['tokens_per_s']:g} tokens/s" if case["tokens_per_s"] is not None else ""
    return [
        f"asked     {case['prompt']} (thinking {'on' if case['thinking'] else 'off'})",
        f"answered  {said or 'nothing'}",
        f"verdict   {case['verdict']}: {case['why']}",
        *(f"glitch    {glitch}" for glitch in case["glitches"]),
        f"took      {_tokens([case])}{first}{rate}",
    ]


def _tokens(cases: list[dict[str, Any]]) -> str:
    counts = [case["completion_tokens"] for case in cases]
    return "tokens unknown" if None in counts else f"{sum(counts)} tokens"


def _reason(worst: str, cases: list[dict[str, Any]], url: str) -> str:
    """The worst verdict first, then everything else that was found, each with what to do."""
    found = findings_of(cases, url)
    found.sort(key=lambda each: each.id != f"generation.{worst}")
    said = [f"{each.summary} ({each.evidence}). {each.remedy}." for each in found if each.severity != "info"]
    return "\n".join([f"{worst}: {said[0]}", *said[1:]])
