# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of an OpenAI-compatible endpoint: one prompt, one streamed reply, in bounded time and memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

from .http_exchange import HttpFailure, exchange

_BLOCK = 65536
_BYTES_PER_TOKEN = 4096  # a streamed chunk of one token takes about 300 bytes


@dataclass(frozen=True)
class Endpoint:
    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    verify: bool = True

    @property
    def chat_url(self) -> str:
        base = self.url.rstrip("/")
        if base.endswith("/chat/completions"):
            return base
        return f"{base}/chat/completions" if base.endswith("/v1") else f"{base}/v1/chat/completions"


@dataclass(frozen=True)
class Pace:
    """When the text of a stream came, by time.monotonic(), and how much of it.

    first_tokens, last_tokens: generated up to the first and the last delta as the server counted them on the way;
    None where it was not asked to. deltas: pieces of text, of any number of tokens each.
    """

    began_at: float
    first_at: float
    last_at: float
    deltas: int
    first_tokens: int | None = None
    last_tokens: int | None = None

    def tokens_after_first(self, completion_tokens: int) -> float:
        """Tokens that came after the first delta and up to the last, of all that the answer has.

        Where the server did not count on the way, the deltas are taken to be alike.
        """
        if self.first_tokens is not None and self.last_tokens is not None:
            return float(self.last_tokens - self.first_tokens)
        return completion_tokens * (self.deltas - 1) / self.deltas

    def tokens_up_to_last(self, completion_tokens: int) -> float:
        """Tokens that came up to the last delta; all, where the server did not count on the way."""
        return float(completion_tokens if self.last_tokens is None else self.last_tokens)


@dataclass(frozen=True)
class Reply:
    """What came back. Times in seconds from the request on; tokens as the server counted them, or None.

    finish_reason: None if the generation was not seen to end. fault: why, in one sentence, else None.
    reached: a generation began; False: there is no such endpoint, it refused, or it never answered.
    pace: None where no text came.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    fault: str | None = None
    reached: bool = True
    pace: Pace | None = None


class _Fault(Exception):
    """The server broke the protocol."""


class _Collector:
    """Puts a reply together from the chunks of a stream."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.parts: dict[str, list[str]] = {"content": [], "reasoning": []}
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] = {}
        self.first: float | None = None
        self.last: float | None = None
        self.first_tokens: int | None = None
        self.last_tokens: int | None = None
        self.deltas = 0

    def add(self, data: str) -> None:
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _Fault(f"invalid JSON in the answer: {data[:80]!r}") from error
        if not isinstance(chunk, dict):
            raise _Fault(f"the answer is no JSON object: {data[:80]!r}")
        if chunk.get("error"):
            raise _Fault(f"the server reports: {_message(chunk)}")
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices") or []  # empty in the usage chunk
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise _Fault(f"choices are no list of objects: {data[:80]!r}")
        for choice in choices[:1]:
            self._take(choice.get("delta") or choice.get("message") or {})
            reason = choice.get("finish_reason")
            self.finish_reason = str(reason) if reason else self.finish_reason

    def _take(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            raise _Fault("a delta is no object")
        # Up to vLLM 0.15 reasoning was called reasoning_content; 0.12 to 0.15 send both.
        said = {
            "content": delta.get("content"),
            "reasoning": delta.get("reasoning") or delta.get("reasoning_content"),
        }
        came = {name: text for name, text in said.items() if isinstance(text, str) and text}
        if not came:
            return
        for name, text in came.items():
            self.parts[name].append(text)
        self.deltas += 1
        self.last, self.last_tokens = time.monotonic(), self._count("completion_tokens")
        if self.first is None:
            self.first, self.first_tokens = self.last, self.last_tokens

    def reply(self, fault: str | None = None, reached: bool = True) -> Reply:
        tokens = self._count("completion_tokens")
        span = self.last - self.first if self.first and self.last else 0.0
        return Reply(
            text="".join(self.parts["content"]),
            reasoning="".join(self.parts["reasoning"]),
            finish_reason=self.finish_reason,
            prompt_tokens=self._count("prompt_tokens"),
            completion_tokens=tokens,
            ttft_s=round(self.first - self.began, 4) if self.first else None,
            tokens_per_s=round((tokens - 1) / span, 2) if tokens and tokens > 1 and span > 0 else None,
            fault=fault,
            reached=reached,
            pace=self._pace(),
        )

    def _pace(self) -> Pace | None:
        if self.first is None or self.last is None:
            return None
        counted = (self.first_tokens, self.last_tokens)
        return Pace(self.began, self.first, self.last, self.deltas, *counted)

    def _count(self, name: str) -> int | None:
        count = self.usage.get(name) if isinstance(self.usage, dict) else None
        return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def _message(body: dict[str, Any]) -> str:
    """The message in vLLM's error bodies: {"error": {"message": …}}, {"error": "…"} or {"detail": …}."""
    error = body.get("error") or body.get("detail")
    return str(error.get("message", error) if isinstance(error, dict) else error)[:400]


def events_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """The data of each server-sent event. Comments (keep-alive) and other fields are passed over."""
    rest = b""
    data: list[str] = []
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r")
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif not text and data:
                yield "\n".join(data)
                data = []
    if rest.startswith(b"data:"):
        data.append(rest.decode("utf-8", "replace")[5:].strip())
    if data:
        yield "\n".join(data)


def _blocks(response: HTTPResponse, limit: int) -> Iterator[bytes]:
    total = 0
    while block := response.read1(_BLOCK):
        total += len(block)
        if total > limit:
            raise _Fault(f"the stream does not end: {limit} bytes and still going")
        yield block
    if response.length:
        raise _Fault("the stream was cut in the middle")


def _refusal(response: HTTPResponse) -> str:
    body = response.read1(_BLOCK)
    try:
        parsed = json.loads(body)
        said = _message(parsed) if isinstance(parsed, dict) else ""
    except ValueError:
        said = body[:200].decode("utf-8", "replace").strip()
    hint = {401: " (is api_key right?)", 403: " (is api_key right?)", 404: " (are url and model right?)"}
    return f"HTTP {response.status} {response.reason}{hint.get(response.status, '')}: {said}".rstrip(": .")


def _receive(response: HTTPResponse, limit: int, collector: _Collector) -> None:
    if response.status != 200:
        raise _Fault(_refusal(response))
    blocks = _blocks(response, limit)
    if response.headers.get_content_type() == "application/json":  # a server that does not stream
        collector.add(b"".join(blocks).decode("utf-8", "replace"))
        return
    nothing = True
    for data in events_of(blocks):
        nothing = False
        if data == "[DONE]":
            return
        collector.add(data)
    if nothing:
        raise _Fault("HTTP 200, but neither JSON nor an event stream: this is no OpenAI endpoint")


def ask(
    endpoint: Endpoint,
    prompt: str,
    *,
    thinking: bool,
    max_tokens: int,
    timeout: float,
    ignore_eos: bool = False,
    reasoning_effort: str | None = None,
    count_on_the_way: bool = False,
) -> Reply:
    """Ask once, greedily. Raises for nothing that a server can do; `timeout` is for the whole exchange.

    ignore_eos: generate max_tokens, wherever the model would end (vLLM's own field). reasoning_effort: how hard it is
    to think, for the chat template. count_on_the_way: usage with each chunk (vLLM's own field), which Pace needs to be
    exact.
    """
    effort = {"reasoning_effort": reasoning_effort} if reasoning_effort else {}
    body = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {
            "include_usage": True,
            **({"continuous_usage_stats": True} if count_on_the_way else {}),
        },
        # The default changed from off to on between vLLM 0.27 and 0.28: always said.
        "chat_template_kwargs": {"thinking": thinking, **effort},
        **({"ignore_eos": True} if ignore_eos else {}),
    }
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    collector = _Collector()
    answered = False
    try:
        with exchange(
            "POST",
            endpoint.chat_url,
            timeout=timeout,
            body=json.dumps(body).encode(),
            headers=headers,
            verify=endpoint.verify,
        ) as response:
            answered = response.status == 200
            _receive(response, _BLOCK + max_tokens * _BYTES_PER_TOKEN, collector)
    except (HttpFailure, _Fault) as fault:
        if collector.finish_reason is None:
            began = collector.first is not None or (answered and getattr(fault, "timed_out", False))
            return collector.reply(str(fault), reached=began)
    if collector.finish_reason is None:
        return collector.reply(
            "the stream was cut before the generation ended", reached=collector.first is not None
        )
    return collector.reply()
