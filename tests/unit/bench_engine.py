# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine for chat_server that speculates: answers of several tokens a chunk, and counters that fit them."""

from __future__ import annotations

import random
import threading

import chat_server as s

K = 5
CHARACTERS_PER_TOKEN = 4.2
WORDS = "stone river lamp garden and the of a then slowly under over light door wind field dark warm".split()


def sane_text(tokens: int, seed: int) -> str:
    """Words that neither count nor repeat; one token each."""
    drawn = random.Random(seed)
    return " ".join(f"{drawn.choice(WORDS)}{drawn.choice('abcdefghij')}" for _token in range(tokens))


class BenchEngine:
    """Answers all that it is asked and counts as vLLM does, with `accepted` of K drafted tokens in each step.

    hold(request, number): another answer for the request of that number from 0 on, or None. page(text): what becomes
    of the page of counters.
    """

    def __init__(
        self, accepted=3, hold=lambda _request, _number: None, page=lambda text: text, field="content"
    ):
        self.accepted, self.hold, self.page, self.field = accepted, hold, page, field
        self.lock = threading.Lock()
        self.requests = 0
        self.prompt = self.generated = self.drafts = self.cached = self.looks = 0
        self.started = 1000.0
        self.text = sane_text
        self.usage_on_the_way = True

    def __call__(self, request, stop):
        if not request:
            with self.lock:
                self.looks += 1
                text = self.page(self.metrics())
            return s.response(text.encode(), kind="text/plain") if isinstance(text, str) else text
        with self.lock:
            number, self.requests = self.requests, self.requests + 1
        other = self.hold(request, number)
        return self.answer(request, number) if other is None else other

    def metrics(self):
        accepted = self.drafts * self.accepted
        places = [self.drafts if place < self.accepted else 0 for place in range(K)]
        lines = [
            f"process_start_time_seconds {self.started}",
            f'vllm:prompt_tokens_total{{engine="0"}} {self.prompt}.0',
            f'vllm:generation_tokens_total{{engine="0"}} {self.generated}.0',
            f'vllm:prefix_cache_hits_total{{engine="0"}} {self.cached}.0',
            'vllm:num_preemptions_total{engine="0"} 0.0',
            f'vllm:spec_decode_num_drafts_total{{engine="0"}} {self.drafts}.0',
            f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {self.drafts * K}.0',
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}.0',
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{place}"}} {count}.0'
                for place, count in enumerate(places)
            ),
        ]
        return "\n".join(lines) + "\n"

    def answer(self, request, number):
        tokens, size = request["max_tokens"], self.accepted + 1
        asked = prompt_tokens(request)
        with self.lock:
            self.prompt += asked
            self.generated += tokens
            self.drafts += -(-max(0, tokens - 1) // size)
        words = self.text(tokens, number).split(" ")
        pieces = [words[:1], *(words[at : at + size] for at in range(1, len(words), size))]
        events, done = [], 0
        for piece in pieces:
            done += len(piece)
            event = s.chunk(**{self.field: " ".join(piece) + " "})
            if self.usage_on_the_way and request["stream_options"].get("continuous_usage_stats"):
                event["usage"] = {"prompt_tokens": asked, "completion_tokens": done}
            events.append(event)
        usage = {"prompt_tokens": asked, "completion_tokens": tokens}
        events += [s.end("length"), {"choices": [], "usage": usage}, "[DONE]"]
        return s.response(b"".join(map(s.event, events)))


def prompt_tokens(request):
    return 9 + round(len(request["messages"][0]["content"]) / CHARACTERS_PER_TOKEN)
