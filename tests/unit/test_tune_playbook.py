# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml itself over two pretend nodes: what it asks first, tries, keeps, survives and brings back."""

from __future__ import annotations

import json

import pretend_tune as pretend
import pytest

WISH = {
    "tandem_tune_max_num_seqs": [2, 4, 16],
    "tandem_tune_cudagraph_modes": ["FULL_AND_PIECEWISE", "NONE"],
    "tandem_tune_k": [5],
}
ALLOWED = ("-e", "tandem_tune=allowed")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return pretend.Pair(tmp_path_factory.mktemp("tune"), "tune", WISH)


def test_check_mode_tells_the_points_and_the_cost_and_touches_nothing(pair):
    done = pair.run("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FULL_AND_PIECEWISE, ngram" in done.stdout and "k=5: max_num_seqs 2, 4, 16" in done.stdout
    assert "To do: 2 to 6 points of about 60 s each (as long as the last roll-out took" in done.stdout
    assert pair.state["steps"] == [] and not pair.results.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "add this to the same command: -e tandem_tune=allowed"),
        (("--limit", pretend.HEAD, *ALLOWED), f"{pretend.WORKER} took no part in this run"),
        (
            (*ALLOWED, "-e", '{"tandem_tune_cudagraph_modes": ["FULL_EVERYTHING"]}'),
            "wanted some of FULL_AND_PIECEWISE",
        ),
    ],
)
def test_nothing_is_touched_without_consent_or_sense(pair, words, told):
    done = pair.run(*words)
    assert done.returncode != 0
    assert told in " ".join(done.stdout.split()), done.stdout + done.stderr
    assert pair.state["steps"] == []


@pytest.mark.long
def test_the_matrix_is_searched_told_and_left_as_it_was_found(pair):
    done = pair.run(*ALLOWED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert pair.records() == {
        ("FULL_AND_PIECEWISE", 16): "wrong",
        ("FULL_AND_PIECEWISE", 4): "wrong",
        ("FULL_AND_PIECEWISE", 2): "right",
        ("NONE", 16): "right",
    }
    now = pair.state
    # Staged on both ranks, and one restart for each point and one for the way back.
    assert now["steps"].count(f"staged {pretend.HEAD}") == now["steps"].count(f"staged {pretend.WORKER}") == 4
    restarts = [step for step in now["steps"] if step.startswith("restarted")]
    assert len(restarts) == len(set(restarts)) == 5 and restarts[-1] == f"restarted with {pretend.PROVEN}"
    assert now["current"] == now["applied"] == pretend.PROVEN
    events = [(host, event, outcome) for host, event, _digest, outcome in now["history"]]
    for host in pretend.HOSTS:
        assert [each[1:] for each in events if each[0] == host] == [
            ("tune", "wrong"),
            ("tune", "right"),
            ("tune", "wrong"),
            ("tune", "right"),
            ("start", "proven"),
        ]
    said = done.stdout
    assert "Two ways out are known: eager mode" in said and "| degenerate" in said
    offered = said.split("```yaml\n")[1].split("```")[0]
    assert (
        "max-num-seqs: 16" in offered
        and "cudagraph_mode: NONE" in offered
        and "enforce-eager: null" in offered
    )
    (page,), (picture,) = pair.results.rglob("tune.md"), pair.results.rglob("tune.svg")
    assert "![Tuning of rehearsal" in page.read_text() and picture.read_text().startswith("<?xml")


@pytest.mark.long
def test_another_run_pays_for_nothing_again(pair):
    pair.set()
    done = pair.run()  # without consent, since nothing is to be done
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing, every point is known" in done.stdout and "| degenerate" in done.stdout
    assert [step for step in pair.state["steps"] if "restarted" in step] == []


@pytest.mark.long
def test_a_run_that_was_cut_off_goes_on_and_brings_back_what_was_proven(pair):
    pair.set(engine="c" * 64, dies_at=2, too_large=16)
    pair.run(*ALLOWED)
    cut_off = pair.state
    assert cut_off["current"] not in (pretend.PROVEN, None) and cut_off["applied"] == pretend.PROVEN
    before = len([step for step in cut_off["steps"] if "restarted" in step])
    pair.file.write_text(json.dumps({**cut_off, "dies_at": None}))
    done = pair.run(*ALLOWED)
    assert done.returncode == 0, done.stdout + done.stderr
    after = [step for step in pair.state["steps"] if "restarted" in step][before:]
    assert pair.state["current"] == pretend.PROVEN and after[-1] == f"restarted with {pretend.PROVEN}"
    # An engine that says it cannot run like this ends its point, not the run.
    assert (
        "does not run: the KV cache is too small" in done.stdout and pair.state["history"][-1][1] == "start"
    )


@pytest.mark.long
def test_a_lost_rank_is_not_blamed_on_the_points(pair):
    pair.set(engine="a" * 64, lost=[pretend.WORKER])
    done = pair.run(*ALLOWED)
    assert "3 points in a row showed nothing of themselves" in done.stdout, done.stdout + done.stderr
    assert (
        f"{pretend.WORKER} was lost while its release was written: Task failed: no route to host"
        in " ".join(done.stdout.split())
    )
    assert "No point is right and measured" in done.stdout
    assert [step for step in pair.state["steps"] if "restarted" in step] == []  # what serves goes on serving
