# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint folder is brought to its manifest: what is wrong is found and only that comes anew, or is taken over."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import threading
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import BytesIO, TextIOWrapper

import pretend_checkpoint as pretend
import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.spark.plugins.module_utils import (
    checkpoint_adopt,
    checkpoint_bring,
    checkpoint_seals,
)
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_bring import (
    ASIDE,
    INCOMING,
    Wish,
    bring,
)
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_hub import part_of
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import (
    MANIFEST,
    Entry,
    Manifest,
    load,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError
from ansible_collections.tandem.spark.plugins.modules import checkpoint_fetch

REPOSITORY, REVISION = "some/model", "9e165c30" * 5
SHARD = "model-00002-of-00003.safetensors"


def git(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def listed(folder):
    """As the hub lists files: SHA-256 of the large ones, git's own hash of the small ones."""
    files = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        content = path.read_bytes()
        large = path.suffix == ".safetensors"
        files[path.relative_to(folder).as_posix()] = Entry(
            len(content),
            hashlib.sha256(content).hexdigest() if large else None,
            None if large else git(content),
        )
    return Manifest(files, REPOSITORY, REVISION)


@dataclass(frozen=True)
class Hub:
    """Stands for the hub where the client itself does not matter; test_checkpoint_hub.py has the real one."""

    folder: object
    repository: str = REPOSITORY
    revision: str = REVISION
    endpoint: str | None = None
    asked: list = field(default_factory=list)
    where = "the hub"
    always = False

    def at(self, revision):
        return self

    def manifest(self, say):
        self.asked.append("manifest")
        return replace(listed(self.folder), revision=self.revision)

    def download(self, files, folder, say, arrived, limit_s):
        for name, entry in files.items():
            self.asked.append(name)
            part = part_of(folder, name, entry)
            part.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / name, part)
            arrived(name, None)


@pytest.fixture
def good(tmp_path):
    folder = pretend.write(tmp_path / "good", pretend.tensors())
    (folder / "inference").mkdir()
    (folder / "inference" / "generate.py").write_text("print()\n")
    return folder


@pytest.fixture
def there(good, tmp_path):
    """A folder that was brought here before."""
    made = bring(Wish(tmp_path / "m", Hub(good), repository=REPOSITORY, revision=REVISION), [].append)
    assert len(made.downloaded) == 6
    return tmp_path / "m"


def wish(folder, hub, **more):
    return Wish(folder, hub, repository=REPOSITORY, revision=REVISION, **more)


def same(folder, good):
    names = [path.relative_to(good) for path in good.rglob("*") if path.is_file()]
    return all((folder / name).read_bytes() == (good / name).read_bytes() for name in names)


def flip(path, at=-1):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def other(path):
    pretend.write_shard(path, {"x": ("BF16", (3,))})


def remove(path):
    path.unlink()


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        (SHARD, flip, "corrupt"),
        (SHARD, cut, "truncated"),
        (SHARD, remove, "missing"),
        (SHARD, other, "other_revision"),
        ("config.json", flip, "corrupt"),
        ("inference/generate.py", remove, "missing"),
    ],
)
def test_only_what_is_wrong_is_fetched_anew(there, good, name, damage, problem):
    before = {path: path.stat().st_mtime_ns for path in there.rglob("*") if path.is_file()}
    damage(there / name)
    hub = Hub(good)
    made = bring(wish(there, hub), [].append)
    assert [(each.file, each.problem) for each in made.bad] == [(name, problem)]
    assert hub.asked == [name] == made.downloaded and same(there, good)
    kept = {path for path in before if path.name not in (name.split("/")[-1], "lock", checkpoint_seals.SEALS)}
    assert {path: path.stat().st_mtime_ns for path in kept} == {path: before[path] for path in kept}


def test_what_may_be_somebodys_is_moved_and_not_removed(there, good):
    other(there / SHARD)
    theirs = (there / SHARD).read_bytes()
    made = bring(wish(there, Hub(good)), [].append)
    (place,) = made.aside.values()
    assert f"/{ASIDE}/{SHARD}" in place and open(place, "rb").read() == theirs
    (there / "model-00009-of-00046.safetensors").write_bytes(b"extra")
    bring(wish(there, Hub(good)), [].append)
    assert (there / "model-00009-of-00046.safetensors").read_bytes() == b"extra"


def test_damage_is_not_kept(there, good):
    flip(there / SHARD)
    assert bring(wish(there, Hub(good)), [].append).aside == {}
    assert not (there / ASIDE).exists()


def test_another_revision_changes_only_what_differs(there, good):
    """Three of six files are the same in the next revision."""
    for number in (1, 2):
        flip(good / f"model-0000{number}-of-00003.safetensors")
    (good / "config.json").write_text(json.dumps(pretend.config(dspark_block_size=6)) + "\n")
    later = "b" * 40
    hub = Hub(good, revision=later)
    made = bring(Wish(there, hub, repository=REPOSITORY, revision=later), [].append)
    assert hub.asked[0] == "manifest" and len(made.downloaded) == 3 and same(there, good)


def test_what_an_earlier_run_found_right_is_not_read_again(there, good, monkeypatch):
    monkeypatch.setattr(
        checkpoint_bring, "compare_hashes", lambda _f, manifest, *_more: (list(manifest.files), {})
    )
    assert bring(wish(there, None), [].append).bad == []
    os.utime(there / SHARD)
    monkeypatch.setattr(checkpoint_bring, "_fill", lambda *_all: None)
    monkeypatch.setattr(
        checkpoint_bring,
        "compare_hashes",
        lambda _f, manifest, *_more: (unread.extend(manifest.files), ([], {}))[1],
    )
    unread = []
    bring(wish(there, None), [].append)
    assert unread == [SHARD]


def test_a_bit_that_rotted_is_found_when_every_byte_is_asked_for(there, good):
    info = (there / SHARD).stat()
    with (there / SHARD).open("r+b") as stream:  # as a disk would do it: no trace outside of the bytes
        stream.seek(-1, 2)
        last = stream.read(1)
        stream.seek(-1, 2)
        stream.write(bytes([last[0] ^ 1]))
    os.utime(there / SHARD, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert bring(wish(there, Hub(good)), [].append).bad == []
    assert [each.file for each in bring(wish(there, Hub(good), fresh=True), [].append).bad] == [SHARD]
    assert same(there, good)


def test_sums_of_this_run_are_not_read_twice(there, good, monkeypatch):
    sums = {
        name: "0" * 64 if name == SHARD else e.sha256 for name, e in listed(good).files.items() if e.sha256
    }
    hub = Hub(good)
    made = bring(wish(there, hub, fresh=True, read=sums), [].append)
    assert [each.file for each in made.bad] == [SHARD] and hub.asked == [SHARD]


def test_a_folder_without_a_list_gets_one(good):
    made = bring(Wish(good), [].append)
    assert (made.bad, made.listed, made.manifest.revision) == ([], True, None)
    assert (
        load(good / MANIFEST).files[SHARD].sha256 == hashlib.sha256((good / SHARD).read_bytes()).hexdigest()
    )
    assert bring(Wish(good), [].append).changed is False


def test_nothing_to_take_from_is_said(there):
    flip(there / SHARD)
    with pytest.raises(FindingError) as error:
        bring(wish(there, None), [].append)
    assert error.value.finding.id == "checkpoint.source.lacks" and SHARD in error.value.finding.evidence
    assert (there / SHARD).exists(), "it is replaced, not removed"


def test_an_operators_own_list_counts(there, good, tmp_path):
    (tmp_path / "sums").write_text(f"{hashlib.sha256(b'x').hexdigest()}  {SHARD}\n")
    with pytest.raises(FindingError):
        bring(wish(there, None, manifest=tmp_path / "sums"), [].append)


# Taking over


def cache(folder, good, with_ref=False, revision=REVISION, mode=0o644):
    """A Hugging Face cache with one snapshot, as its client lays it out."""
    home = folder / f"models--{REPOSITORY.replace('/', '--')}"
    (home / "blobs").mkdir(parents=True)
    for name, entry in listed(good).files.items():
        blob = home / "blobs" / (entry.sha256 or entry.git)
        shutil.copyfile(good / name, blob)
        blob.chmod(mode)
        link = home / "snapshots" / revision / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if with_ref:
        (home / "refs").mkdir()
        (home / "refs" / "main").write_text(revision)
    return home


@pytest.mark.parametrize("with_ref", [True, False])
@pytest.mark.parametrize("deep", ["", "models--some--model", f"models--some--model/snapshots/{REVISION}"])
def test_a_cache_is_taken_over_also_without_its_references(tmp_path, good, with_ref, deep):
    """Field case 115: every blob is there, refs/main is not, and an offline engine finds nothing."""
    cache(tmp_path / "hub", good, with_ref)
    made = bring(wish(tmp_path / "m", None, source=tmp_path / "hub" / deep), [].append)
    assert same(tmp_path / "m", good) and len(made.taken) == 6 and made.manifest.revision == REVISION
    assert {how.split(" of ")[0] for how in made.taken.values()} <= {"hard link", "reflink"}


def test_a_cache_with_somebodys_lock_is_taken_over(tmp_path, good):
    """Field case 117: a container's root left locks behind. None is asked for, and nothing is written there."""
    home = cache(tmp_path / "hub", good)
    locks = tmp_path / "hub" / ".locks" / home.name
    locks.mkdir(parents=True)
    lock = (locks / "builder.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (locks / "builder.lock").chmod(0)
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in home.rglob("*"))
    bring(wish(tmp_path / "m", None, source=tmp_path / "hub"), [].append)
    assert same(tmp_path / "m", good)
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in home.rglob("*")) == before


def test_blobs_that_others_must_not_read_are_copied(tmp_path, good):
    home = cache(tmp_path / "hub", good, mode=0o600)
    made = bring(wish(tmp_path / "m", None, source=home), [].append)
    assert {how.split(" of ")[0] for how in made.taken.values()} <= {"copy", "reflink"}
    assert (tmp_path / "m" / SHARD).stat().st_mode & 0o777 == 0o644
    assert all(blob.stat().st_mode & 0o777 == 0o600 for blob in (home / "blobs").iterdir())


def test_a_users_cache_saves_the_download(tmp_path, good):
    home = cache(tmp_path / "home" / "ann" / "hub", good)
    (home / "blobs" / listed(good).files[SHARD].sha256).unlink()
    hub = Hub(good)
    made = bring(wish(tmp_path / "m", hub, caches=(f"{tmp_path}/home/*/hub",)), [].append)
    assert hub.asked == ["manifest", SHARD] and len(made.taken) == 5 and same(tmp_path / "m", good)


def test_a_blob_that_rotted_is_not_taken(tmp_path, good):
    home = cache(tmp_path / "hub", good)
    flip(home / "blobs" / listed(good).files[SHARD].sha256)
    with pytest.raises(FindingError) as error:
        bring(wish(tmp_path / "m", None, source=home), [].append)
    assert error.value.finding.id == "checkpoint.source.lacks" and SHARD in error.value.finding.evidence
    hub = Hub(good)
    bring(wish(tmp_path / "m2", hub, caches=(str(tmp_path / "hub"),)), [].append)
    assert hub.asked == ["manifest", SHARD] and same(tmp_path / "m2", good)


def test_a_snapshot_with_a_link_to_nothing_is_not_whole(tmp_path, good):
    home = cache(tmp_path / "hub", good)
    (home / "blobs" / listed(good).files[SHARD].sha256).unlink()
    with pytest.raises(FindingError, match="nothing here has them right"):
        bring(wish(tmp_path / "m", None, source=home), [].append)


@pytest.mark.parametrize("rename", [False, True])
def test_a_mirror_folder_is_taken_over_by_its_bytes(tmp_path, good, rename):
    """Also one whose files were renamed, where the list is the hub's."""
    if not rename:
        made = bring(wish(tmp_path / "m", None, source=good), [].append)
        assert same(tmp_path / "m", good) and len(made.taken) == 6
        return
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for number, path in enumerate(sorted(each for each in good.rglob("*") if each.is_file())):
        shutil.copyfile(path, mirror / f"file-{number}")
    manifest = tmp_path / "list.json"
    manifest.write_text(json.dumps(listed(good).as_dict()))
    made = bring(wish(tmp_path / "m", None, source=mirror, manifest=manifest), [].append)
    assert same(tmp_path / "m", good) and len(made.taken) == 6


@pytest.mark.parametrize(
    ("revision", "said"), [("c" * 40, f"holds the revisions {REVISION}, wanted is c"), (REVISION, None)]
)
def test_a_cache_of_another_revision_is_told(tmp_path, good, revision, said):
    home = cache(tmp_path / "hub", good)
    source = Wish(tmp_path / "m", source=home, repository=REPOSITORY, revision=revision)
    if said is None:
        assert bring(source, [].append).taken
        return
    with pytest.raises(checkpoint_adopt.SourceError, match=said):
        bring(source, [].append)


@pytest.mark.parametrize(("make", "said"), [(None, "is no folder"), ("empty", "holds no config.json")])
def test_a_source_that_is_none(tmp_path, make, said):
    if make:
        (tmp_path / "source").mkdir()
    with pytest.raises(checkpoint_adopt.SourceError, match=said):
        bring(wish(tmp_path / "m", None, source=tmp_path / "source"), [].append)


def test_a_folder_set_aside_is_looked_at_before_the_hub(there, good):
    """Back to the revision of before: nothing of it is downloaded again."""
    kept = {path.name: path.read_bytes() for path in good.glob("*.safetensors")}
    for path in good.glob("*.safetensors"):
        flip(path)
    bring(Wish(there, Hub(good, revision="b" * 40), repository=REPOSITORY, revision="b" * 40), [].append)
    for name, content in kept.items():
        (good / name).write_bytes(content)
    hub = Hub(good)
    made = bring(wish(there, hub), [].append)
    assert hub.asked == ["manifest"] and len(made.taken) == 3 and same(there, good)


def test_two_runs_at_once_wait_for_each_other(there, good, monkeypatch):
    monkeypatch.setattr(checkpoint_bring, "LOOK_EVERY_S", 0.05)
    said, done = [], threading.Event()
    with (there / INCOMING / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: (bring(wish(there, None), said.append), done.set()))
        second.start()
        assert not done.wait(0.3)
    second.join(10)
    assert done.is_set() and "an earlier run still works" in said[0]


# The module


def module(**params):
    printed = TextIOWrapper(BytesIO())
    with patch_module_args(params), redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        checkpoint_fetch.main()
    printed.seek(0)
    return {"rc": ended.value.code, **json.loads(printed.read())}


def test_the_module(tmp_path, good):
    told = tmp_path / "progress"
    result = module(path=str(tmp_path / "m"), source=str(good), progress_file=str(told), _ansible_diff=True)
    assert (result["rc"], result["changed"], result["files"]) == (0, True, 6) and len(result["taken"]) == 6
    assert f"{SHARD} missing" in result["diff"]["before"]
    assert result["progress"] == told.read_text().splitlines() != []
    again = module(path=str(tmp_path / "m"), source=str(good))
    assert (again["rc"], again["changed"]) == (0, False)


def test_check_mode_brings_nothing(there, good):
    remove(there / SHARD)
    result = module(
        path=str(there), source="hub", repository=REPOSITORY, revision=REVISION, _ansible_check_mode=True
    )
    assert (result["rc"], result["changed"]) == (0, True) and not (there / SHARD).exists()
    assert [each["file"] for each in result["bad"]] == [SHARD]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"source": "hub"}, "repository"),
        ({"source": "somewhere"}, "wanted is hub or the path"),
        ({"source": "/no/such"}, "/no/such is no folder"),
        ({"manifest": "/no/such"}, "The manifest /no/such cannot be read"),
        ({"source": "hub", "repository": "a/b", "revision": "c", "python": "/no"}, "[checkpoint.hub.client]"),
        ({}, "holds no file of a checkpoint"),
    ],
)
def test_the_module_says_what_is_wrong(tmp_path, params, said):
    result = module(path=str(tmp_path / "m"), **params)
    assert result["rc"] and said in result["msg"], result["msg"]


def test_a_token_is_in_no_result(tmp_path):
    result = module(
        path=str(tmp_path / "m"),
        source="hub",
        repository="a/b",
        revision="c",
        python="/no",
        token="hf_secret",
    )
    assert "hf_secret" not in json.dumps(result)
