# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files against a manifest, by size and by every byte; what a look at them tells, and what the module makes of it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from io import BytesIO, TextIOWrapper
from unittest import mock

import pretend_checkpoint as pretend
import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.spark.plugins.action import checkpoint_info as action
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint_look, file_hashes
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_look import look
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import (
    MANIFEST,
    Entry,
    Manifest,
    ManifestError,
    compare_hashes,
    compare_sizes,
    load,
)
from ansible_collections.tandem.spark.plugins.module_utils.file_hashes import TooSlow, hash_files
from ansible_collections.tandem.spark.plugins.modules import checkpoint_info

SHARD = "model-00002-of-00003.safetensors"
SHA = "0" * 64


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def manifest_of(folder):
    """As the hub lists files: SHA-256 of the large ones, git's own hash of the small ones."""
    files = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        large = path.suffix == ".safetensors"
        files[path.name] = Entry(
            len(content),
            hashlib.sha256(content).hexdigest() if large else None,
            None if large else git_hash(content),
        )
    return Manifest(files, "some/model", "9e165c")


@pytest.fixture
def made(tmp_path):
    """A whole checkpoint and its manifest, which lies in it."""
    folder = pretend.write(tmp_path / "m", pretend.tensors())
    manifest = manifest_of(folder)
    (folder / MANIFEST).write_text(json.dumps(manifest.as_dict()))
    return folder, manifest


def flip(path, at=-1):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def other(path):
    pretend.write_shard(path, {"x": ("BF16", (3,))})


def remove(path):
    path.unlink()


def a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "do", "by_size", "by_hash"),
    [
        (SHARD, lambda path: None, [], []),
        (SHARD, remove, ["missing"], ["missing"]),
        (SHARD, cut, ["truncated"], ["truncated"]),
        (SHARD, lambda path: path.write_bytes(path.read_bytes() + b"x"), ["corrupt"], ["corrupt"]),
        (SHARD, other, ["other_revision"], ["other_revision"]),
        (SHARD, flip, [], ["corrupt"]),
        ("config.json", flip, [], ["corrupt"]),
        ("config.json", cut, ["other_revision"], ["other_revision"]),
        (SHARD, a_folder, ["unreadable"], ["unreadable"]),
    ],
)
def test_a_file_that_is_not_the_manifests(made, name, do, by_size, by_hash):
    folder, manifest = made
    do(folder / name)
    for bad, problems in ((compare_sizes(folder, manifest), by_size), (hashed(folder, manifest)[0], by_hash)):
        assert [each.problem for each in bad] == problems
        assert all(each.file == name and name in each.said for each in bad)


def hashed(folder, manifest):
    return compare_hashes(folder, manifest, [].append)


def test_most_files_of_the_right_size_and_wrong_are_of_another_revision(made):
    folder, manifest = made
    for path in folder.glob("*.safetensors"):
        flip(path)
    assert {each.problem for each in hashed(folder, manifest)[0]} == {"other_revision"}


def test_sums_are_those_of_sha256sum(made):
    folder, manifest = made
    sums = {name: entry.sha256 for name, entry in manifest.files.items() if entry.sha256}
    assert hashed(folder, manifest) == ([], sums)
    text = "".join(
        f"{digest} {' *'[number % 2]}./{name}\n" for number, (name, digest) in enumerate(sums.items())
    )
    (folder / "SHA256SUMS").write_text(text)
    read = load(folder / "SHA256SUMS")
    assert {name: entry.sha256 for name, entry in read.files.items()} == sums
    assert hashed(folder, read) == ([], sums)


def test_a_manifest_is_read_as_it_was_written(made):
    folder, manifest = made
    assert load(folder / MANIFEST) == manifest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        '{"files": {}}',
        '{"files": []}',
        '{"files": {"a": 1}}',
        '{"files": {"a": {"size": -1}}}',
        '{"files": {"a": {"sha256": "12"}}}',
        '{"files": {"a": {"git": 7}}}',
        '{"files": {"../a": {}}}',
        '{"files": {"/a": {}}}',
        f"{SHA}  ../../etc/passwd",
        f"{SHA}  /etc/passwd",
        f"{SHA} a",
        "no sums",
        "{" * 60_000,
    ],
)  # one row a line
def test_what_is_no_manifest(tmp_path, text):
    (tmp_path / "m").write_text(text)
    with pytest.raises(ManifestError, match=str(tmp_path / "m")):
        load(tmp_path / "m")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_manifest_that_cannot_be_read(tmp_path, content):
    if content is not None:
        (tmp_path / "m").write_bytes(content)
    with pytest.raises(ManifestError, match="cannot be read"):
        load(tmp_path / "m")


def test_rate_and_time_left_are_told_on_the_way(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(4 << 20))
    (tmp_path / "b").write_bytes(b"")
    monkeypatch.setattr(file_hashes, "SAY_EVERY_S", 0.01)
    slow(monkeypatch)
    said = []
    digests, unread = hash_files(tmp_path, {"a": "sha256", "b": "git"}, said.append, threads=1)
    assert digests == {"a": hashlib.sha256(bytes(4 << 20)).hexdigest(), "b": git_hash(b"")} and unread == {}
    assert "s left" in "".join(said[:-1]) and said[-1].startswith("hashed 2 files, 0.00 GiB")


def slow(monkeypatch):
    """Each look at the clock of the waiting thread finds the others still at work."""
    real = file_hashes._hash

    def wait(*arguments):
        time.sleep(0.05)
        return real(*arguments)

    monkeypatch.setattr(file_hashes, "_hash", wait)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 3 * 4096 + 5])
@pytest.mark.parametrize("fails_at", [None, 0, 1, 2])
@pytest.mark.parametrize("kind", ["sha256", "git"])
def test_bytes_are_hashed_where_the_kernel_has_them_or_read(tmp_path, monkeypatch, size, fails_at, kind):
    """A window that cannot be had in place, or a kernel that cannot say so, leaves the rest to an ordinary read."""
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "a").write_bytes(content)
    asked = []

    class Libc:
        def madvise(self, address, length, _advice):
            asked.append(length.value)
            return -1 if len(asked) - 1 == fails_at else 0

    monkeypatch.setattr(file_hashes, "WINDOW_BYTES", 4096)
    monkeypatch.setattr(file_hashes, "_LIBC", Libc())
    counts = []
    digest = file_hashes._hash(tmp_path / "a", kind, size, threading.Event(), counts.append)
    assert digest == (hashlib.sha256(content).hexdigest() if kind == "sha256" else git_hash(content))
    assert counts[-1:] == ([size] if size else [])
    windows = -(-size // 4096) if size >= 4096 else 0
    assert len(asked) == (windows if fails_at is None else min(windows, fails_at + 1))


def test_the_kernel_itself_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(file_hashes, "WINDOW_BYTES", 1 << 20)
    (tmp_path / "a").write_bytes(os.urandom(1 << 20) * 3)
    wanted = hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest()
    assert file_hashes._hash(tmp_path / "a", "sha256", 3 << 20, threading.Event(), [].append) == wanted


def test_hashing_ends_in_its_time(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(4 << 20))
    monkeypatch.setattr(file_hashes, "SAY_EVERY_S", 0.01)
    slow(monkeypatch)
    with pytest.raises(TooSlow, match="of 0.00 GiB were hashed"):
        hash_files(tmp_path, {"a": "sha256"}, [].append, limit_s=0)


def test_a_disk_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"1")
    monkeypatch.setattr(file_hashes, "_hash", mock.Mock(side_effect=OSError(5, "Input/output error")))
    bad, digests = compare_hashes(tmp_path, Manifest({"a": Entry(1, SHA)}), [].append)
    assert [asdict(each) for each in bad] == [
        {"file": "a", "problem": "unreadable", "said": "a cannot be read (Input/output error)"}
    ]
    assert digests == {}


def test_a_look_says_all_at_once(made):
    folder, manifest = made
    (folder / "model-00009-of-00046.safetensors").write_bytes(b"")
    (folder / "model-00001-of-00003.safetensors").unlink()
    flip(folder / SHARD)
    found = look(folder, folder / MANIFEST, "sha256", {"shards": 48}, [].append)
    assert [(each.id, each.evidence.split(" ")[0]) for each in found.findings] == [
        ("checkpoint.shard.corrupt", SHARD),
        ("checkpoint.shard.missing", "model-00001-of-00003.safetensors"),
        ("checkpoint.shard.extra", "model-00009-of-00046.safetensors"),
    ]


def test_no_manifest_gives_sums_to_compare(made):
    folder, manifest = made
    found = look(folder, None, "sha256", {}, [].append)
    assert (found.findings, set(found.sha256)) == ([], set(manifest.files))


def module(**params):
    """Runs the module and returns what it prints."""
    printed = TextIOWrapper(BytesIO())
    with patch_module_args(params), redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        checkpoint_info.main()
    printed.seek(0)
    return {"rc": ended.value.code, **json.loads(printed.read())}


def test_the_module(made, tmp_path):
    folder, _manifest = made
    told = tmp_path / "progress"
    result = module(
        path=str(folder), manifest=str(folder / MANIFEST), verify="sha256", ranks=4, progress_file=str(told)
    )
    assert (result["rc"], result["changed"], result["experts"]) == (0, False, "mxfp4")
    assert result["draft"]["layers"] == 3 and result["shards"] == {"expected": 3, "present": 3, "bad": []}
    assert result["per_rank_gib"] == round(result["bytes"] / 4 / 2**30, 2)
    assert result["progress"] == told.read_text().splitlines() != []


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranks": 0}, ["wanted is 1 or more"]),
        ({"path": "/no/such"}, ["holds no config.json"]),
        ({"verify": "sizes", "manifest": "/no/such"}, ["The manifest /no/such cannot be read"]),
        ({"damage": flip, "verify": "sha256"}, ["damaged", SHARD, "[checkpoint.shard.corrupt]"]),
        ({"damage": remove}, ["missing", SHARD]),
        ({"expected": {"draft": {"method": "mtp"}}}, ["checkpoint.draft.differs"]),
    ],
)
def test_the_module_says_what_is_wrong(made, params, said):
    folder, _manifest = made
    damage = params.pop("damage", None)
    if damage:
        damage(folder / SHARD)
        params["manifest"] = str(folder / MANIFEST)
    result = module(**{"path": str(folder), **params})
    assert result["rc"] and all(words in result["msg"] for words in said), result["msg"]


def test_the_list_of_the_folder_itself_counts(made):
    folder, _manifest = made
    assert module(path=str(folder), verify="sha256")["ok"] is True
    flip(folder / SHARD)
    found = module(path=str(folder), verify="sha256")
    assert found["ok"] is False and SHARD in found["msg"] and found["listed"]["revision"] == "9e165c"
    (folder / MANIFEST).unlink()
    assert "sizes want a manifest" in module(path=str(folder), verify="sizes")["msg"]
    assert module(path=str(folder))["listed"] is None


def test_the_engines_user_must_be_able_to_read(made, monkeypatch):
    folder, _manifest = made
    monkeypatch.setattr(checkpoint_look, "HIDDEN", ())
    for each in (folder, *folder.parents):
        if each.stat().st_uid == os.getuid() and each != each.parent:
            each.chmod(each.stat().st_mode | 0o055)
    assert module(path=str(folder), user="nobody")["ok"] is True
    (folder / SHARD).chmod(0o600)
    found = module(path=str(folder), user="nobody")
    assert (
        "[checkpoint.reader.shut]" in found["msg"] and SHARD in found["msg"] and "mode 0600" in found["msg"]
    )
    assert module(path=str(folder), user="root")["ok"] is True
    assert module(path=str(folder), user="no-such-account")["ok"] is True


def test_what_the_unit_does_not_see_is_told(made, monkeypatch):
    folder, _manifest = made
    monkeypatch.setattr(checkpoint_look, "HIDDEN", (str(folder.parent),))
    found = module(path=str(folder), user="root")
    assert "[checkpoint.reader.hidden]" in found["msg"] and "tandem_checkpoint_source" in found["msg"]


def test_what_deserves_a_look_is_a_warning(made, capsys):
    folder, _manifest = made
    (folder / "old.safetensors").write_bytes(b"")
    result = module(path=str(folder), expected={"shards": 48})
    assert result["rc"] == 0
    warned = capsys.readouterr().err
    assert "[checkpoint.kind.differs]" in warned and "[checkpoint.shard.extra]" in warned


@pytest.mark.parametrize(("verify", "live"), [("headers", False), ("sha256", True)])
def test_only_reading_every_byte_is_a_job_of_the_node(verify, live):
    """A quiet run sends one module for the weights, as before."""
    task = mock.Mock(args={"path": "/srv", "verify": verify}, check_mode=False, async_val=0, delegate_to=None)
    made = action.ActionModule(task, *(mock.Mock() for _each in range(5)))
    made.run_live = mock.Mock(return_value={"by": "job"})
    made._execute_module = mock.Mock(return_value={"by": "module"})
    assert made.run(task_vars={})["by"] == ("job" if live else "module")
    assert (made.run_live.call_count, made._execute_module.call_count) == ((1, 0) if live else (0, 1))
