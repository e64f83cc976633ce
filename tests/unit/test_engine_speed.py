# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed is counted by the server's own usage, acceptance by its counters, and nonsense has none."""

from __future__ import annotations

import random
import threading

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import engine_speed
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.engine_speed import Wish
from chat_server import ChatServer, chunk, end, event, response, says, until_closed

SANE = (
    "An old clock stood above the harbor, and nobody knew who had wound it. One evening a girl climbed the tower and "
    "found a letter behind its face, written by her grandmother before the great flood had come."
)
COUNTING = " ".join(f"{number}." for number in range(1, 120))


class Engine:
    """An engine that counts what it generates. extra: tokens that others ask for with each answer."""

    def __init__(self, text=SANE, speculates=True, extra=0, started="1e9"):
        self.text, self.speculates, self.extra, self.started = text, speculates, extra, started
        self.drafts = self.generated = 0
        self.lock = threading.Lock()

    def __call__(self, request, _stop):
        if not request:
            return self.page()
        with self.lock:
            self.drafts += 2
            self.generated += 6 + self.extra
        if self.text is None:
            return response(b'{"error": "no"}', "500 Internal Server Error", "application/json")
        return self.streamed()

    def streamed(self):
        yield until_closed()
        for word in (*(chunk(content=f"{each} ") for each in self.text.split(" ")), end("length")):
            yield event(word)
        yield event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 6}})
        yield event("[DONE]")

    def page(self):
        lines = [
            f"vllm:generation_tokens_total {self.generated}",
            f"process_start_time_seconds {self.started}",
        ]
        if self.speculates:
            lines += [
                f"vllm:spec_decode_num_drafts_total {self.drafts}",
                f"vllm:spec_decode_num_draft_tokens_total {self.drafts * 5}",
                f"vllm:spec_decode_num_accepted_tokens_total {self.drafts * 2}",
            ]
        return response(("\n".join(lines) + "\n").encode(), kind="text/plain; version=0.0.4")


def measured(engine, streams=(1, 3), draws=2, said=None):
    with ChatServer(engine) as server:
        wish = Wish(streams, draws, 64, 10.0, 60.0)
        say = (lambda line: None) if said is None else said.append
        rng = random.Random(1)
        return engine_speed.measure(Endpoint(server.url, "m"), wish, say=say, rng=rng), server.requests


def test_what_is_measured_of_each_setting():
    said = []
    speed, requests = measured(Engine(), said=said)
    assert speed.conclusion.outcome == "proven"
    assert [(each["streams"], each["requests"], each["tokens"]) for each in speed.points] == [
        (1, 2, 12),
        (3, 6, 36),
    ]
    for each in speed.points:
        assert each["tokens_per_s"] == pytest.approx(each["tokens"] / each["seconds"], rel=0.5)
        assert each["acceptance"] == 0.4 and each["mean_accepted_length"] == 3.0
        assert each["stream_tokens_per_s"] > 0 and each["ttft_s"] > 0 and each["disturbed"] is False
        assert each["steps_per_s"] == pytest.approx(each["stream_tokens_per_s"] / 3, rel=0.01)
    prompts = [request["messages"][0]["content"] for request in requests if request]
    assert len(set(prompts)) == 8  # no prefix cache answers
    assert all(request["max_tokens"] == 64 and request["temperature"] == 0 for request in requests if request)
    assert len(said) == 2 and "3 at once: " in said[1] and "acceptance 40.0%; proven" in said[1]


def test_nonsense_has_no_speed_and_ends_it():
    speed, _requests = measured(Engine(COUNTING))
    assert speed.conclusion.outcome == "rejected" and len(speed.points) == 1
    assert speed.points[0]["verdict"] == "degenerate"
    assert [found.id for found in speed.findings] == ["generation.degenerate"]


def test_many_at_once_that_fall_apart_are_told_the_ways_out():
    engine = Engine()
    plain = engine.streamed

    def streamed():
        engine.text = SANE if engine.drafts <= 4 else COUNTING
        return plain()

    engine.streamed = streamed
    speed, _requests = measured(engine, (1, 8), 2)
    assert len(speed.points) == 2 and speed.conclusion.outcome == "rejected"
    assert "the known ways out are eager mode and max_num_seqs 2" in speed.conclusion.reason


def test_an_engine_that_answers_nothing_is_unproven():
    speed, _requests = measured(Engine(text=None))
    assert speed.conclusion.outcome == "unproven"
    assert (speed.points[0]["tokens"], speed.points[0]["tokens_per_s"]) == (0, None)


def test_what_others_ask_meanwhile_is_noticed():
    speed, _requests = measured(Engine(extra=3), (2,))
    assert speed.points[0]["disturbed"] is True


def test_without_speculation_there_is_no_acceptance():
    speed, _requests = measured(Engine(speculates=False), (1,))
    assert speed.points[0]["acceptance"] is None and speed.points[0]["steps_per_s"] is None
    assert speed.points[0]["tokens_per_s"] > 0


def test_without_counters_nothing_is_made_up():
    def answer(request, _stop):
        return says(SANE) if request else response(b"<html>", "404 Not Found", "text/html")

    speed, _requests = measured(answer, (1,))
    figures = speed.points[0]
    assert figures["acceptance"] is None and figures["disturbed"] is None and figures["tokens"] == 12


def test_every_bad_number_is_told_at_once():
    with pytest.raises(ValueError) as error:
        engine_speed.measure(Endpoint("http://x", "m"), Wish([0, -1], 0, 0, 0, -1.0))
    assert str(error.value).count("wanted") == 6
    with pytest.raises(ValueError, match="streams is empty"):
        engine_speed.measure(Endpoint("http://x", "m"), Wish([], 1, 1, 1, 1))
