# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem caches`: what goes, what stays, and that nothing outside of the caches is ever touched."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import cli, jit_caches
from ansible_collections.tandem.spark.plugins.module_utils.jit_caches import (
    Cache,
    CachesError,
    choose,
    mounts_below,
    prune,
)
from ansible_collections.tandem.spark.plugins.modules import rank_unit

KIB = 1024
A, B, C, D = ("a" * 16, "b" * 16, "c" * 16, "d" * 16)


class Node:
    """A node's file system with caches of `kib` each, the later named the more recently used."""

    def __init__(self, root, *names, kib=64):
        self.root = root
        self.caches = root / "var/cache/tandem"
        self.caches.mkdir(parents=True)
        for number, name in enumerate(names):
            (self.caches / name / "triton").mkdir(parents=True)
            (self.caches / name / "triton/kernel.so").write_bytes(b"x" * kib * KIB)
            self.age(name, 1000 * (number + 1))

    def age(self, name, seconds):
        for path in [*self.caches.glob(f"{name}/**/*"), self.caches / name]:
            os.utime(path, (seconds, seconds), follow_symlinks=False)

    def release(self, digest, stack, *links):
        folder = self.root / "opt/tandem/releases" / digest
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"fingerprint": stack + "0" * 48}))
        if "current" in links:
            (self.root / "opt/tandem/current").symlink_to(f"releases/{digest}")
        if "applied" in links:
            (self.root / "var/lib/tandem").mkdir(parents=True, exist_ok=True)
            (self.root / "var/lib/tandem/applied").write_text(f"{digest}\n")

    def names(self):
        return sorted(path.name for path in self.caches.iterdir())

    def run(self, *words):
        return cli.main(["caches", "--root", str(self.root), *words])


@pytest.fixture
def node(tmp_path):
    """Four stacks: b is what runs, c was proven last, a and d are of older releases or none."""
    made = Node(tmp_path, A, B, C, D)
    made.release("old", A)
    made.release("now", B, "current")
    made.release("good", C, "applied")
    return made


def cache(name, size, used, **more):
    return Cache(name, size, used, **more)


@pytest.mark.parametrize(
    ("bound", "gone"),
    [(100, ""), (70, ""), (69, "a"), (40, "ac"), (0, "acd")],
)
def test_the_one_unused_for_longest_goes_first(bound, gone):
    caches = [
        cache("d", 10, 4),
        cache("c", 30, 3),
        cache("b", 10, 2, kept_for=("current release",)),
        cache("a", 20, 1),
    ]
    assert "".join(each.name for each in choose(caches, bound)) == gone


def test_what_runs_and_what_was_proven_last_stay_whatever_their_size(node):
    done = prune(node.root, 0)
    assert [each.name for each in done.removed] == [A, D] and done.troubles == ()
    assert node.names() == [A, B, C]
    assert list((node.caches / A).iterdir()) == []  # a release names it: its unit works in there
    for kept in (B, C):
        assert (node.caches / kept / "triton/kernel.so").stat().st_size == 64 * KIB


def test_the_emptied_folder_is_as_it_was(node):
    (node.caches / A).chmod(0o750)
    before = (node.caches / A).stat()
    prune(node.root, 0)
    after = (node.caches / A).stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_nothing_goes_while_all_fit(node):
    assert prune(node.root, 1 << 30).removed == ()
    assert node.names() == [A, B, C, D]


@pytest.mark.parametrize("broken", ["{cut", "{}", '{"fingerprint": "not installed"}', '{"fingerprint": 7}'])
@pytest.mark.parametrize("release", ["now", "good"])
def test_without_knowing_what_is_in_use_nothing_goes(node, release, broken):
    (node.root / "opt/tandem/releases" / release / "manifest.json").write_text(broken)
    with pytest.raises(CachesError, match=release):
        prune(node.root, 0)
    assert node.names() == [A, B, C, D]
    assert (node.caches / D / "triton/kernel.so").exists()


def test_links_lead_nowhere(node, tmp_path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "weights").write_text("155 GiB")
    (node.caches / D / "triton/link").symlink_to(outside)
    (node.caches / ("e" * 16)).symlink_to(outside)
    (node.caches / ".{}.going".format("f" * 16)).symlink_to(outside)
    done = prune(node.root, 0)
    assert (outside / "weights").read_text() == "155 GiB"
    assert D not in node.names() and "e" * 16 in node.names()
    assert {each.name for each in done.left} == {B, C}
    assert any("could not be deleted" in trouble for trouble in done.troubles)  # a link where a folder was


def test_what_a_link_points_to_is_not_counted(node, tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 4096 * KIB)
    before = {each.name: each.bytes for each in jit_caches.look(node.root)}
    (node.caches / D / "large").symlink_to(tmp_path / "large")
    os.link(node.caches / D / "triton/kernel.so", node.caches / D / "again.so")
    after = {each.name: each.bytes for each in jit_caches.look(node.root)}
    assert after[D] - before[D] < 16 * KIB


MOUNTINFO = """22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 254:0 /srv/models /var/cache/tandem/dddddddddddddddd/hub rw - ext4 /dev/vda rw
41 22 0:9 / /var/cache/tandem/with\\040space rw - tmpfs tmpfs rw
42 22 0:9 / /var/cache/tandem2/x rw - tmpfs tmpfs rw
cut
"""


def test_mounts_are_seen_by_their_names():
    assert mounts_below("/var/cache/tandem", MOUNTINFO) == [
        f"/var/cache/tandem/{D}/hub",
        "/var/cache/tandem/with space",
    ]


def test_a_folder_with_a_mount_in_it_stays(node, monkeypatch):
    monkeypatch.setattr(jit_caches, "mounts_below", lambda base, _text: [f"{base}/{D}/hub"])
    done = prune(node.root, 0)
    assert [each.name for each in done.removed] == [A] and D in node.names()
    (kept,) = [each for each in done.left if each.name == D]
    assert kept.kept_for[0].endswith(f"{D}/hub is mounted")


def test_a_process_that_works_in_a_folder_keeps_it(tmp_path):
    for pid, place in (("7", f"/var/cache/tandem/{D}/triton"), ("8", "/var/cache/tandem"), ("9", "/")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cwd").symlink_to(place)
    (tmp_path / "self").mkdir()
    found = jit_caches._working_in("/var/cache/tandem", jit_caches.Tree(str(tmp_path)))
    assert found == {D: ["7"]}


def test_what_was_cut_off_is_finished(node):
    (node.caches / D).rename(node.caches / f".{D}.going")
    assert node.run("--prune") == 0
    assert node.names() == [A, B, C]


def test_strangers_are_left_alone(node):
    (node.caches / "huggingface").mkdir()
    (node.caches / "huggingface/token").write_text("secret")
    (node.caches / "note").write_text("mine")
    prune(node.root, 0)
    assert {"huggingface", "note"} <= set(node.names())


def test_a_folder_that_refuses_is_told_and_the_others_go(node, monkeypatch, capsys):
    take_out = jit_caches._take_out

    def refuse(base, each):
        if each.name == A:
            raise PermissionError(1, "Operation not permitted")
        take_out(base, each)

    monkeypatch.setattr(jit_caches, "_take_out", refuse)
    assert node.run("--prune", "--max-gib", "0") == 1
    assert f"{A} could not be removed: Operation not permitted" in capsys.readouterr().err
    assert node.names() == [A, B, C]


def test_a_switch_notes_until_when_a_stack_was_used(node):
    jit_caches.mark_used(node.root)
    first, *_others = jit_caches.look(node.root)
    assert first.name == B


class Module:
    """As much of AnsibleModule as the bound needs."""

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)


def test_a_roll_out_bounds_the_caches_and_never_fails_by_them(node, monkeypatch):
    monkeypatch.setattr(rank_unit, "ROOT", node.root)
    (node.root / "etc/tandem").mkdir(parents=True)
    (node.root / "etc/tandem/plan.json").write_text('{"cache_max_gib": 0.0001}')
    module = Module()
    assert (rank_unit.bound_caches(module), module.warnings) == ([A, D], [])
    (node.root / "opt/tandem/releases/now/manifest.json").write_text("{cut")
    assert rank_unit.bound_caches(module) == []
    assert "is unknown" in module.warnings[0]
    monkeypatch.setattr(jit_caches, "prune", lambda root, bound: (_ for _ in ()).throw(OSError("disk")))
    assert rank_unit.bound_caches(module) == [] and module.warnings[1] == "disk"


def test_an_empty_node_has_none(tmp_path, capsys):
    assert jit_caches.look(tmp_path) == []
    assert cli.main(["caches", "--root", str(tmp_path), "--prune"]) == 0
    assert "nothing removed; 0.00 GiB in 0 stacks stay" in capsys.readouterr().out
    jit_caches.mark_used(tmp_path)


@pytest.mark.parametrize(
    ("plan", "bound"),
    [
        ('{"cache_max_gib": 7}', 7),
        ('{"cache_max_gib": "7"}', jit_caches.MAX_GIB),
        ('{"cache_max_gib": true}', jit_caches.MAX_GIB),
        ("{}", jit_caches.MAX_GIB),
        ("{cut", jit_caches.MAX_GIB),
    ],
)
def test_the_bound_is_the_plans(tmp_path, plan, bound):
    (tmp_path / "etc/tandem").mkdir(parents=True)
    (tmp_path / "etc/tandem/plan.json").write_text(plan)
    assert jit_caches.max_gib(tmp_path) == bound


def test_the_list_says_whose_each_is(node, capsys):
    assert node.run() == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "current release" in lines[B] and "applied release" in lines[C]
    assert "may go; of release old" in lines[A] and "may go; of no release" in lines[D]


def test_a_dry_run_only_tells(node, capsys):
    assert node.run("--prune", "--max-gib", "0", "--dry-run") == 0
    out = capsys.readouterr().out
    assert f"would be removed: {A}" in out and f"would be removed: {D}" in out
    assert "warning: what stays is in use and larger than the bound" in out
    assert node.names() == [A, B, C, D]


def test_a_bound_that_is_none_is_refused(node, capsys):
    assert node.run("--max-gib", "-1") == 1 and node.run("--max-gib", "nan") == 1
    assert "wanted 0 or more" in capsys.readouterr().err
