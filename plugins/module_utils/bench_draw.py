# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One draw of a bench: some streams at once, what they took, what the engine counted, and whether it may be used.

Rates are of decoding alone: the tokens after the first delta, over the time from the first delta of any stream to the
last one of all. Tokens are the server's own count, however many of them a chunk holds.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .bench_counters import Counted, Reading, between
from .bench_plan import Row
from .bench_prompts import Asked
from .chat import Endpoint, Reply, ask
from .judge import Judgement, judge

_LONGEST_TEXT = 4000  # characters kept of a text
_SETTLE_S = 3.0  # the counters follow the last token of a stream within some steps
_LOOK_EVERY_S = 0.05
_LATE_S = 5.0  # a thread that outlives its request by this is given up
# Probes of a guard add some tokens; more is somebody else's work, and slows ours down.
_MOST_FOREIGN = 0.05
_MOST_CACHED = 0.05
_SPARE_TOKENS = 32  # one short question of a guard: a line of text, a block or two of the cache
# What a rerun may do better; the other reasons say something about the engine.
AGAIN = ("failed", "reset", "unknown", "disturbed")


@dataclass(frozen=True)
class Void:
    """Why a draw does not count. kind: failed, reset, unknown, disturbed, degenerate, idle_draft or cached."""

    kind: str
    reason: str


@dataclass(frozen=True)
class Stream:
    """One request of a draw; tokens as the server counted them, times in seconds."""

    prompt_tokens: int | None
    completion_tokens: int | None
    ttft_s: float | None
    tokens_per_s: float | None
    finish_reason: str | None
    verdict: str
    why: str
    fault: str | None
    reached: bool
    text: str
    reasoning: str

    @property
    def succeeded(self) -> bool:
        return self.fault is None


@dataclass(frozen=True)
class Draw:
    """One draw of a row. tokens_per_s: of all streams together. void: None where it counts.

    seconds: from the first request to the last delta. client_cpu: share of one core that this process took.
    """

    row: str
    number: int
    at: str
    seconds: float
    tokens_per_s: float | None
    streams: tuple[Stream, ...]
    counted: Counted | None
    void: Void | None
    client_cpu: float

    @property
    def succeeded(self) -> int:
        return sum(stream.succeeded for stream in self.streams)

    @property
    def unreachable(self) -> bool:
        return not any(stream.reached for stream in self.streams)

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "streams": [asdict(stream) for stream in self.streams],
            "asked": len(self.streams),
            "succeeded": self.succeeded,
        }


CounterReader = Callable[[], "Reading | str"]


def run(
    endpoint: Endpoint,
    row: Row,
    number: int,
    asked: Sequence[Asked],
    *,
    counters: CounterReader,
    timeout_s: float,
) -> Draw:
    """Ask all prompts at once and judge every text. Raises for nothing that a server can do.

    counters: reads them, or says why they cannot be read.
    """
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    before = counters()
    began, busy = time.monotonic(), time.process_time()
    replies = _ask_together(endpoint, row, [each.prompt for each in asked], timeout_s)
    ended = max((reply.pace.last_at for reply in replies if reply.pace), default=time.monotonic())
    cpu = (time.process_time() - busy) / max(1e-6, time.monotonic() - began)
    after = _settled(counters, before, sum(reply.completion_tokens or 0 for reply in replies))
    streams = tuple(_stream(each, reply) for each, reply in zip(asked, replies, strict=True))
    counted = None
    if isinstance(before, Reading) and isinstance(after, Reading):
        counted = between(before, after, endpoint.url)
    return Draw(
        row=row.name,
        number=number,
        at=at,
        seconds=round(ended - began, 4),
        tokens_per_s=_rate([reply for reply in replies if _fault(reply) is None]),
        streams=streams,
        counted=counted,
        void=_void(streams, before, after, counted),
        client_cpu=round(cpu, 4),
    )


def _ask_together(endpoint: Endpoint, row: Row, prompts: Sequence[str], timeout_s: float) -> list[Reply]:
    replies: list[Reply | None] = [None] * len(prompts)
    gate = threading.Barrier(len(prompts))

    def work(place: int) -> None:
        gate.wait()
        replies[place] = ask(
            endpoint,
            prompts[place],
            thinking=row.reasoning,
            reasoning_effort=row.reasoning_effort,
            max_tokens=row.max_tokens,
            timeout=timeout_s,
            ignore_eos=row.ignore_eos,
            count_on_the_way=True,
        )

    # Daemons, because a name look-up cannot be cut short and must not hold up the end of the process.
    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(prompts))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + timeout_s + _LATE_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = Reply(fault=f"not answered within {timeout_s:g} s", reached=False)
    return [reply or late for reply in replies]


def _settled(counters: CounterReader, before: Reading | str, tokens: int) -> Reading | str:
    """The counters once they hold what the answers hold, or as they are after some seconds."""
    until = time.monotonic() + _SETTLE_S
    while True:
        after = counters()
        if not isinstance(before, Reading) or time.monotonic() >= until:
            return after
        if isinstance(after, Reading):
            now, then = after.speculation.generation_tokens, before.speculation.generation_tokens
            if now is None or then is None or now < then or now - then >= tokens:
                return after
        time.sleep(_LOOK_EVERY_S)


def _fault(reply: Reply) -> str | None:
    """Why an answer is no success: it failed, or what it has cannot be counted."""
    if reply.fault:
        return reply.fault
    if reply.completion_tokens is None or reply.prompt_tokens is None:
        return "the answer has no `usage`, so its tokens cannot be counted"
    if reply.finish_reason in ("abort", "error"):
        return f"the engine ended it: finish_reason {reply.finish_reason}"
    if reply.pace is None:
        return f"no text came, finish_reason {reply.finish_reason}"
    return None


def _stream(asked: Asked, reply: Reply) -> Stream:
    fault = _fault(reply)
    judged = judge(asked.task, None, "open", reply.text, reply.reasoning, reply.finish_reason)
    if fault:
        judged = Judgement("inconclusive" if reply.reached else "unreachable", fault)
    return Stream(
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        ttft_s=reply.ttft_s,
        tokens_per_s=_rate([reply]) if fault is None else None,
        finish_reason=reply.finish_reason,
        verdict=judged.verdict,
        why=judged.why,
        fault=fault,
        reached=reply.reached,
        text=reply.text[:_LONGEST_TEXT],
        reasoning=reply.reasoning[:_LONGEST_TEXT],
    )


def _rate(replies: Sequence[Reply]) -> float | None:
    """Tokens per second of all replies together; None where nothing came after the first delta.

    The delta that a window begins with was generated before it: the first of every stream that came within one step
    of the very first. The first delta of a stream that had to wait was generated within the window.
    """
    paces = [(reply.pace, reply.completion_tokens) for reply in replies]
    if not paces:
        return None
    begin = min(pace.first_at for pace, _reply in paces)
    span = max(pace.last_at for pace, _reply in paces) - begin
    steps = [(pace.last_at - pace.first_at) / (pace.deltas - 1) for pace, _reply in paces if pace.deltas > 1]
    step = statistics.median(steps) if steps else 0.0
    tokens = sum(
        pace.tokens_after_first(total) if pace.first_at <= begin + step else pace.tokens_up_to_last(total)
        for pace, total in paces
    )
    return round(tokens / span, 4) if span > 0 and tokens > 0 else None


def _void(
    streams: Sequence[Stream], before: Reading | str, after: Reading | str, counted: Counted | None
) -> Void | None:
    """Why the draw does not count; what says most about the engine comes first."""
    failed = [stream for stream in streams if not stream.succeeded]
    unsound = [stream for stream in streams if stream.verdict in ("degenerate", "wrong")]
    if unsound:
        return Void("degenerate", f"{len(unsound)} of {len(streams)} texts are degenerate: {unsound[0].why}")
    if len(failed) == len(streams):
        every = "the request" if len(streams) == 1 else f"all {len(streams)} requests"
        return Void("failed", f"{every} failed: {failed[0].fault}")
    for when, reading in (("before", before), ("after", after)):
        if isinstance(reading, str):
            return Void("unknown", f"the counters {when} it could not be read: {reading}")
        if reading.broken:
            return Void("unknown", f"{', '.join(reading.broken)} {when} it is no number")
    if counted is None or counted.reset:
        return Void("reset", "the engine was started anew in between: its counters began again")
    return _void_counted(streams, bool(failed), counted)


def _void_counted(streams: Sequence[Stream], some_failed: bool, counted: Counted) -> Void | None:
    generated = counted.speculation["generation_tokens"]
    ours = sum(stream.completion_tokens or 0 for stream in streams)
    prompts = sum(stream.prompt_tokens or 0 for stream in streams)
    if generated is None:
        return Void("unknown", "the page of the counters has no generated tokens: is it that of this engine?")
    if generated < ours:
        return Void("unknown", f"{ours} tokens came and the engine counted {generated}")
    # A request that broke off generated tokens that it could not tell of.
    if not some_failed and generated > ours * (1 + _MOST_FOREIGN) + _SPARE_TOKENS:
        return Void("disturbed", f"{generated - ours} of {generated} generated tokens were for others")
    if counted.cached_tokens and counted.cached_tokens > max(_MOST_CACHED * prompts, _SPARE_TOKENS):
        return Void(
            "cached", f"{counted.cached_tokens} of {prompts} prompt tokens came from the prefix cache"
        )
    drafts, accepted = counted.speculation["drafts"], counted.speculation["accepted_tokens"]
    if drafts and not accepted:
        return Void("idle_draft", f"no token of {drafts} drafts was accepted")
    return None
