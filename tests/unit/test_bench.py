# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench against a server that works as an engine does: what it asks, counts, and does not believe."""

from __future__ import annotations

import json
import random

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils import bench, bench_prompts, bench_store
from ansible_collections.tandem.spark.plugins.module_utils.bench_plan import plan_of
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint, Pace
from ansible_collections.tandem.spark.plugins.module_utils.judge import judge
from ansible_collections.tandem.spark.plugins.module_utils.sized_prompts import Prompts
from bench_engine import BenchEngine

NOTHING = {"series": [], "concurrency": [], "prefill": [], "context": []}
ONE = {**NOTHING, "series": ["prose, reasoning off"], "draws": 2, "max_tokens": 60, "request_timeout_s": 20}


def benched(engine, folder=None, metrics_url=None, stack=None, **options):
    """-> (what came of it, the lines said, the chat requests)."""
    plan = plan_of({**ONE, **options})
    said = []
    store = bench_store.open_store(folder and str(folder), stack or {}, plan.as_dict(), resume=True)
    with s.ChatServer(engine) as server:
        done = bench.run(Endpoint(server.url, "lab"), plan, store, say=said.append, metrics_url=metrics_url)
        return done, said, [request for request in server.requests if request]


def test_a_row_is_ranges_over_its_draws():
    engine = BenchEngine(accepted=3)
    done, said, requests = benched(engine)
    (row,) = done.rows
    assert (row["void"], row["draws_counted"], row["success_rate"], row["k"]) == (None, 2, 1.0, 5)
    assert done.ended is None and done.findings == ()
    figures = row["figures"]
    assert figures["completion_tokens"] == {"low": 60, "median": 60, "high": 60}
    assert figures["mean_accepted_length"]["median"] == 4.0 and figures["acceptance"]["median"] == 0.6
    assert row["per_position"] == [1, 1, 1, 0, 0]
    for drawn in done.draws:
        assert drawn["counted"]["speculation"]["generation_tokens"] == 60
        assert drawn["streams"][0]["verdict"] == "correct"
    first = done.draws[0]
    steps = first["tokens_per_s"] / 4
    assert bench.figures_of(first)["verify_steps_per_s"] == pytest.approx(steps)
    assert bench.figures_of(first)["ceiling_tokens_per_s"] == pytest.approx(steps * 6)
    assert "draw 2 of 2" in said[-1] and "mean accepted length 4.00" in said[-1]
    for request in requests:
        assert request["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        assert request["chat_template_kwargs"] == {"thinking": False} and "ignore_eos" not in request


def test_what_each_kind_of_row_asks():
    done, _, requests = benched(
        BenchEngine(),
        series=["code, reasoning on", {"content": "prose", "max_tokens": 7, "ignore_eos": True, "draws": 1}],
        concurrency=[1, 3],
        prefill=[600],
        context=[900],
        draws=1,
        long_draws=2,
        max_tokens=61,
        concurrency_max_tokens=30,
        context_max_tokens=40,
    )
    assert [row["void"] for row in done.rows] == [None] * 6
    thinks = [request for request in requests if request["chat_template_kwargs"]["thinking"]]
    assert [request["max_tokens"] for request in thinks] == [61]
    assert thinks[0]["chat_template_kwargs"]["reasoning_effort"] == "low" and "Python" in asked(thinks[0])
    fixed = [request["max_tokens"] for request in requests if request.get("ignore_eos")]
    assert sorted(fixed) == [7, 16, 16, 30, 30, 30, 30, 40, 40]
    beginnings = [asked(request)[:24] for request in requests]
    assert len(set(beginnings)) == len(beginnings)
    rows = {row["name"]: row for row in done.rows}
    assert rows["prefill of 600"]["figures"]["prompt_tokens"]["median"] == pytest.approx(600, rel=0.05)
    assert rows["context of 900"]["figures"]["prompt_tokens"]["median"] == pytest.approx(900, rel=0.05)
    assert rows["3 streams"]["figures"]["verify_steps_per_s"] is None  # of several streams it says nothing


def asked(request):
    return request["messages"][0]["content"]


def test_a_row_longer_than_the_server_takes_is_not_asked():
    class Told(BenchEngine):
        def __call__(self, request, stop):
            if request:
                return super().__call__(request, stop)
            body = {"data": [{"id": "lab", "max_model_len": 1000}], "version": "0.33.0"}
            return s.response(json.dumps(body).encode(), kind="application/json")

    done, _, requests = benched(Told(), series=[], context=[4000])
    assert done.server == {"version": "0.33.0", "max_model_len": 1000}
    assert done.rows[0]["void"] == "not asked: the server takes 1000 tokens at most"
    assert len(requests) == 1 and done.findings == ()  # but for the one that measures a token


@pytest.mark.parametrize("field", ["content", "reasoning", "reasoning_content"])
def test_the_first_delta_of_either_field_ends_the_time_to_it(field):
    done, _, _ = benched(BenchEngine(field=field), draws=1)
    stream = done.draws[0]["streams"][0]
    assert stream["ttft_s"] > 0 and stream["completion_tokens"] == 60
    assert done.draws[0]["tokens_per_s"] > 0


@pytest.mark.parametrize(
    ("pace", "completion_tokens", "after_first"),
    [
        (Pace(0, 1, 2, 60), 60, 59),  # one token a delta
        (Pace(0, 1, 2, 12), 60, 55),  # five
        (Pace(0, 1, 2, 1), 60, 0),  # all at once
        (Pace(0, 1, 2, 13, first_tokens=1, last_tokens=60), 61, 59),  # as counted, and an end without text
    ],
)
def test_tokens_after_the_first_delta(pace, completion_tokens, after_first):
    assert pace.tokens_after_first(completion_tokens) == after_first


def without(name):
    return lambda text: "".join(line + "\n" for line in text.splitlines() if name not in line)


def with_nan(name):
    return lambda text: "".join(
        (line.rpartition(" ")[0] + " NaN" if name in line else line) + "\n" for line in text.splitlines()
    )


def not_found(_text):
    return s.response(b'{"detail":"Not Found"}', "404 Not Found", "application/json")


class Restarted(BenchEngine):
    """Started anew while the first request runs."""

    def answer(self, request, number):
        self.generated = self.prompt = self.drafts = 0
        self.started += 60
        return super().answer(request, number)


class Backwards(BenchEngine):
    """The same, where the page does not tell when the process began, and the counters are below those of before."""

    def __init__(self):
        super().__init__(page=without("process_start"))
        self.generated = self.prompt = self.drafts = 5000

    def answer(self, request, number):
        self.generated = self.prompt = self.drafts = 0
        return super().answer(request, number)


class Cached(BenchEngine):
    def answer(self, request, number):
        self.cached += 96
        return super().answer(request, number)


class Lying(BenchEngine):
    """Tells of more tokens than it counts."""

    def answer(self, request, number):
        told = super().answer(request, number)
        self.generated -= 20
        return told


def counting(tokens, _seed):
    return " ".join(f"{number}." for number in range(1, tokens + 1))


def looping(tokens, _seed):
    return " ".join("the stone is grey and".split() * (tokens // 5 + 1))


def saying(text):
    engine = BenchEngine()
    engine.text = text
    return engine


REFUSED = s.response(b'{"error": {"message": "no such model"}}', "404 Not Found", "application/json")
NO_USAGE = s.response(b"".join(map(s.event, (s.chunk(content="stone"), s.end("length"), "[DONE]"))))
NAN_USAGE = s.response(
    s.event(s.chunk(content="a"))
    + s.event(s.end("length"))
    + b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": NaN}}\n\n'
    + s.event("[DONE]")
)


@pytest.mark.parametrize(
    ("engine", "kind", "said"),
    [
        (Restarted(), "reset", "started anew"),
        (Backwards(), "reset", "started anew"),
        (BenchEngine(accepted=0), "idle_draft", "no token of 59 drafts was accepted"),
        (
            BenchEngine(page=with_nan("generation_tokens")),
            "unknown",
            "generation_tokens_total before it is no number",
        ),
        (BenchEngine(page=with_nan("num_accepted_tokens_total")), "unknown", "is no number"),
        (BenchEngine(page=without("generation_tokens")), "unknown", "no generated tokens"),
        (BenchEngine(page=lambda _text: "<html>"), "unknown", "could not be read"),
        (BenchEngine(page=not_found), "unknown", "HTTP 404"),
        (Cached(), "cached", "came from the prefix cache"),
        (Lying(), "unknown", "60 tokens came and the engine counted 40"),
        (saying(counting), "degenerate", "1 of 1 texts are degenerate"),
        (saying(looping), "degenerate", "1 of 1 texts are degenerate"),
        (BenchEngine(hold=lambda *_: REFUSED), "failed", "404"),
        (BenchEngine(hold=lambda *_: b""), "failed", "the request failed"),
        (BenchEngine(hold=lambda *_: NO_USAGE), "failed", "no `usage`"),
        (BenchEngine(hold=lambda *_: NAN_USAGE), "failed", "no `usage`"),
        (BenchEngine(hold=lambda *_: s.says("", reason="stop")), "failed", "no text came"),
    ],
)
def test_a_row_that_cannot_be_believed_is_void_with_a_reason(engine, kind, said):
    done, lines, _ = benched(engine)
    (row,) = done.rows
    assert done.draws[-1]["void"]["kind"] == kind
    assert said in row["void"] and said in lines[-1]
    assert set(row["figures"].values()) == {None} and row["per_position"] is None
    assert [found.id for found in done.findings] == ["bench.row.void"]
    json.dumps(done.draws)


def test_one_degenerate_draw_voids_the_row_and_ends_it():
    engine = BenchEngine()
    engine.text = lambda tokens, number: (
        counting(tokens, 0) if number == 1 else BenchEngine().text(tokens, number)
    )
    done, _, requests = benched(engine, draws=5)
    assert "degenerate" in done.rows[0]["void"] and len(requests) == 2


def test_a_server_without_speculation_has_no_acceptance_and_counts():
    done, _, _ = benched(BenchEngine(page=without("spec_decode")))
    (row,) = done.rows
    assert row["void"] is None and row["k"] is None
    assert row["figures"]["acceptance"] is None and row["figures"]["tokens_per_s"]["low"] > 0


def test_errors_and_timeouts_count_in_the_success_rate():
    broken = s.response(b'{"error": "overloaded"}', "503 Service Unavailable", "application/json")

    def hold(_request, number):
        return broken if number % 4 == 1 else None

    done, _, _ = benched(BenchEngine(hold=hold), series=[], concurrency=[4], concurrency_max_tokens=30)
    (row,) = done.rows
    assert (row["void"], row["success_rate"]) == (None, 0.75)
    assert list(row["failures"].values()) == [2] and "503" in next(iter(row["failures"]))
    (found,) = done.findings
    assert (found.id, "75%" in found.summary) == ("bench.row.failures", True)


def test_a_request_that_is_not_answered_in_time_has_failed():
    class Slow(BenchEngine):
        def __call__(self, request, stop):
            return s.silent(request, stop) if request else super().__call__(request, stop)

    done, _, _ = benched(Slow(), request_timeout_s=0.3, draws=1)
    assert "not finished within 0.3 s" in done.rows[0]["void"] and done.rows[0]["success_rate"] == 0


def test_a_draw_that_others_disturbed_is_left_out_and_asked_again():
    engine = BenchEngine()

    def hold(_request, number):
        engine.generated += 500 if number == 0 else 7  # a guard's probe is no disturbance
        return None

    engine.hold = hold
    done, _, requests = benched(engine)
    (row,) = done.rows
    assert (row["void"], row["draws_counted"], row["draws_disturbed"], len(requests)) == (None, 2, 1, 3)
    assert "500 of 560 generated tokens were for others" in done.draws[0]["void"]["reason"]


def test_where_nobody_answers_the_bench_ends_and_says_so():
    plan = plan_of({**ONE, "series": ["prose", "code", "prose, reasoning on"]})
    done = bench.run(
        Endpoint("http://127.0.0.1:9", "lab"), plan, bench_store.open_store(None, {}, {}, resume=True)
    )
    assert done.ended == "the request failed: connection refused: nothing listens there"
    assert [row["void"] for row in done.rows][2] == f"not asked: {done.ended}"
    assert done.findings[0].id == "bench.ended" and done.findings[0].severity == "error"


def test_the_total_time_ends_it():
    done, _, _ = benched(BenchEngine(), total_timeout_s=1e-9)
    assert "total time" in done.ended and done.rows[0]["void"] == f"not asked: {done.ended}"


# -- the record ----------------------------------------------------------------------------------------------


def test_a_run_that_was_cut_off_goes_on_and_one_that_ended_is_left_alone(tmp_path):
    failing = BenchEngine(hold=lambda _request, number: REFUSED if number >= 3 else None)
    options = {"series": ["prose", "code"], "draws": 2}
    first, _, _ = benched(failing, tmp_path, total_timeout_s=20, **options)
    assert "404" in first.rows[1]["void"]
    (path,) = tmp_path.iterdir()
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + '\n{"draw": {"row": "prose, rea')  # cut off while it wrote
    again, said, requests = benched(BenchEngine(), tmp_path, **options)
    assert [row["void"] for row in again.rows] == [None, None]
    assert "3 draws are there" in said[0] and len(requests) == 1
    assert list(tmp_path.iterdir()) == [path]
    kept = bench_store.read(path)
    assert kept["finished"] and len(kept["draws"]) == 5  # the one that failed stays on record
    benched(BenchEngine(), tmp_path, **options)
    assert len(list(tmp_path.iterdir())) == 2


def test_another_stack_or_plan_is_another_run(tmp_path):
    unfinished = {"total_timeout_s": 1e-9}
    benched(BenchEngine(), tmp_path, stack={"release": "a"}, **unfinished)
    benched(BenchEngine(), tmp_path, stack={"release": "b"}, **unfinished)
    benched(BenchEngine(), tmp_path, stack={"release": "b"}, draws=3, **unfinished)
    benched(BenchEngine(), tmp_path, stack={"release": "b"}, draws=3, **unfinished)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_degenerate_draw_is_not_forgotten_by_a_rerun(tmp_path):
    engine = saying(counting)
    benched(engine, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")  # as if it had been cut off
    done, _, requests = benched(BenchEngine(), tmp_path)
    assert "degenerate" in done.rows[0]["void"] and requests == []


@pytest.mark.parametrize("text", ["", "no json", '{"draw": {}}', '["header"]', '{"header": 3}'])
def test_what_is_no_record_is_passed_over(tmp_path, text):
    path = tmp_path / "20260101T000000Z-x.jsonl"
    path.write_text(text)
    assert bench_store.read(path) is None
    done, _, _ = benched(BenchEngine(), tmp_path)
    assert done.rows[0]["void"] is None


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(bench_store.BenchStoreError, match="cannot be made"):
        bench_store.open_store(str(tmp_path / "file" / "bench"), {}, {}, resume=True)


# -- the plan ------------------------------------------------------------------------------------------------


def test_the_default_plan_is_that_of_the_published_series():
    plan = plan_of({})
    assert [row.name for row in plan.rows][:4] == [
        "code, reasoning off",
        "code, reasoning on",
        "prose, reasoning off",
        "prose, reasoning on",
    ]
    assert [row.concurrency for row in plan.rows if row.kind == "concurrency"] == [1, 2, 4, 8, 16]
    assert [row.name for row in plan.rows if row.kind == "prefill"] == [
        "prefill of 6K",
        "prefill of 24K",
        "prefill of 45K",
    ]
    context = [row for row in plan.rows if row.kind == "context"]
    assert (context[0].prompt_tokens, context[-1].prompt_tokens, context[0].max_tokens) == (4000, 131000, 320)
    assert {row.draws for row in plan.rows if row.kind == "series"} == {5}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"series": ["verse"]}, "series 1: 'verse' is none of"),
        ({"series": [3]}, "series 1: 3 is neither a name nor a row"),
        ({"series": [{"content": "verse"}]}, "content is 'verse', wanted code or prose"),
        ({"series": [{"contents": "code"}]}, "nothing is called 'contents'"),
        ({"series": [{"draws": 0, "max_tokens": "many"}]}, "max_tokens is 'many'"),
        ({"series": [{"reasoning": "yes"}]}, "reasoning is 'yes', wanted true or false"),
        ({"series": [{"concurrency": 9999}]}, "wanted 256 at most"),
        ({"series": ["prose", "prose"]}, "two rows are called 'prose, reasoning off'"),
        ({"concurrency": [0]}, "concurrency has 0"),
        ({"concurrency": [257]}, "wanted 256 at most"),
        ({"draws": 0, "max_tokens": -1}, "draws is 0, wanted more than 0; max_tokens is -1"),
        ({"total_timeout_s": float("nan")}, "total_timeout_s is nan"),
        (NOTHING, "there is no row"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_all_that_is_wrong(options, said):
    with pytest.raises(ValueError) as error:
        plan_of(options)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "row", plan_of({**NOTHING, "series": ["code", "prose"]}).rows, ids=lambda row: row.content
)
def test_no_task_excuses_a_text_that_counts_or_repeats(row):
    for seed in range(20):
        task = bench_prompts.draw(row, Prompts(), random.Random(seed)).task
        for text in (counting(60, 0), looping(60, 0)):
            assert judge(task, None, "open", text, finish_reason="length").verdict == "degenerate", (
                task,
                text,
            )
