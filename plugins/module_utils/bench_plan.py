# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bench asks: rows of draws, each row of one kind of work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

CONTENTS = ("code", "prose")
# The names that rows of one stream have in the profiles' references too.
SERIES = tuple(f"{content}, reasoning {state}" for content in CONTENTS for state in ("off", "on"))
DEFAULTS: dict[str, Any] = {
    "series": list(SERIES),
    "concurrency": [1, 2, 4, 8, 16],
    "prefill": [6000, 24000, 45000],
    "context": [4000, 8000, 16000, 32000, 65000, 131000],
    "draws": 5,
    "long_draws": 3,
    "max_tokens": 512,
    "concurrency_max_tokens": 256,
    "context_max_tokens": 320,
    # As the measured record of the published series has it (seed 000).
    "reasoning_effort": "low",
    "request_timeout_s": 900.0,
    "total_timeout_s": 7200.0,
}
PREFILL_MAX_TOKENS = 16  # a few words that can be read; only the time to the first counts
MOST_STREAMS = 256
_NAME = re.compile(r"(code|prose)(?:, reasoning (off|on))?")
_OWN = (
    "name",
    "content",
    "reasoning",
    "reasoning_effort",
    "concurrency",
    "prompt_tokens",
    "max_tokens",
    "ignore_eos",
    "draws",
)


@dataclass(frozen=True)
class Row:
    """One row of the bench: `draws` times `concurrency` streams at once.

    kind: series, concurrency, prefill or context. content: code or prose. prompt_tokens: about how long each prompt
    is, None for a short one. ignore_eos: each stream is max_tokens long, wherever the model would end.
    """

    name: str
    kind: str
    content: str
    reasoning: bool
    reasoning_effort: str | None
    concurrency: int
    prompt_tokens: int | None
    max_tokens: int
    ignore_eos: bool
    draws: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """rows in the order they are asked. Times in seconds, for one request and for everything."""

    rows: tuple[Row, ...]
    request_timeout_s: float
    total_timeout_s: float

    def as_dict(self) -> dict[str, Any]:
        """What makes two runs comparable; how patient they are is no part of it."""
        return {"rows": [row.as_dict() for row in self.rows]}


def plan_of(params: Mapping[str, Any]) -> Plan:
    """The plan of the module's options; what is missing or None has its default. ValueError with all that is wrong."""
    given = {name: DEFAULTS[name] if params.get(name) is None else params[name] for name in DEFAULTS}
    wrong = [
        f"{name} is {given[name]}, wanted more than 0"
        for name in DEFAULTS
        if isinstance(DEFAULTS[name], (int, float)) and not given[name] > 0
    ]
    for name in ("concurrency", "prefill", "context"):
        wrong += [f"{name} has {value}, wanted more than 0" for value in given[name] if value <= 0]
    wrong += [
        f"concurrency has {streams}, wanted {MOST_STREAMS} at most"
        for streams in given["concurrency"]
        if streams > MOST_STREAMS
    ]
    rows: list[Row] = []
    for number, own in enumerate(given["series"], 1):
        try:
            rows.append(_series(own, given))
        except ValueError as error:
            wrong.append(f"series {number}: {error}")
    rows += [_sweep(streams, given) for streams in given["concurrency"]]
    rows += [_prefill(tokens, given) for tokens in given["prefill"]]
    rows += [_context(tokens, given) for tokens in given["context"]]
    names = [row.name for row in rows]
    wrong += [f"two rows are called {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1]
    if not rows and not wrong:
        wrong.append("there is no row: series, concurrency, prefill and context are all empty")
    if wrong:
        raise ValueError("; ".join(wrong))
    return Plan(tuple(rows), float(given["request_timeout_s"]), float(given["total_timeout_s"]))


def _series(own: Any, given: Mapping[str, Any]) -> Row:
    """A row that the caller named ("code, reasoning off"; without a word on reasoning it is off) or described."""
    if isinstance(own, str):
        named = _NAME.fullmatch(own.strip())
        if named is None:
            raise ValueError(f"{own!r} is none of {', '.join(map(repr, SERIES))}, and no row of its own")
        own = {"content": named[1], "reasoning": named[2] == "on"}
    if not isinstance(own, Mapping):
        raise ValueError(f"{own!r} is neither a name nor a row")
    wrong = [f"nothing is called {name!r} (known: {', '.join(_OWN)})" for name in own if name not in _OWN]
    content, reasoning = own.get("content", "prose"), own.get("reasoning", False)
    if content not in CONTENTS:
        wrong.append(f"content is {content!r}, wanted {' or '.join(CONTENTS)}")
    wrong += [
        f"{name} is {own[name]!r}, wanted true or false"
        for name in ("reasoning", "ignore_eos")
        if not isinstance(own.get(name, False), bool)
    ]
    figures = {"concurrency": 1, "max_tokens": given["max_tokens"], "draws": given["draws"]}
    figures |= {name: own[name] for name in (*figures, "prompt_tokens") if own.get(name) is not None}
    for name, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            wrong.append(f"{name} is {value!r}, wanted a whole number above 0")
        elif name == "concurrency" and value > MOST_STREAMS:
            wrong.append(f"concurrency is {value}, wanted {MOST_STREAMS} at most")
    if wrong:
        raise ValueError(", ".join(wrong))
    return Row(
        name=str(own.get("name") or f"{content}, reasoning {'on' if reasoning else 'off'}"),
        kind="series",
        content=content,
        reasoning=reasoning,
        reasoning_effort=(own.get("reasoning_effort") or given["reasoning_effort"]) if reasoning else None,
        concurrency=figures["concurrency"],
        prompt_tokens=figures.get("prompt_tokens"),
        max_tokens=figures["max_tokens"],
        ignore_eos=own.get("ignore_eos", False),
        draws=figures["draws"],
    )


def _sweep(streams: int, given: Mapping[str, Any]) -> Row:
    name = f"{streams} stream{'' if streams == 1 else 's'}"
    return _plain(name, "concurrency", given["draws"], given["concurrency_max_tokens"], streams)


def _prefill(tokens: int, given: Mapping[str, Any]) -> Row:
    return _plain(
        f"prefill of {in_thousands(tokens)}",
        "prefill",
        given["long_draws"],
        PREFILL_MAX_TOKENS,
        prompt_tokens=tokens,
    )


def _context(tokens: int, given: Mapping[str, Any]) -> Row:
    return _plain(
        f"context of {in_thousands(tokens)}",
        "context",
        given["long_draws"],
        given["context_max_tokens"],
        prompt_tokens=tokens,
    )


def _plain(
    name: str, kind: str, draws: int, max_tokens: int, concurrency: int = 1, prompt_tokens: int | None = None
) -> Row:
    return Row(name, kind, "prose", False, None, concurrency, prompt_tokens, max_tokens, True, draws)


def in_thousands(tokens: int) -> str:
    """6000 -> 6K; what is no whole number of thousands stays as it is."""
    return f"{tokens // 1000}K" if tokens >= 1000 and tokens % 1000 == 0 else str(tokens)


def too_long(row: Row, max_model_len: int | None) -> bool:
    """Whether the row's prompt and answer would not fit; False where the server does not tell its limit."""
    return max_model_len is not None and (row.prompt_tokens or 0) + row.max_tokens > max_model_len


def only(plan: Plan, kinds: Sequence[str]) -> tuple[Row, ...]:
    return tuple(row for row in plan.rows if row.kind in kinds)
