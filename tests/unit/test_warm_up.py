# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The warm-up against a server that works as an engine does: fast, slow, stalled, failing, or lying."""

from __future__ import annotations

import functools
import json
import threading
import time

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils import cli, warm_up_command
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.signs_of_life import Signs, signs_of
from ansible_collections.tandem.spark.plugins.module_utils.warm_up import warm_up
from ansible_collections.tandem.spark.plugins.module_utils.warm_up_plan import plan_of

SIZES = {
    "ramp_tokens": [60, 120, 240],
    "burst": {"streams": 4, "prompt_tokens": 60, "max_tokens": 30},
    "long": {"streams": 3, "prompt_tokens": 300, "max_tokens": 8},
    "sustained": {"max_tokens": 90},
    "stall_s": 30,
    "total_timeout_s": 60,
}
IMPATIENT = {"stall_s": 1}
CHARACTERS_PER_TOKEN = 4.2
TOLERANCE_S = 10  # a loaded machine, not the warm-up


class Engine:
    """Answers as vLLM does. `hold(request, stop)` may keep a request, return another answer, or do nothing."""

    def __init__(self, hold=lambda _request, _stop: None):
        self.hold = hold
        self.lock = threading.Lock()
        self.generated = 0
        self.looks = 0
        self.open = 0
        self.most_open: dict[int, int] = {}  # by max_tokens, which tells the phases apart

    def __call__(self, request, stop):
        if not request:
            with self.lock:
                self.looks += 1
            return self.metrics()
        wanted = request["max_tokens"]
        with self.lock:
            self.open += 1
            self.most_open[wanted] = max(self.open, self.most_open.get(wanted, 0))
        try:
            other = self.hold(request, stop)
        finally:
            with self.lock:
                self.open -= 1
        return self.answer(request, wanted) if other is None else other

    def metrics(self):
        text = f"vllm:generation_tokens_total {self.generated}\nvllm:prompt_tokens_total 0\n"
        return s.response(text.encode(), kind="text/plain")

    def answer(self, request, tokens):
        with self.lock:
            self.generated += tokens
        usage = {"prompt_tokens": prompt_tokens(request), "completion_tokens": tokens}
        events = (
            s.chunk(content="stone " * tokens),
            s.end("length"),
            {"choices": [], "usage": usage},
            "[DONE]",
        )
        return s.response(b"".join(map(s.event, events)))


def prompt_tokens(request):
    return 9 + round(len(request["messages"][0]["content"]) / CHARACTERS_PER_TOKEN)


def warmed(engine, look=None, look_timeout=None, **sizes):
    """Warm `engine` up -> (what came of it, the lines said, the chat requests).

    look_timeout: how long a look at the counters may take, where a starved machine must not pass for a stall.
    """
    said = []
    plan = plan_of({**SIZES, **sizes})
    with s.ChatServer(engine) as server:
        if look_timeout:
            look = functools.partial(signs_of, server.url, timeout=look_timeout)
        began = time.monotonic()
        done = warm_up(Endpoint(server.url, "lab"), plan, say=said.append, look=look)
        assert time.monotonic() - began < plan.total_timeout_s + TOLERANCE_S
        return done, said, [request for request in server.requests if request]


def test_a_whole_warm_up():
    engine = Engine()
    done, said, requests = warmed(engine)
    assert done.ok and done.trouble is None and done.findings == ()
    assert [(phase["name"], phase["requests"], phase["tokens"]) for phase in done.phases] == [
        ("ramp", 4, 61),
        ("burst", 4, 120),
        ("long", 3, 24),
        ("sustained", 1, 90),
    ]
    assert engine.generated == 61 + 120 + 24 + 90
    assert all(phase["seconds"] >= 0 for phase in done.phases)
    assert "burst: done, 4 requests" in "\n".join(said)
    assert "sustained" in said[-1] and "90 generated tokens" in said[-1]
    for request in requests:
        assert (request["temperature"], request["ignore_eos"]) == (0, True)
        assert request["chat_template_kwargs"] == {"thinking": False}
    beginnings = {request["messages"][0]["content"][:30] for request in requests}
    assert len(beginnings) == len(requests) == 12


def test_sizes_are_those_of_the_plan_as_the_server_counts():
    done, _, requests = warmed(
        Engine(), ramp_tokens=[100, 400, 1600], long={**SIZES["long"], "prompt_tokens": 3000}
    )
    counted = [size for phase in done.phases for size in phase["prompt_tokens"]]
    assert sorted(counted) == sorted(map(prompt_tokens, requests))
    assert done.phases[0]["prompt_tokens"][1:] == pytest.approx([100, 400, 1600], rel=0.25)
    assert done.phases[2]["prompt_tokens"] == pytest.approx([3000] * 3, rel=0.05)


def test_bursts_are_at_the_same_time_and_the_ramp_is_not():
    together = {30: threading.Barrier(4, timeout=30), 8: threading.Barrier(3, timeout=30)}

    def hold(request, _stop):
        if request["max_tokens"] in together:
            together[request["max_tokens"]].wait()

    engine = Engine(hold)
    done, _, _ = warmed(engine)
    assert done.ok
    assert engine.most_open == {1: 1, 20: 1, 30: 4, 8: 3, 90: 1}


def refused(status, message):
    return s.response(json.dumps({"error": {"message": message}}).encode(), status, "application/json")


@pytest.mark.parametrize(
    ("max_tokens", "answer", "phase", "said"),
    [
        (1, refused("404 Not Found", "The model `lab` does not exist."), "ramp", "are url and model right?"),
        (1, refused("401 Unauthorized", "Unauthorized"), "ramp", "is api_key right?"),
        (
            20,
            refused("400 Bad Request", "maximum context length is 4096"),
            "ramp",
            "maximum context length is 4096",
        ),
        (
            30,
            refused("500 Internal Server Error", "EngineCore encountered an issue."),
            "burst",
            "EngineCore encountered",
        ),
        (8, b"", "long", "RemoteDisconnected"),
        (
            90,
            s.until_closed(s.event(s.chunk(content="stone"))),
            "sustained",
            "cut before the generation ended",
        ),
        (90, s.response(s.event(s.end()) + s.event("[DONE]")), "sustained", "no `usage`"),
        (90, s.response(b"<html>", kind="text/html"), "sustained", "no OpenAI endpoint"),
    ],
)
def test_a_request_that_fails_ends_it_and_says_why(max_tokens, answer, phase, said):
    done, lines, _ = warmed(
        Engine(lambda request, _stop: answer if request["max_tokens"] == max_tokens else None)
    )
    assert not done.ok
    assert (done.trouble.id, done.phases[-1]["name"]) == ("engine.warmup.failed", phase)
    assert f"phase {phase}" in done.trouble.summary and said in done.trouble.evidence
    assert said in lines[-1]


def test_nobody_there():
    done = warm_up(Endpoint("http://127.0.0.1:9", "lab"), plan_of(SIZES))
    assert (done.trouble.id, done.trouble.evidence) == (
        "engine.warmup.failed",
        "connection refused: nothing listens there",
    )
    assert done.phases[0]["requests"] == 0


class Kept(Engine):
    """Keeps the first `number` requests of a phase for ever; at work, however slow the machine, until it has them."""

    def __init__(self, max_tokens, number=1):
        super().__init__(self.keep)
        self.max_tokens, self.left = max_tokens, number
        self.worked = 0

    def keep(self, request, stop):
        if request["max_tokens"] == self.max_tokens and self.left:
            self.left -= 1
            stop.wait()

    def metrics(self):
        self.worked += self.left > 0
        text = f"vllm:generation_tokens_total {self.worked}\nvllm:prompt_tokens_total 0\n"
        return s.response(text.encode(), kind="text/plain")


@pytest.mark.parametrize(
    ("max_tokens", "number", "phase", "answered"),
    [
        (1, 1, "ramp", "0 of 1"),
        (8, 3, "long", "0 of 3"),
        (8, 1, "long", "2 of 3"),
        (90, 1, "sustained", "0 of 1"),
    ],
)
def test_a_stall_ends_it_and_names_the_phase(max_tokens, number, phase, answered):
    done, lines, _ = warmed(Kept(max_tokens, number), **IMPATIENT)
    assert (done.trouble.id, done.ok) == ("engine.warmup.stalled", False)
    assert f"for 1 s nothing moved in its phase {phase}" in done.trouble.summary
    assert f"{answered} requests answered; the engine has counted 0 prompt and" in done.trouble.evidence
    assert "stalled" in lines[-1]
    assert done.phases[-1] == {**done.phases[-1], "name": phase, "requests": int(answered[0])}


def kept_until(event):
    """Keeps the requests of the phase long until then."""

    def hold(request, _stop):
        if request["max_tokens"] == SIZES["long"]["max_tokens"]:
            event.wait(30)

    return hold


def test_moving_counters_are_no_stall():
    done_looking = threading.Event()

    class Working(Engine):
        def metrics(self):
            self.generated += 1
            if self.looks >= 12:  # far longer than stall_s
                done_looking.set()
            return super().metrics()

    engine = Working(kept_until(done_looking))
    done, _, _ = warmed(engine, look_timeout=30, **IMPATIENT)
    assert done.ok and engine.looks >= 12


def test_a_compiler_at_work_is_no_stall():
    looks = []
    done_looking = threading.Event()

    def look():
        looks.append(1)
        if len(looks) >= 12:
            done_looking.set()
        return Signs(None, {len(looks): "nvcc"}, "no counters")

    engine = Engine(kept_until(done_looking))
    assert warmed(engine, look=look, **IMPATIENT)[0].ok


@pytest.mark.parametrize(
    "metrics",
    [
        lambda looks: s.response(b"", "404 Not Found"),
        lambda looks: s.response(b"<html>"),
        lambda looks: b"",
        lambda looks: s.response(b"vllm:generation_tokens_total 5\n" if looks % 2 else b"<html>"),
    ],
)
def test_counters_that_cannot_be_read_are_no_sign_of_life(metrics):
    engine = Kept(90)
    engine.metrics = lambda: metrics(engine.looks)
    done, _, _ = warmed(engine, **IMPATIENT)
    assert done.trouble.id == "engine.warmup.stalled"


def test_metrics_that_hang_do_not_hold_it_up():
    stop_looking = threading.Event()
    engine = Kept(90)
    engine.metrics = lambda: stop_looking.wait(30) and b""
    done, _, _ = warmed(engine, **IMPATIENT)
    stop_looking.set()
    assert done.trouble.id == "engine.warmup.stalled"
    assert "/metrics cannot be read: not finished within 1 s" in done.trouble.evidence


def test_the_total_timeout_ends_an_engine_that_only_works():
    class Busy(Engine):
        def metrics(self):
            self.generated += 1
            return super().metrics()

    busy = Busy(lambda _request, stop: stop.wait() and None)
    done, _, _ = warmed(busy, look_timeout=30, **IMPATIENT, total_timeout_s=3)
    assert done.trouble.id == "engine.warmup.timeout"
    assert done.trouble.summary == "The warm-up was not over after 3 s: it was in its phase ramp"


def test_a_decode_that_ends_early_is_told():
    engine = Engine()
    engine.hold = lambda request, _stop: engine.answer(request, 2) if request["max_tokens"] == 90 else None
    done, _, _ = warmed(engine)
    assert done.ok
    assert [found.id for found in done.findings] == ["engine.warmup.short"]
    assert "after 2 of 90 tokens" in done.findings[0].summary


@pytest.fixture
def command(tmp_path, capsys):
    """Run `tandem warmup` on a plan -> (exit code, stdout, stderr)."""

    def run(plan, *words):
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(plan))
        code = cli.main(["warmup", "--plan", str(file), "--release", str(tmp_path / "none"), *words])
        return code, *capsys.readouterr()

    return run


def node_plan(port, **changes):
    return {
        "rank": 0,
        "hosts": ["spark-a", "spark-b"],
        "api": {"host": "0.0.0.0", "port": port, "model": "lab"},
        "warm_up": SIZES,
        **changes,
    }


def test_the_command_asks_this_node_and_prints_what_it_does(command, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret\n")
    with s.ChatServer(Engine()) as server:
        code, out, err = command(node_plan(int(server.url.rpartition(":")[2])), "--api-key-file", str(key))
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("ramp: ")
    assert out.splitlines()[-1].startswith("warm: 295 tokens in ")
    assert b"Authorization: Bearer secret" in server.headers[0]
    assert server.requests[0]["model"] == "lab"


def test_the_command_prints_live(monkeypatch, tmp_path):
    printed = []
    monkeypatch.setattr("builtins.print", lambda *words, flush=False: printed.append(flush))
    with s.ChatServer(Engine()) as server:
        words = ["warmup", "--url", server.url, "--model", "lab", "--plan", str(tmp_path / "plan.json")]
        (tmp_path / "plan.json").write_text(json.dumps({"warm_up": SIZES}))
        assert cli.main(words) == 0
    assert all(printed[:-1])


@pytest.mark.parametrize(
    ("plan", "words", "said"),
    [
        (node_plan(9), [], "connection refused: nothing listens there\ntandem warmup: Look at the engine"),
        (node_plan(9, rank=1), [], "This node is rank 1, which has no API. Run it on spark-a"),
        (node_plan(9, api={}), [], "names no API"),
        (node_plan(9, warm_up={"ramp": 1}), [], "warm_up of the plan: ramp is unknown"),
        (node_plan(9), ["--api-key-file", "/nowhere/key"], "/nowhere/key cannot be read"),
        ([], [], "holds no plan"),
    ],
)
def test_the_command_says_what_is_wrong(command, plan, words, said):
    code, _, err = command(plan, *words)
    assert code == 1
    assert said in err
    assert err.startswith("tandem warmup: ")


def test_the_command_is_one_of_the_agents():
    assert cli.COMMANDS[warm_up_command.NAME] == "warm_up_command"
