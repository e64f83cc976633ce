# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that serves tokens at a known rate and remembers when it sent them.

usage: rate_server.py TOKENS_PER_S TOKENS_PER_CHUNK FIRST_AFTER_S. It prints its port. The first chunk of a stream holds
one token, as after a prefill. `GET /truth` gives what was sent: [[first_at, last_at, tokens after the first], …].
"""

from __future__ import annotations

import asyncio
import json
import random
import sys

RATE, SIZE, FIRST_AFTER_S = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
WORDS = "stone river lamp garden and the of a then slowly under over light door wind field dark warm".split()
sent: list[tuple[float, float, int]] = []
generated = 0


def event(data) -> bytes:
    return b"data: " + (data if isinstance(data, str) else json.dumps(data)).encode() + b"\n\n"


def delta(text: str, counted: dict | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return event({"choices": [choice], **({"usage": counted} if counted else {})})


async def generate(request: dict, writer: asyncio.StreamWriter) -> None:
    global generated
    tokens = request["max_tokens"]
    on_the_way = request["stream_options"].get("continuous_usage_stats")
    loop = asyncio.get_running_loop()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    await asyncio.sleep(FIRST_AFTER_S)
    begun = loop.time()
    done, first_at, last_at = 0, begun, begun
    while done < tokens:
        size = min(SIZE, tokens - done) if done else 1
        done += size
        # To a timetable, so that a step that came late does not delay the next.
        await asyncio.sleep(max(0.0, begun + (done - 1) / RATE - loop.time()))
        text = "".join(f"{random.choice(WORDS)}{random.choice('abcdefgh')} " for _token in range(size))
        usage = {"prompt_tokens": 20, "completion_tokens": done}
        writer.write(delta(text, usage if on_the_way else None))
        await writer.drain()
        last_at = loop.time()
        first_at = last_at if done == size else first_at
    generated += tokens
    sent.append((first_at, last_at, tokens - 1))
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": tokens}}
    writer.write(event(end) + event(usage) + event("[DONE]"))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    if head.startswith("POST"):
        length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
        await generate(json.loads(await reader.readexactly(length)), writer)
    else:
        page = f"vllm:generation_tokens_total {generated}\n"
        body = json.dumps(sent) if "/truth" in head else page
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
