# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem probe` against servers that answer rightly, wrongly, senselessly, not to the end, or not at all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils import cli
from ansible_collections.tandem.spark.plugins.module_utils.arithmetic import product_asked

COLLECTIONS = Path(__file__).parents[2] / "collections"
LIBRARY = "ansible_collections.tandem.spark.plugins.module_utils"


def prompt_of(request):
    return request["messages"][0]["content"]


def right(request, _stop):
    return s.says(f"The answer is {product_asked(prompt_of(request))}.")


def wrong(request, _stop):
    return s.says(f"The answer is {int(product_asked(prompt_of(request))) + 11}.")


def counting(_request, _stop):
    return s.says("".join(f"{number}. " for number in range(1, 60)), reason="length")


def only_thoughts(_request, _stop):
    return s.says("", reasoning="Let me think about it", reason="length")


def no_model(_request, _stop):
    body = json.dumps({"error": {"message": "The model does not exist."}}).encode()
    return s.response(body, status="404 Not Found", kind="application/json")


@pytest.fixture
def probe(tmp_path, capsys):
    """Run `tandem probe` on a head whose release listens at a server -> (exit code, stdout, stderr)."""

    def run(url, *words, plan=None, serving=None):
        port = int(url.rpartition(":")[2])
        told = {"rank": 0, "hosts": ["spark-a", "spark-b"], "api": {"port": 9, "model": "planned"}}
        (tmp_path / "plan.json").write_text(json.dumps({**told, **(plan or {})}))
        asked = {"port": port, "model": "lab", "proof": {"operands": [10, 99]}, **(serving or {})}
        (tmp_path / "manifest.json").write_text(json.dumps({"serving": asked}))
        where = ["--plan", str(tmp_path / "plan.json"), "--release", str(tmp_path)]
        return cli.main(["probe", *where, *words]), *capsys.readouterr()

    return run


def test_a_right_answer(probe):
    with s.ChatServer(right) as server:
        code, out, err = probe(server.url)
    assert (code, err) == (0, "")
    asked, answered, verdict, took, whole = out.splitlines()
    assert asked.startswith("asked     ") and asked.endswith("(thinking off)")
    assert product_asked(asked) in answered and "verdict   correct: " in verdict
    assert "6 tokens, the first after" in took and "1 of 1 correct" in whole
    (request,) = server.requests
    assert request["model"] == "lab" and request["max_tokens"] == 64 and request["temperature"] == 0
    assert request["chat_template_kwargs"] == {"thinking": False}


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (wrong, "wrong", "1 of 1 generations are wrong"),
        (counting, "degenerate", "Do not serve this release"),
        (only_thoughts, "inconclusive", "ended before an answer"),
        (no_model, "unreachable", "are url and model right?"),
    ],
)
def test_the_verdict_is_named_with_its_reason(probe, answer, verdict, words):
    with s.ChatServer(answer) as server:
        code, out, err = probe(server.url)
    assert code == 1 and f"verdict   {verdict}: " in out
    assert err.startswith(f"tandem probe: {verdict}: ") and words in err and "Traceback" not in err


def test_an_engine_that_is_down_is_unreachable(probe):
    code, _, err = probe("http://127.0.0.1:9")
    assert code == 1 and err.startswith("tandem probe: unreachable: ") and "connection refused" in err


def test_an_engine_that_says_nothing_in_time_is_not_waited_for(probe):
    with s.ChatServer(s.silent) as server:
        code, out, err = probe(server.url, "--timeout", "0.3")
    assert code == 1 and "not finished within 0.3 s" in out and err.startswith("tandem probe: ")


def test_several_at_once_are_all_judged(probe):
    def one_is_wrong(request, stop):
        return (wrong if len(server.requests) == 2 else right)(request, stop)

    with s.ChatServer(one_is_wrong) as server:
        code, out, err = probe(server.url, "--concurrency", "4", "--thinking")
    prompts = {prompt_of(request) for request in server.requests}
    assert code == 1 and len(prompts) == 4 and "3 of 4 correct" in out
    assert err.startswith("tandem probe: wrong: 1 of 4")
    assert all(request["chat_template_kwargs"] == {"thinking": True} for request in server.requests)
    assert all(request["max_tokens"] == 2048 for request in server.requests)


def test_a_worker_says_where_to_ask(probe):
    code, out, err = probe("http://127.0.0.1:9", plan={"rank": 1})
    assert (code, out) == (1, "")
    assert err == (
        "tandem probe: This node is rank 1, which has no API. Run it on spark-a, the head, or give --url.\n"
    )


def test_another_endpoint_can_be_named(tmp_path, capsys):
    key = tmp_path / "key"
    key.write_text("secret\n")
    with s.ChatServer(right) as server:
        words = ["--url", server.url, "--model", "other", "--api-key-file", str(key)]
        assert cli.main(["probe", "--plan", "/nowhere", "--release", "/nowhere", *words]) == 0
    assert server.requests[0]["model"] == "other"
    assert b"Authorization: Bearer secret" in server.headers[0]
    assert "secret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "serving", "said"),
    [
        (["--concurrency", "0"], {}, "concurrency is 0, wanted more than 0"),
        (["--timeout", "-1"], {}, "request_timeout is -1.0, wanted more than 0"),
        ([], {"proof": {"operands": [99, 10]}}, "operands are [99, 10]"),
        ([], {"proof": {"operands": ["a", "b"]}}, "This cannot be asked"),
        ([], {"proof": {"operands": [10, 11]}}, None),
        (["--concurrency", "9"], {"proof": {"operands": [10, 11]}}, "too few different products"),
    ],
)
def test_what_cannot_be_asked(probe, words, serving, said):
    with s.ChatServer(right) as server:
        code, _, err = probe(server.url, *words, serving=serving)
    assert (code == 0) == (said is None) and (said or "") in err and "Traceback" not in err


@pytest.mark.parametrize("plan", [[], {"api": 7}, {"api": {}}])
def test_a_plan_that_names_nothing(tmp_path, capsys, plan):
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    where = ["--plan", str(tmp_path / "plan.json"), "--release", str(tmp_path / "none")]
    assert cli.main(["probe", *where]) == 1
    assert capsys.readouterr().err.startswith("tandem probe: ")


def test_ctrl_c_ends_it_at_once_and_without_a_trace():
    program = f"import sys; from {LIBRARY}.cli import main; sys.exit(main())"
    with s.ChatServer(s.silent) as server:
        running = subprocess.Popen(
            [sys.executable, "-c", program, "probe", "--url", server.url, "--model", "lab"],
            env={"PYTHONPATH": str(COLLECTIONS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A background job of a shell is started with the signal ignored, and so would its children be.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        while not server.requests and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "tandem probe: interrupted\n")
