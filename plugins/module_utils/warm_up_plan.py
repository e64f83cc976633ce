# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a warm-up asks: the sizes of its four phases, and how long it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What a pair of Sparks with DeepSeek-V4-Flash was warmed with by its owner.
DEFAULTS: dict[str, Any] = {
    "ramp_tokens": [500, 1500, 3000, 6000, 12000],
    "burst": {"streams": 4, "prompt_tokens": 100, "max_tokens": 150},
    "long": {"streams": 3, "prompt_tokens": 3000, "max_tokens": 40},
    "sustained": {"max_tokens": 700},
    "stall_s": 600,
    "total_timeout_s": 3600,
}
RAMP_ANSWER_TOKENS = 20
SHORT_PROMPT_TOKENS = 100
_MOST_STREAMS = 256
_MOST_TOKENS = 2_000_000  # twice the longest context of the models served here
_LONGEST_S = 86_400

CONTINUE = "Go on with these words, one after the other, without an end."
EXPLAIN = "Write a detailed explanation of how a B-tree stays balanced during insertion. Do not stop early."


@dataclass(frozen=True)
class Ask:
    """One request: about how many tokens its prompt has, and exactly how many are generated."""

    prompt_tokens: int
    max_tokens: int
    task: str = CONTINUE


@dataclass(frozen=True)
class Phase:
    """Batches one after the other; the requests of a batch run at the same time."""

    name: str
    batches: tuple[tuple[Ask, ...], ...]


@dataclass(frozen=True)
class Plan:
    """stall_s: seconds without any sign of life that end the warm-up; total_timeout_s: for all phases together."""

    phases: tuple[Phase, ...]
    stall_s: float
    total_timeout_s: float


def _merged(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {**default, **given.get(name, {})} if isinstance(default, Mapping) else given.get(name, default)
        for name, default in DEFAULTS.items()
    }


def _unknown(given: Mapping[str, Any]) -> list[str]:
    wrong = [f"{name} is unknown" for name in given if name not in DEFAULTS]
    for name, default in DEFAULTS.items():
        if not isinstance(default, Mapping) or name not in given:
            continue
        if isinstance(given[name], Mapping):
            wrong += [f"{name}.{key} is unknown" for key in given[name] if key not in default]
        else:
            wrong.append(f"{name} is {given[name]!r}, wanted a map")
    return wrong


def _numbers(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Every number of a merged plan, by the words that name it."""
    numbers = {name: plan[name] for name in ("stall_s", "total_timeout_s")}
    for name, default in DEFAULTS.items():
        if isinstance(default, Mapping):
            numbers |= {f"{name}.{key}": value for key, value in plan[name].items()}
    sizes = plan["ramp_tokens"] if isinstance(plan["ramp_tokens"], (list, tuple)) else [plan["ramp_tokens"]]
    return numbers | {f"ramp_tokens[{place}]": size for place, size in enumerate(sizes)}


def _largest(name: str) -> int:
    if name.endswith("_s"):
        return _LONGEST_S
    return _MOST_STREAMS if name.endswith("streams") else _MOST_TOKENS


def _fits(name: str, value: Any) -> bool:
    kinds = (int, float) if name.endswith("_s") else (int,)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 < value <= _largest(name)


def problems(given: Any, context: object = None) -> list[str]:
    """What is wrong with a plan, all of it.

    context: the longest prompt and answer together that the engine takes, if it is a number: vLLM takes "auto" too.
    """
    if not isinstance(given, Mapping):
        return [f"the plan is {given!r}, wanted a map"]
    wrong = _unknown(given)
    if wrong:
        return wrong
    plan = _merged(given)
    wrong = [
        f"{name} is {value!r}, wanted a number above 0, at most {_largest(name)}"
        for name, value in _numbers(plan).items()
        if not _fits(name, value)
    ]
    if not isinstance(plan["ramp_tokens"], (list, tuple)) or not plan["ramp_tokens"]:
        wrong.append(f"ramp_tokens is {plan['ramp_tokens']!r}, wanted a list of sizes")
    if wrong:
        return wrong
    for phase in _phases(plan):
        largest = max(ask.prompt_tokens + ask.max_tokens for batch in phase.batches for ask in batch)
        if isinstance(context, int) and 0 < context < largest:
            wrong.append(
                f"{phase.name} needs {largest} tokens, wanted at most the {context} of max-model-len"
            )
    return wrong


def plan_of(given: Mapping[str, Any]) -> Plan:
    """The plan with defaults for what is not given; ValueError with every problem at once."""
    wrong = problems(given)
    if wrong:
        raise ValueError("; ".join(wrong))
    plan = _merged(given)
    return Plan(_phases(plan), plan["stall_s"], plan["total_timeout_s"])


def _phases(plan: Mapping[str, Any]) -> tuple[Phase, ...]:
    measure = Ask(SHORT_PROMPT_TOKENS, 1)  # how long a token is; the prompts after it are cut to size by that
    ramp = [measure, *(Ask(size, RAMP_ANSWER_TOKENS) for size in plan["ramp_tokens"])]
    together = {
        name: (Ask(plan[name]["prompt_tokens"], plan[name]["max_tokens"]),) * plan[name]["streams"]
        for name in ("burst", "long")
    }
    sustained = Ask(SHORT_PROMPT_TOKENS, plan["sustained"]["max_tokens"], EXPLAIN)
    return (
        Phase("ramp", tuple((ask,) for ask in ramp)),
        *(Phase(name, (batch,)) for name, batch in together.items()),
        Phase("sustained", ((sustained,),)),
    )
