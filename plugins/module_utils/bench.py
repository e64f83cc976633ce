# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole bench: rows of draws against a served model, each judged, counted and kept."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import bench_draw, bench_prompts
from .bench_counters import Reading, read
from .bench_plan import Plan, Row, too_long
from .bench_store import Store
from .bench_summary import figures_of, row_of, worth_keeping
from .chat import Endpoint, ask
from .engine_metrics import EngineMetricsError, fetch
from .findings import Finding, finding, worst_first
from .http_exchange import HttpFailure, exchange
from .sized_prompts import Prompts

Say = Callable[[str], None]
_LOOK_TIMEOUT_S = 10.0
_LARGEST_LOOK = 2**20  # bytes of /v1/models and /version
_MEASURE_TOKENS = 1000  # the prompt that tells how long a token is
_DISTURBED_MORE = 3  # draws that others disturbed are asked again, so many in a row at most
_REFUSALS = 2


@dataclass(frozen=True)
class Bench:
    """What came of it. rows: as bench_summary.row_of tells them. ended: why not all was asked, None where it was."""

    rows: tuple[dict[str, Any], ...]
    draws: tuple[dict[str, Any], ...]
    server: dict[str, Any]
    ended: str | None
    findings: tuple[Finding, ...]


def run(
    endpoint: Endpoint,
    plan: Plan,
    store: Store,
    *,
    say: Say = lambda line: None,
    metrics_url: str | None = None,
    rng: random.Random | None = None,
) -> Bench:
    """Ask all rows that the store does not have yet. Raises for nothing that a server can do; BenchStoreError."""
    return _Bench(endpoint, plan, store, say, metrics_url or endpoint.url, rng).run()


class _Ended(Exception):
    """Nothing more can be asked; the text says why."""


class _Bench:
    def __init__(
        self,
        endpoint: Endpoint,
        plan: Plan,
        store: Store,
        say: Say,
        metrics_url: str,
        rng: random.Random | None,
    ):
        self.endpoint, self.plan, self.store, self.say = endpoint, plan, store, say
        self.metrics_url = metrics_url
        self.rng = rng or random.SystemRandom()
        self.prompts = Prompts(self.rng)
        self.deadline = time.monotonic() + plan.total_timeout_s
        self.draws: dict[str, list[dict[str, Any]]] = {row.name: [] for row in plan.rows}
        self.skipped: dict[str, str] = {}
        self.refused = 0  # rows in a row of which no request began

    def run(self) -> Bench:
        server = look(self.endpoint)
        self._take_over()
        ended = None
        try:
            self._measure()
            for row in self.plan.rows:
                if too_long(row, server["max_model_len"]):
                    limit = server["max_model_len"]
                    self.skipped[row.name] = f"not asked: the server takes {limit} tokens at most"
                    self.say(f"{row.name}: {self.skipped[row.name]}")
                else:
                    self._row(row)
        except _Ended as end:
            ended = str(end)
            self.say(f"ended: {ended}")
        self.store.finish(ended)
        rows = tuple(
            row_of(row, self.draws[row.name], self.skipped.get(row.name) or (ended and f"not asked: {ended}"))
            for row in self.plan.rows
        )
        draws = tuple(each for drawn in self.draws.values() for each in drawn)
        return Bench(rows, draws, server, ended, tuple(self._findings(rows, ended)))

    def _take_over(self) -> None:
        """The draws of a run that was cut off, but for those that a rerun may do better."""
        kept = [each for each in self.store.draws if each["row"] in self.draws and worth_keeping(each)]
        for each in kept:
            self.draws[each["row"]].append(each)
        if self.store.draws:
            self.say(f"goes on with {self.store.path}: {len(kept)} draws are there")

    def _measure(self) -> None:
        """How long a token is, before the first prompt that is to have a size."""
        if not any(row.prompt_tokens for row in self.plan.rows):
            return
        drawn = bench_prompts.Asked(
            self.prompts.draw(_MEASURE_TOKENS, "Say yes."), "Say yes."
        )  # one character in a token
        reply = ask(
            self.endpoint,
            drawn.prompt,
            thinking=False,
            max_tokens=1,
            timeout=self._left(self.plan.request_timeout_s),
        )
        if reply.prompt_tokens:
            self.prompts.measure(drawn.prompt, reply.prompt_tokens)
        elif not reply.reached:
            raise _Ended(reply.fault or "the endpoint does not answer")

    def _left(self, wanted_s: float) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise _Ended(f"the total time of {self.plan.total_timeout_s:g} s is over")
        return min(wanted_s, left)

    def _row(self, row: Row) -> None:
        drawn = self.draws[row.name]
        disturbed = 0
        while sum(each["void"] is None for each in drawn) < row.draws:
            if any(each["void"] and each["void"]["kind"] != "disturbed" for each in drawn):
                return  # the row is void, more draws do not mend it
            draw = self._draw(row, len(drawn) + 1)
            told = draw.as_dict()
            drawn.append(told)
            self.store.add(told)
            self.say(f"{row.name}, draw {draw.number} of {row.draws}: {in_words(row, told)}")
            self._still_there(draw)
            disturbed = disturbed + 1 if draw.void and draw.void.kind == "disturbed" else 0
            if disturbed > _DISTURBED_MORE:
                return

    def _draw(self, row: Row, number: int) -> bench_draw.Draw:
        asked = [bench_prompts.draw(row, self.prompts, self.rng) for _stream in range(row.concurrency)]
        draw = bench_draw.run(
            self.endpoint,
            row,
            number,
            asked,
            counters=self._counters,
            timeout_s=self._left(self.plan.request_timeout_s),
        )
        for each, stream in zip(asked, draw.streams, strict=True):
            if stream.prompt_tokens:
                self.prompts.measure(each.prompt, stream.prompt_tokens)
        return draw

    def _still_there(self, draw: bench_draw.Draw) -> None:
        """One row may ask what the server refuses; when the next one fails alike there is nobody to ask."""
        if not (draw.void and draw.void.kind == "failed" and draw.unreachable):
            self.refused = 0
            return
        self.refused += 1
        if self.refused >= _REFUSALS:
            raise _Ended(draw.void.reason)

    def _counters(self) -> Reading | str:
        try:
            page = fetch(self.metrics_url, verify=self.endpoint.verify, timeout=_LOOK_TIMEOUT_S)
        except EngineMetricsError as error:
            return str(error)
        return read(page)

    def _findings(self, rows: tuple[dict[str, Any], ...], ended: str | None) -> list[Finding]:
        found = [] if ended is None else [finding("bench.ended", why=ended, url=self.endpoint.url)]
        asked = [row for row in rows if row["name"] not in self.skipped and self.draws[row["name"]]]
        for row in asked:
            if row["void"]:
                found.append(finding("bench.row.void", evidence=row["void"], row=row["name"]))
            elif row["success_rate"] < 1:
                why = "; ".join(f"{count} times {fault}" for fault, count in row["failures"].items())
                share = f"{row['success_rate']:.0%}"
                found.append(finding("bench.row.failures", evidence=why, row=row["name"], share=share))
        return worst_first(found)


def in_words(row: Row, drawn: Mapping[str, Any]) -> str:
    """One draw as a line of progress."""
    if drawn["void"]:
        return f"void, {drawn['void']['reason']}"
    figures = figures_of(drawn)
    told = []
    if row.kind == "prefill":
        told.append(f"{figures['prompt_tokens']:.0f} tokens read in {figures['ttft_s']:.2f} s")
        told.append(f"{figures['prefill_tokens_per_s']:.0f} tokens/s")
    elif figures["tokens_per_s"] is not None:
        told.append(f"{figures['tokens_per_s']:.2f} tokens/s")
        told.append(f"first after {figures['ttft_s']:.2f} s")
    if figures["acceptance"] is not None and row.kind != "prefill":  # of some words it says nothing
        told.append(f"acceptance {figures['acceptance']:.1%}")
        told.append(f"mean accepted length {figures['mean_accepted_length']:.2f}")
    if drawn["succeeded"] < drawn["asked"]:
        told.append(f"{drawn['succeeded']} of {drawn['asked']} requests succeeded")
    return ", ".join(told)


def look(endpoint: Endpoint) -> dict[str, Any]:
    """{version, max_model_len} as the server tells them, None where it does not."""
    base = endpoint.chat_url.removesuffix("/chat/completions")
    models = _json(endpoint, f"{base}/models").get("data")
    served = (
        [each for each in models if isinstance(each, dict) and each.get("id") == endpoint.model]
        if isinstance(models, list)
        else []
    )
    limit = served[0].get("max_model_len") if served else None
    version = _json(endpoint, f"{base.removesuffix('/v1')}/version").get("version")
    return {
        "version": version if isinstance(version, str) else None,
        "max_model_len": limit if isinstance(limit, int) and limit > 0 else None,
    }


def _json(endpoint: Endpoint, url: str) -> dict[str, Any]:
    """The object at an address, empty where there is none."""
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    try:
        with exchange(
            "GET", url, timeout=_LOOK_TIMEOUT_S, headers=headers, verify=endpoint.verify
        ) as response:
            found = json.loads(response.read(_LARGEST_LOOK)) if response.status == 200 else {}
    except (HttpFailure, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
