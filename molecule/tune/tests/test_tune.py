# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reported table, found by a real vLLM in two ranks: degenerate above two sequences with graphs, right without.

The order counts: the second test kills the run that the third one takes up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from hands import INVENTORY, NODES, PROJECT, ask, play, shell

HEAD = NODES[0]
WRAPPER = Path(__file__).parents[1] / "vllm"
WISH = {
    "tandem_tune_max_num_seqs": [2, 4, 8, 10, 12, 16],
    "tandem_tune_cudagraph_modes": ["FULL_AND_PIECEWISE", "PIECEWISE", "NONE"],
    "tandem_tune_k": [5],
    "tandem_tune_draws": 2,
    "tandem_tune_max_tokens": 64,
}
ALLOWED = ("-e", "tandem_tune=allowed")
# What bisection needs of the eighteen points.
TRIED = {
    ("FULL_AND_PIECEWISE", 16): "wrong",
    ("FULL_AND_PIECEWISE", 8): "wrong",
    ("FULL_AND_PIECEWISE", 2): "right",
    ("FULL_AND_PIECEWISE", 4): "wrong",
    ("PIECEWISE", 2): "right",
    ("PIECEWISE", 4): "wrong",
    ("NONE", 16): "right",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The engine of both nodes degenerates from here on; where the results are kept."""
    put = f"cat > vllm <<'END'\n{WRAPPER.read_text()}END\nchmod 755 vllm"
    for node in NODES:
        shell(node, f"cd /opt/tandem/runtime/*/bin && mv vllm vllm.real && {put}")
    yield tmp_path_factory.mktemp("tune")
    for node in NODES:
        shell(node, "cd /opt/tandem/runtime/*/bin && mv vllm.real vllm")


def words(results: Path) -> tuple[str, str]:
    return "-e", json.dumps({**WISH, "tandem_tune_folder": str(results)})


def tune(results: Path, *more: str):
    return play("playbooks/tune.yml", *words(results), *more)


def records(results: Path) -> dict[tuple[str, int], dict]:
    told = [json.loads(path.read_text()) for path in results.rglob("*.json")]
    return {(each["point"]["cudagraph_mode"], each["point"]["max_num_seqs"]): each for each in told}


def release(node: str) -> tuple[str, str]:
    return shell(node, "basename $(readlink /opt/tandem/current)"), shell(node, "cat /var/lib/tandem/applied")


def started(node: str) -> str:
    return shell(node, "systemctl show -p InvocationID 'tandem-head' 'tandem-worker'")


def test_without_a_word_it_only_tells(results):
    before = [started(node) for node in NODES]
    told = tune(results, "--check")
    assert told.code == 0, told.text
    assert "FULL_AND_PIECEWISE, ngram" in told.text and "max_num_seqs 2, 4, 8, 10, 12, 16" in told.text
    refused = tune(results)
    assert refused.code != 0 and "-e tandem_tune=allowed" in refused.text, refused.text
    assert [started(node) for node in NODES] == before and not list(results.rglob("*"))


def test_a_run_that_dies_in_its_second_point_keeps_the_first(results):
    run = subprocess.Popen(
        [
            "ansible-playbook",
            str(PROJECT / "playbooks/tune.yml"),
            "-i",
            str(INVENTORY),
            *words(results),
            *ALLOWED,
        ],
        cwd=PROJECT,
        env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    said = ""
    for line in run.stdout:
        said += line
        if "Trying max_num_seqs 8" in line:
            break
    # As when the controller loses power.
    os.killpg(run.pid, signal.SIGKILL)
    run.stdout.close()
    run.wait()
    assert {point: record["outcome"] for point, record in records(results).items()} == {
        ("FULL_AND_PIECEWISE", 16): "wrong"
    }, said


def test_the_reported_table_is_found_and_the_pair_is_as_before(results):
    applied = release(HEAD)[1]
    run = tune(results, *ALLOWED)
    assert run.code == 0, run.text
    print(run.text[run.text.index("# Tuning of") :][:6000])
    found = records(results)
    assert {point: record["outcome"] for point, record in found.items()} == TRIED
    for point, record in found.items():
        degenerate = record["outcome"] == "wrong"
        assert record["degenerate"] == degenerate, (point, record["reason"])
        assert ("degenerate" in record["reason"]) == degenerate
    (page,) = results.rglob("tune.md")
    assert "Two ways out are known: eager mode" in page.read_text()
    assert (page.parent / "tune.svg").read_bytes().startswith(b"<?xml")
    offered = yaml.safe_load(page.read_text().split("```yaml\n")[1].split("```")[0])
    flags = offered["tandem_profile_overrides"]["engine"]["flags"]
    # Sixteen streams without graphs are faster than two with them.
    assert flags["max-num-seqs"] == 16 and flags["compilation-config"] == {"cudagraph_mode": "NONE"}
    assert {release(node) for node in NODES} == {(applied, applied)}
    assert "391" in ask()
    for node in NODES:
        lines = shell(node, "cat /var/lib/tandem/history.jsonl").splitlines()
        events = [(line["event"], line["outcome"]) for line in map(json.loads, lines)]
        assert [outcome for event, outcome in events if event == "tune"].count("right") == 3
        assert events[-1] == ("start", "proven")
        # Nothing that was tried counts for a roll-out.
        proofs = shell(node, "ls /var/lib/tandem/proofs").split()
        assert [name.split(".")[0] for name in proofs] == [applied]


def test_another_run_tries_nothing_again_and_restarts_nothing(results):
    before = [started(node) for node in NODES]
    run = tune(results)
    assert run.code == 0 and "nothing, every point is known" in run.text, run.text
    assert [started(node) for node in NODES] == before


def test_the_offer_is_taken_by_an_ordinary_roll_out(results):
    (page,) = results.rglob("tune.md")
    offered = yaml.safe_load(page.read_text().split("```yaml\n")[1].split("```")[0])
    run = play("playbooks/serve.yml", "-e", json.dumps(offered))
    assert run.code == 0 and "PROVEN" in run.text, run.text
    assert "391" in ask()
