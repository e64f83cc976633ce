# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unified diffs and series of them on small trees; tests/engine_cli/test_patches_on_vllm.py has the real ones."""

from __future__ import annotations

import difflib
import json
import os
import random
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils import patch_series
from ansible_collections.tandem.spark.plugins.module_utils.patch_series import (
    ALREADY,
    APPLIED,
    MISFIT,
    UPSTREAM,
    judge,
    write,
)
from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import PatchError, put_on, read_patch
from ansible_collections.tandem.spark.plugins.plugin_utils.patches import pick, read_series
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
LETTERS = [f"line {letter}\n" for letter in "abcdefghijkl"]
OLD = "".join(LETTERS)
NEW = OLD.replace("line f", "line F")


def diff(path: str, old: str | None, new: str | None, context: int = 3) -> str:
    names = ["/dev/null" if side is None else f"{letter}/{path}" for letter, side in (("a", old), ("b", new))]
    lines = difflib.unified_diff(
        *(text.splitlines(keepends=True) if text else [] for text in (old, new)), *names, n=context
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def tree(folder: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}


def run(folder: Path, *texts: str) -> list[str]:
    """Judges and writes as the module does; the outcomes."""
    judged = judge(str(folder), [read_patch(f"{number}.patch", text) for number, text in enumerate(texts, 1)])
    if not judged.misfits:
        write(str(folder), judged.edits)
    return [each.outcome for each in judged.outcomes]


CHANGE = diff("f", OLD, NEW)
MARKED = "Upstream-Has: f: line F, mended\n\n" + CHANGE
FORM_FEED = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-\x0cb\n+\x0cc\n"
TWICE = OLD + OLD


# What lies there -> the outcome, and what lies there then (None: as it was).
@pytest.mark.parametrize(
    ("there", "patch", "outcome", "after"),
    [
        (OLD, CHANGE, APPLIED, NEW),
        (NEW, CHANGE, ALREADY, None),
        ("x\ny\n" + OLD, CHANGE, APPLIED, "x\ny\n" + NEW),
        (OLD.partition("line c\n")[2], CHANGE, MISFIT, None),  # of the context nothing may be missing
        (OLD.replace("line d", "line D"), CHANGE, MISFIT, None),
        (OLD.replace("\n", "\r\n"), CHANGE, APPLIED, NEW.replace("\n", "\r\n")),
        (NEW.replace("\n", "\r\n"), CHANGE, ALREADY, None),
        (OLD, CHANGE.replace("\n", "\r\n"), APPLIED, NEW),
        (
            OLD.replace("line e\n", "line e\r\n"),
            CHANGE,
            APPLIED,
            NEW.replace("e\nline F\n", "e\r\nline F\r\n"),
        ),
        ("x\n" + TWICE, CHANGE, MISFIT, None),  # it fits in two places, and in none of them by its number
        (TWICE, CHANGE, APPLIED, NEW + OLD),
        (NEW + OLD, CHANGE, ALREADY, None),  # what it starts from is there too, but further away
        (OLD.replace("line f", "line F, mended"), MARKED, UPSTREAM, None),
        (OLD, MARKED, APPLIED, NEW),
        (OLD.replace("line f", "line G"), MARKED, MISFIT, None),
        (None, CHANGE, MISFIT, None),
        (None, diff("f", None, NEW), APPLIED, NEW),
        (NEW, diff("f", None, NEW), ALREADY, None),
        (OLD, diff("f", None, NEW), MISFIT, None),
        (OLD, diff("f", OLD, None), APPLIED, None),
        (None, diff("f", OLD, None), ALREADY, None),
        (NEW, diff("f", OLD, None), MISFIT, None),
        ("a\nb", diff("f", "a\nb", "a\nc"), APPLIED, "a\nc"),
        ("a\nb\n", diff("f", "a\nb", "a\nc"), MISFIT, None),
        ("a\nb", diff("f", "a\nb", "a\nb\n"), APPLIED, "a\nb\n"),
        ("a\n\x0cb\n", FORM_FEED, APPLIED, "a\n\x0cc\n"),
        (b"\xe9\nline a\n", diff("f", "line a\n", "line b\n"), APPLIED, b"\xe9\nline b\n"),
        ("--- x\nb\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n---- x\n+++ y\n b\n", APPLIED, "++ y\nb\n"),
        (OLD, "diff --git a/f b/f\nindex 123..456 100644\n" + CHANGE + "-- \n2.43.0\n", APPLIED, NEW),
        (
            "a\n\nb\n",
            "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n",
            APPLIED,
            "a\n\nc\n",
        ),  # mail cut the blank
    ],
)
def test_one_file(tmp_path, there, patch, outcome, after):
    folder = tree(tmp_path, **({} if there is None else {"f": there}), other="untouched\n")
    before = content(folder)
    assert run(folder, patch) == [outcome]
    if after is not None:
        assert content(folder)["f"] == (after if isinstance(after, bytes) else after.encode())
    elif outcome != APPLIED:
        assert content(folder) == before
    if outcome in (APPLIED, ALREADY):
        left = content(folder)
        assert run(folder, patch) == [ALREADY]
        assert content(folder) == left


def test_what_does_not_fit_is_named(tmp_path):
    folder = tree(tmp_path, f=OLD.replace("line d", "line D"), g=OLD)
    texts = [CHANGE, diff("g", OLD, NEW), diff("h", OLD, NEW)]
    judged = judge(str(folder), [read_patch(name, text) for name, text in zip("pqr", texts, strict=True)])
    assert judged.misfits == [
        "p: f, hunk 1: wanted is 'line d' at line 4, found is 'line D'.",
        "r: h, hunk 1: there is no such file.",
    ]
    assert [each.outcome for each in judged.outcomes] == [MISFIT, APPLIED, MISFIT]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("a\nb", r"wanted is 'b\n' at line 2, found is 'b'"),
        ("a\n\tb\n", r"wanted is 'b\n' at line 2, found is '\tb\n'"),
        ("a\n  c\n", "wanted is 'b' at line 2, found is 'c'"),
        ("a\n", "wanted is 'b' at line 2, found is the end of the file"),
    ],
)
def test_white_space_is_shown_where_it_is_what_differs(there, said):
    (change,) = read_patch("p", diff("f", "a\nb\n", "a\nx\n")).changes
    with pytest.raises(PatchError) as raised:
        put_on(change, there.encode())
    assert said in str(raised.value)


def test_every_hunk_that_does_not_fit_is_named(tmp_path):
    long = "".join(f"{number}\n" for number in range(40))
    patch = diff("f", long, long.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n"), 2)
    folder = tree(tmp_path, f=long.replace("\n4\n", "\nfour\n").replace("\n30\n", "\nthirty\n"))
    misfits = judge(str(folder), [read_patch("p", patch)]).misfits
    assert misfits == [
        "p: f, hunk 1: wanted is '4' at line 5, found is 'four'.",
        "p: f, hunk 2: what it would make is already there.",
    ]


def test_patches_that_build_on_each_other(tmp_path):
    second = NEW.replace("line F", "line FF").replace("line h", "line H")
    texts = [CHANGE, diff("f", NEW, second), diff("new/g", None, "g\n"), diff("new/g", "g\n", "G\n")]
    folder = tree(tmp_path, f=OLD)
    assert run(folder, *texts[:1]) == [APPLIED]
    assert run(folder, *texts) == [ALREADY, APPLIED, APPLIED, APPLIED]
    assert content(folder) == {"f": second.encode(), "new/g": b"G\n"}
    assert run(folder, *texts) == [ALREADY] * 4
    assert content(folder) == {"f": second.encode(), "new/g": b"G\n"}


def test_nothing_is_written_when_a_later_one_fails(tmp_path):
    folder = tree(tmp_path, f=OLD, g="other\n")
    before = content(folder)
    assert run(folder, CHANGE, diff("g", OLD, NEW)) == [APPLIED, MISFIT]
    assert content(folder) == before


def test_a_patch_that_is_half_there_is_ended(tmp_path):
    """A run that was killed between two files, or a hand that mended one of them."""
    text = CHANGE + diff("g", OLD, NEW)
    folder = tree(tmp_path, f=NEW, g=OLD)
    assert run(folder, text) == [APPLIED]
    assert content(folder) == {"f": NEW.encode(), "g": NEW.encode()}


def test_what_upstream_has_is_left_alone(tmp_path):
    """One part of the patch is upstream word by word; the other one is there in other words, which the header names."""
    text = "Upstream-Has: g: mended otherwise\n" + CHANGE + diff("g", OLD, NEW)
    folder = tree(tmp_path, f=NEW, g="mended otherwise\n")
    before = content(folder)
    assert run(folder, text) == [UPSTREAM]
    assert content(folder) == before


def test_modes_and_owners_stay(tmp_path):
    folder = tree(tmp_path, f=OLD)
    os.chmod(folder / "f", 0o755)
    new = "diff --git a/tool b/tool\nnew file mode 100755\nindex 000..123\n" + diff(
        "tool", None, "#!/bin/sh\n"
    )
    assert run(folder, CHANGE, new) == [APPLIED, APPLIED]
    assert [(folder / name).stat().st_mode & 0o777 for name in ("f", "tool")] == [0o755, 0o755]
    assert sorted(os.listdir(folder)) == ["f", "tool"]


@pytest.mark.parametrize("refused", ["link", "replace", "unlink"])
def test_a_file_system_that_refuses_leaves_the_tree_as_it_was(tmp_path, monkeypatch, refused):
    folder = tree(tmp_path / "tree", f=OLD, g=OLD, h=OLD)
    os.chmod(folder / "f", 0o755)
    texts = [CHANGE, diff("new/n", None, "n\n"), diff("g", OLD, NEW), diff("h", OLD, None)]
    judged = judge(str(folder), [read_patch(str(number), text) for number, text in enumerate(texts)])
    before, real, left = content(folder), getattr(os, refused), [1 if refused == "unlink" else 2]

    def no_space(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device", str(args[0]))
        return real(*args, **kwargs)

    monkeypatch.setattr(patch_series.os, refused, no_space)
    with pytest.raises(PatchError, match=r"No space left on device\. The tree is as it was"):
        write(str(folder), judged.edits)
    monkeypatch.undo()
    assert content(folder) == before and sorted(os.listdir(folder)) == ["f", "g", "h"]
    assert (folder / "f").stat().st_mode & 0o777 == 0o755


def test_links_lead_nowhere(tmp_path):
    outside = tree(tmp_path / "outside", f=OLD)
    folder = tree(tmp_path / "tree", other="x\n")
    (folder / "f").symlink_to(outside / "f")
    (misfit,) = judge(str(folder), [read_patch("p", CHANGE)]).misfits
    assert "f is a link" in misfit
    with pytest.raises(PatchError, match="is no folder"):
        judge(str(tmp_path / "nothing"), [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "changes no file"),
        ("only words\n", "changes no file"),
        (CHANGE.replace("line e\n", "", 1), "other lines than its head says|fewer lines"),
        (CHANGE.rpartition(" line i")[0], "fewer lines than its head says"),
        (CHANGE + "+one more\n", "belongs to no hunk"),
        (CHANGE.replace("@@ -3", "@@ -x"), "is no head of a hunk"),
        (CHANGE.partition("@@")[1] + CHANGE.partition("@@")[2], "a hunk of no file"),
        (CHANGE.replace("a/f", "a/../f").replace("b/f", "b/../f"), "is no path"),
        (CHANGE.replace("a/f", "/etc/f").replace("b/f", "/etc/f"), "is no path"),
        (CHANGE.replace("a/f", "f").replace("b/f", "f"), "is no path"),
        (CHANGE.replace("b/f", "b/g"), "f would become g"),
        ("--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+x\n", "has no context"),
        ("diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n", "renames"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "renames, modes"),
        ("diff --git a/f b/f\nindex 1..2\nGIT binary patch\n", "binary"),
        ("--- a/f\n+++ b/f\n", "no hunk follows"),
        (CHANGE + CHANGE, "changes f twice"),
    ],
)
def test_a_broken_patch_is_refused_whole(text, said):
    with pytest.raises(PatchError, match=said):
        read_patch("p", text)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from("+- @/abdev\n\r0123,\\ngit"), max_size=300))
def test_any_text_is_a_patch_or_refused(text):
    for each in (text, "--- a/f\n+++ b/f\n" + text, CHANGE + text):
        try:
            read_patch("p", each)
        except PatchError:
            pass


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_difflib_makes_goes_on_and_off(chance: random.Random):
    old = [f"{chance.choice('abc')}{number}\n" for number in range(chance.randint(1, 30))]
    new = list(old)
    for _count in range(chance.randint(1, 5)):
        place = chance.randrange(len(new) + 1)
        new[place : place + chance.randint(0, 2)] = [f"new {chance.random()}\n"] * chance.randint(0, 2)
    text = diff("f", "".join(old), "".join(new))
    if old == new or not new:
        return
    (change,) = read_patch("p", text).changes
    assert put_on(change, "".join(old).encode()) == ("".join(new).encode(), 0)
    assert put_on(change.reversed(), "".join(new).encode()) == ("".join(old).encode(), 0)


# -- series ------------------------------------------------------------------------------------------------------------
def test_a_series_is_read_in_its_order(tmp_path):
    folder = tree(tmp_path, series="# first\nb.patch\n\na.patch\n", **{"a.patch": CHANGE, "b.patch": CHANGE})
    assert [each["name"] for each in read_series(folder)] == ["b.patch", "a.patch"]


@pytest.mark.parametrize(
    ("series", "said"),
    [
        (None, "no series"),
        ("a.patch\nc.patch\n", r"c\.patch is named and not there"),
        ("a.patch\n", r"b\.patch is there and not named"),
        ("a.patch\nb.patch\na.patch\n", r"a\.patch is named twice"),
        ("a.patch -p0\nb.patch\n", "a line of it is the name of a file"),
        ("../a.patch\na.patch\nb.patch\n", "a line of it is the name of a file"),
    ],
)
def test_a_wrong_series_is_refused(tmp_path, series, said):
    folder = tree(tmp_path, **{"a.patch": CHANGE, "b.patch": CHANGE})
    if series is not None:
        tree(tmp_path, series=series)
    with pytest.raises(PatchError, match=said):
        read_series(folder)


def test_the_patches_of_this_project_say_what_they_are():
    for folder in sorted((ROOT / "patches").iterdir()):
        for each in read_series(folder):
            patch = read_patch(each["name"], each["text"])
            for name in ("Description", "Origin", "Forwarded", "Applied-Upstream", "Upstream-Has", "License"):
                assert patch.values(name), (each["name"], name)


def test_a_choice_keeps_the_order_of_the_series():
    series = [{"name": name, "text": ""} for name in "abc"]
    assert [each["name"] for each in pick(series, ["c", "a"])] == ["a", "c"]
    assert pick(series, []) == series
    with pytest.raises(PatchError, match="has no d. It has: a, b, c"):
        pick(series, ["a", "d"])


# -- the task ----------------------------------------------------------------------------------------------------------
def play(folder: Path, path: Path, *options: str, tree: str = "vllm") -> tuple[int, dict]:
    """The task on this machine by Ansible itself; its code and its result."""
    args = json.dumps({"path": str(path), "tree": tree})
    environment = {
        **os.environ,
        "ANSIBLE_LOCAL_TEMP": str(folder),
        "ANSIBLE_REMOTE_TEMP": str(folder),
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
    }
    command = ["ansible", "localhost", "-m", "tandem.spark.source_patches", "-a", args, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    text = done.stdout.rpartition("=> ")[2]  # a diff comes before it
    return done.returncode, yaml.safe_load(text)


def test_the_task(tmp_path):
    """Check mode, a run, a second run, and a tree that is not vLLM's at all."""
    texts = [read_patch(each["name"], each["text"]) for each in read_series(ROOT / "patches" / "vllm")]
    folder = tmp_path / "tree"
    for patch in texts:
        for change in patch.changes:
            lead = "".join(f"{number}\n" for number in range(change.hunks[0].old_start - 1))
            tree(folder, **{change.path.replace("/", "__"): lead + "".join(change.hunks[0].old)})
    before = content(folder)
    code, result = play(tmp_path, folder, "--check", "--diff")
    assert (code, result["changed"], content(folder)) == (0, True, before)
    code, result = play(tmp_path, folder)
    assert [each["outcome"] for each in result["outcomes"]] == [APPLIED, APPLIED] and result["changed"]
    code, result = play(tmp_path, folder)
    assert [each["outcome"] for each in result["outcomes"]] == [ALREADY, ALREADY] and not result["changed"]
    code, result = play(tmp_path, tree(tmp_path / "other", f="x\n"))
    assert code != 0 and "there is no such file" in result["msg"] and "left as it was" in result["msg"]
    code, result = play(tmp_path, folder, tree="sglang")
    assert code != 0 and "This collection has patches for: vllm" in result["msg"]
