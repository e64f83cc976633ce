# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloads by the real huggingface_hub from a hub on this machine: cut, damaged, refused, slowed down, out of room."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import namedtuple
from pathlib import Path

import pretend_checkpoint as pretend
import pretend_hub
import pytest
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint, checkpoint_bring, checkpoint_hub
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_bring import Wish, bring
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_hub import Hub
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import MANIFEST, load
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY, REVISION, TOKEN = "some/model", "9e165c30" * 5, "hf_of_a_test"
SHARD = "model-00002-of-00003.safetensors"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library as it lies on a node."""
    folder = tmp_path_factory.mktemp("lib")
    (folder / "tandem").symlink_to(ROOT / "plugins/module_utils")
    return str(folder)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = pretend.write(tmp_path_factory.mktemp("hub") / "m", pretend.tensors(width=512))
    (folder / "inference").mkdir()
    (folder / "inference" / "generate.py").write_text("print()\n")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    return folder


@pytest.fixture
def fetch(weights, library, tmp_path):
    """Runs one download against a hub with these faults; returns what came of it, the hub and what was said."""

    def run(patience_s=20.0, limit_s=60.0, token=None, revision=REVISION, repository=REPOSITORY, **hub):
        said = []
        with pretend_hub.Hub(weights, REPOSITORY, REVISION, **hub) as server:
            client = Hub(sys.executable, library, repository, revision, server.url, token, 4, patience_s)
            wish = Wish(tmp_path / "m", client, repository=repository, revision=revision, limit_s=limit_s)
            try:
                return bring(wish, said.append), server, said
            except FindingError as error:
                return error.finding, server, said

    return run


def whole(folder, weights):
    """Every file of the hub's is there, and no other, hidden ones aside."""
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    wanted = {path.relative_to(weights) for path in weights.rglob("*") if path.is_file()}
    shown = {path for path in there if not path.parts[0].startswith(".")}
    return shown == wanted - {Path(".gitattributes")} and all(
        (folder / path).read_bytes() == (weights / path).read_bytes() for path in shown
    )


def test_a_revision_arrives_whole_and_a_second_run_asks_nothing(fetch, weights, tmp_path):
    made, hub, said = fetch()
    assert whole(tmp_path / "m", weights) and len(made.downloaded) == 6
    kept = load(tmp_path / "m" / MANIFEST)
    assert (kept.repository, kept.revision) == (REPOSITORY, REVISION)
    assert not [name for name in kept.files if name.startswith(".")]
    assert kept.files[SHARD].sha256 and kept.files["config.json"].git
    assert checkpoint.read(tmp_path / "m").bad == []
    again, hub, _said = fetch()
    assert (again.changed, again.bad, hub.asked) == (False, [], [])


def test_a_branch_is_resolved_once(fetch, weights, tmp_path):
    made, _hub, _said = fetch(revision="main")
    assert made.manifest.revision == REVISION and whole(tmp_path / "m", weights)


def test_a_line_that_is_cut_is_resumed_where_it_was(fetch, weights, tmp_path):
    cut = []

    def fault(name, first, content):
        if name == SHARD and len(cut) < 2:
            cut.append(first)
            return content[: 1_500_000 * len(cut)]
        return content

    made, hub, said = fetch(fault=fault)
    assert whole(tmp_path / "m", weights)
    size = (weights / SHARD).stat().st_size
    assert hub.sent[SHARD] < 1.5 * size, "what had arrived was not asked for again"
    assert any(ranged for _method, path, ranged, _token in hub.asked if path.endswith(SHARD))


def test_a_run_that_gave_up_is_taken_up_by_the_next(fetch, weights, tmp_path):
    found, hub, _said = fetch(
        patience_s=1, fault=lambda name, first, content: content[:1_500_000] if not first else b""
    )
    assert found.id == "checkpoint.hub.network" and "nothing arrived" in found.evidence
    assert not (tmp_path / "m" / SHARD).exists(), "nothing half comes to its place"
    arrived = sum(path.stat().st_size for path in (tmp_path / "m").rglob("*.part"))
    assert arrived > 0
    _made, hub, _said = fetch()
    total = sum(path.stat().st_size for path in weights.rglob("*.*"))
    assert whole(tmp_path / "m", weights) and sum(hub.sent.values()) <= total - arrived
    assert not list((tmp_path / "m").rglob("*.part"))


@pytest.mark.long
def test_a_run_out_of_time_keeps_what_arrived(fetch, weights, tmp_path):
    def fault(_name, first, content):
        if first:
            time.sleep(60)  # a line that went silent
        return content[:2_000_000]

    found, _hub, _said = fetch(limit_s=10, fault=fault)
    assert found.id == "checkpoint.hub.slow"
    assert list((tmp_path / "m").rglob("*.part"))
    fetch()
    assert whole(tmp_path / "m", weights)


def flipped(content):
    return bytes([content[0] ^ 1]) + content[1:]


def test_wrong_bytes_are_asked_for_once_more(fetch, weights, tmp_path):
    tried = []

    def fault(name, first, content):
        if name == SHARD:
            tried.append(first)
            return flipped(content) if len(tried) == 1 else content
        return content

    made, _hub, said = fetch(fault=fault)
    assert whole(tmp_path / "m", weights) and tried == [0, 0]
    assert f"{SHARD} arrived with wrong bytes" in said


def test_wrong_bytes_never_come_to_their_place(fetch, weights, tmp_path):
    found, _hub, _said = fetch(
        fault=lambda name, _first, content: flipped(content) if name == SHARD else content
    )
    assert (found.id, found.evidence) == ("checkpoint.hub.wrong_bytes", SHARD)
    assert not (tmp_path / "m" / SHARD).exists() and not list((tmp_path / "m").rglob("*.part"))
    _made, hub, _said = fetch()
    assert set(hub.sent) == {SHARD}, "what was right is not downloaded twice"


def test_a_hub_that_wants_a_token(fetch, weights, tmp_path):
    found, hub, said = fetch(token=None, **{"refuse": lambda _path: (401, {"X-Error-Code": "GatedRepo"})})
    assert found.id == "checkpoint.hub.token" and "tandem_checkpoint_token" in found.remedy
    assert len(hub.asked) == 1, "it is of no use to ask again"


def test_the_token_goes_to_the_hub_alone(weights, library, tmp_path):
    said = []
    with pretend_hub.Hub(weights, REPOSITORY, REVISION, token=TOKEN) as server:
        client = Hub(sys.executable, library, REPOSITORY, REVISION, server.url, TOKEN, 4, 20)
        bring(Wish(tmp_path / "m", client, repository=REPOSITORY, revision=REVISION), said.append)
    assert whole(tmp_path / "m", weights)
    given = {path.startswith("/blob/"): token for _method, path, _range, token in server.asked}
    assert given == {True: False, False: True}
    written = "".join(path.read_text() for path in (tmp_path / "m").rglob(".*") if path.is_file())
    assert TOKEN not in written + "".join(said)


def test_a_wrong_token_is_not_told(weights, library, tmp_path):
    said = []
    with pretend_hub.Hub(weights, REPOSITORY, REVISION, token="another") as server:
        client = Hub(sys.executable, library, REPOSITORY, REVISION, server.url, TOKEN, 4, 5)
        with pytest.raises(FindingError) as error:
            bring(Wish(tmp_path / "m", client, repository=REPOSITORY, revision=REVISION), said.append)
    assert error.value.finding.id == "checkpoint.hub.token"
    assert TOKEN not in "".join(said) + str(error.value) + "".join(error.value.finding.as_dict()["evidence"])


def test_a_hub_that_wants_to_be_left_alone_for_a_second(fetch, weights, tmp_path):
    refused = []

    def refuse(path):
        if "/resolve/" in path and len(refused) < 1:
            refused.append(path)
            return 429, {"Retry-After": "1"}
        return None

    _made, _hub, said = fetch(refuse=refuse)
    assert whole(tmp_path / "m", weights) and any("once more in 2 s" in line for line in said)


def test_a_hub_that_wants_to_be_left_alone_for_an_hour(fetch):
    found, hub, _said = fetch(refuse=lambda _path: (429, {"Retry-After": "3600"}))
    assert found.id == "checkpoint.hub.rate" and len(hub.asked) == 1


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"revision": "f" * 40}, "checkpoint.hub.revision"),
        ({"repository": "some/other"}, "checkpoint.hub.repository"),
        ({"repository": "some/model/x"}, "checkpoint.hub.repository"),
        ({"refuse": lambda path: (403, {}) if "/api/" in path else None}, "checkpoint.hub.token"),
        ({"refuse": lambda path: (500, {}), "patience_s": 1}, "checkpoint.hub.network"),
    ],
)
def test_what_the_hub_does_not_give(fetch, asked, wanted):
    assert fetch(**asked)[0].id == wanted


def test_a_hub_that_is_not_there(library, tmp_path):
    client = Hub(sys.executable, library, REPOSITORY, REVISION, "http://127.0.0.1:9", None, 1, 1)
    with pytest.raises(FindingError, match="could not be downloaded from http://127.0.0.1:9"):
        bring(Wish(tmp_path / "m", client), [].append)


@pytest.mark.parametrize(
    ("python", "said"), [("/no/such/python", "No such file"), ("/usr/bin/false", "ended with 1")]
)
def test_an_environment_without_the_client(tmp_path, python, said):
    with pytest.raises(FindingError, match=said) as error:
        bring(Wish(tmp_path / "m", Hub(python, "/no", REPOSITORY, REVISION)), [].append)
    assert error.value.finding.id == "checkpoint.hub.client"


def test_a_disk_that_becomes_full(fetch, weights, tmp_path):
    """The part of one shard lies on a device that is always full."""
    folder = tmp_path / "m" / checkpoint_bring.INCOMING
    folder.mkdir(parents=True)
    entry = pretend_hub.Hub(weights, REPOSITORY, REVISION).entry(SHARD)
    (folder / f"{SHARD}.{entry['lfs']['oid'][:12]}.part").symlink_to("/dev/full")
    found, _hub, _said = fetch()
    assert found.id == "checkpoint.disk.full" and "the next run goes on" in found.remedy


def test_too_little_room_is_found_before_a_byte_is_asked_for(fetch, weights, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10, 0, checkpoint_bring.SPARE_BYTES + 100))
    found, hub, _said = fetch()
    assert found.id == "checkpoint.disk.small" and re.search(
        r"1\.0 GiB free, the weights want 1\.0 GiB", found.summary
    )
    assert hub.sent == {} and not [path for method, path, *_rest in hub.asked if method == "HEAD"]


@pytest.mark.long
def test_rate_and_time_left_are_told(fetch, monkeypatch):
    monkeypatch.setattr(checkpoint_hub, "SAY_EVERY_S", 0.2)
    _made, _hub, said = fetch(rate_bytes_s=2_000_000)
    assert [line for line in said if line.startswith("downloaded 0.0 of 0.0 GiB") and "s left" in line]


def test_the_client_of_the_tests_is_the_engines():
    lists = [ROOT / "requirements/dev.txt", *ROOT.glob("roles/runtime/files/[rv]*.txt")]
    named = [re.findall(r"^huggingface-hub==(\S+)", path.read_text(), re.MULTILINE) for path in lists]
    assert len({pin for pins in named for pin in pins}) == 1 and len([pins for pins in named if pins]) >= 3
