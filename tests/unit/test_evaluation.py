# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lm-eval is asked for, and what its results say. The harness itself runs in the scenario `default`."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import evaluation
from hypothesis import given
from hypothesis import strategies as st

RESULTS = {
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,strict-match": 0.91,
            "exact_match_stderr,strict-match": 0.0287,
            "exact_match,flexible-extract": 0.93,
            "exact_match_stderr,flexible-extract": "N/A",
        }
    },
    "n-samples": {"gsm8k": {"original": 1319, "effective": 100}},
    "lm_eval_version": "0.4.13",
}


def asked(folder, program="lm_eval", **more):
    own = {
        "tasks": ("gsm8k",),
        "limit": 100,
        "concurrency": 2,
        "thinking": False,
        "max_tokens": 256,
        "timeout_s": 60.0,
    }
    return evaluation.Evaluation(
        program=program, url="http://x:1/v1", model="lab", folder=folder, **{**own, **more}
    )


def written(folder, content):
    path = folder / "results_x.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_figures_of_a_task(tmp_path):
    lines, version = evaluation.read(written(tmp_path, RESULTS))
    assert version == "0.4.13"
    assert lines == [
        {
            "task": "gsm8k",
            "figure": "exact_match,strict-match",
            "value": 0.91,
            "error": 0.0287,
            "questions": 100,
        },
        {
            "task": "gsm8k",
            "figure": "exact_match,flexible-extract",
            "value": 0.93,
            "error": None,
            "questions": 100,
        },
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "cannot be read"),
        ("[]", "have no task"),
        ({"results": {}}, "have no task"),
        ({"results": {"t": {"alias": "t"}}}, "have no figure"),
        ({"results": {"t": {"acc,none": float("nan")}}}, "have no figure"),
        ({"results": {"t": 3}}, "have no figure"),
    ],
)
def test_results_that_are_none_are_told(tmp_path, content, said):
    with pytest.raises(evaluation.EvaluationError, match=said):
        evaluation.read(written(tmp_path, content))


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"results": st.dictionaries(st.text(max_size=4), VALUES, max_size=2), "n-samples": VALUES}
    )
)
def test_whatever_stands_in_a_file_is_read_or_refused(tmp_path_factory, content):
    path = written(tmp_path_factory.mktemp("results"), content)
    try:
        lines, _version = evaluation.read(path)
    except evaluation.EvaluationError:
        return
    assert all(isinstance(line["value"], float) for line in lines)


def test_the_key_is_not_on_the_command_line(tmp_path):
    wanted = asked(tmp_path, api_key="secret-key", include="/tasks", limit=0)
    words = evaluation.command(wanted, tmp_path)
    assert "secret-key" not in " ".join(words) and "secret-key" not in repr(wanted)
    assert evaluation.environment(wanted)["OPENAI_API_KEY"] == "secret-key"
    assert "--limit" not in words and words[words.index("--include_path") + 1] == "/tasks"
    told = json.loads(words[words.index("--model_args") + 1])
    assert told["base_url"] == "http://x:1/v1/chat/completions"
    generation = json.loads(words[words.index("--gen_kwargs") + 1])
    assert generation["chat_template_kwargs"] == {"thinking": False} and generation["temperature"] == 0


def program(folder, script):
    path = folder / "lm_eval"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_run_that_ends_well(tmp_path):
    results = tmp_path / "told.json"
    results.write_text(json.dumps(RESULTS))
    script = f'printf "10%%\\r50%%\\n"; mkdir model; cp {results} model/results_1.json'
    said = []
    done = evaluation.run(asked(tmp_path, program(tmp_path, script)), said.append)
    assert done["version"] == "0.4.13" and len(done["results"]) == 2 and said == ["10%"]
    assert Path(done["file"]).is_file() and done["seconds"] >= 0


@pytest.mark.parametrize(
    ("script", "said", "more"),
    [
        ("echo 'no such task: gsm9k'; exit 2", "ended with 2.*no such task", {}),
        ("echo done", "left no results", {}),
        ("echo begun; exec sleep 60", "did not end within 0.5 s.*begun", {"timeout_s": 0.5}),
        ("mkdir model; echo '{' > model/results_1.json", "cannot be read", {}),
    ],
)
def test_a_run_that_does_not_is_told_with_its_last_words(tmp_path, script, said, more):
    with pytest.raises(evaluation.EvaluationError, match=f"(?s){said}"):
        evaluation.run(asked(tmp_path, program(tmp_path, script), **more))


def test_a_harness_that_is_not_there_is_told(tmp_path):
    with pytest.raises(evaluation.EvaluationError, match="cannot be run"):
        evaluation.run(asked(tmp_path, str(tmp_path / "nothing")))
