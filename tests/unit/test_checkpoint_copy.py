# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights from rank to rank: the whole way over loopback, cut, resumed, damaged, refused, and what no giver gives."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from unittest import mock

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.spark.plugins.action import checkpoint_fetch as action
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint_giver, checkpoint_taker
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_bring import INCOMING, Wish, bring
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_giver import Giver
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_hub import part_of
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import MANIFEST, Entry, load
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_taker import Peer
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_wire import (
    Refused,
    Wire,
    opened_by_giver,
    opened_by_taker,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError
from ansible_collections.tandem.spark.plugins.modules import checkpoint_give
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
SECRET = b"s" * 64
RAILS = ("127.0.0.1", "127.0.0.2")
NAMES = [f"model-{number:05}-of-00006.safetensors" for number in range(1, 7)]


@pytest.fixture
def source(tmp_path):
    """A rank's folder with six files of 3 MB, a small one in a folder, and its list."""
    folder = tmp_path / "source"
    (folder / "inference").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_bytes(os.urandom(3_000_000))
    (folder / "config.json").write_text("{}")
    (folder / "inference" / "generate.py").write_text("print()")
    bring(Wish(folder), [].append)
    return folder


@pytest.fixture
def giver(source):
    made = Giver(source, RAILS, SECRET)
    made.start()
    yield made
    made.close()


def taken(folder, giver, secret=SECRET, patience_s=5.0, **more):
    """What a rank gets, and how many bytes came for it."""
    peer = Peer("spark-a", giver.doors, secret, patience_s=patience_s)
    said = []
    return bring(Wish(folder, peer, **more), said.append), said


def same(folder, source):
    names = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.name[0] != "."]
    return all((folder / name).read_bytes() == (source / name).read_bytes() for name in names)


def test_everything_comes_over_all_rails_and_the_lists_are_equal(tmp_path, source, giver, monkeypatch):
    used = set()
    real = checkpoint_taker.socket.create_connection

    def connect(address, **more):
        used.add(address[0])
        return real(address, **more)

    monkeypatch.setattr(checkpoint_taker.socket, "create_connection", connect)
    made, said = taken(tmp_path / "m", giver)
    assert same(tmp_path / "m", source) and len(made.downloaded) == 8 and used == set(RAILS)
    assert load(tmp_path / "m" / MANIFEST) == load(source / MANIFEST)
    assert said[-1].startswith("brought 8 files") and not list((tmp_path / "m").rglob("*.part"))
    assert (tmp_path / "m" / NAMES[0]).stat().st_mode & 0o777 == 0o644
    again, _said = taken(tmp_path / "m", giver)
    assert not again.changed


def test_only_what_is_wrong_is_copied(tmp_path, source, giver):
    taken(tmp_path / "m", giver)
    content = bytearray((tmp_path / "m" / NAMES[1]).read_bytes())
    content[5] ^= 1
    (tmp_path / "m" / NAMES[1]).write_bytes(content)
    (tmp_path / "m" / NAMES[2]).unlink()
    made, _said = taken(tmp_path / "m", giver)
    assert sorted(made.downloaded) == NAMES[1:3] and same(tmp_path / "m", source)


def test_what_arrived_before_is_not_asked_for_again(tmp_path, source, giver, monkeypatch):
    asked = []
    real = Wire.ask
    monkeypatch.setattr(
        Wire, "ask", lambda wire, **request: (asked.append(request), real(wire, **request))[1]
    )
    entry = load(source / MANIFEST).files[NAMES[0]]
    part = part_of(tmp_path / "m" / INCOMING, NAMES[0], entry)
    part.parent.mkdir(parents=True)
    part.write_bytes((source / NAMES[0]).read_bytes()[:2_000_000])
    taken(tmp_path / "m", giver)
    assert {"file": NAMES[0], "first": 2_000_000} in asked and same(tmp_path / "m", source)


def test_a_part_with_wrong_bytes_is_begun_anew(tmp_path, source, giver):
    entry = load(source / MANIFEST).files[NAMES[0]]
    part = part_of(tmp_path / "m" / INCOMING, NAMES[0], entry)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 2_000_000)
    _made, said = taken(tmp_path / "m", giver)
    assert f"{NAMES[0]} arrived with wrong bytes" in said and same(tmp_path / "m", source)


def test_lines_that_are_cut_are_resumed(tmp_path, source, giver, monkeypatch):
    cut = []
    real = checkpoint_giver._send

    def send(connection, stream, first, size):
        if len(cut) < 3:
            cut.append(first)
            real(connection, stream, first, min(size, first + 1_000_000))
            raise ConnectionResetError
        real(connection, stream, first, size)

    monkeypatch.setattr(checkpoint_giver, "_send", send)
    monkeypatch.setattr(checkpoint_taker, "FIRST_PAUSE_S", 0.01)
    taken(tmp_path / "m", giver)
    assert len(cut) == 3 and same(tmp_path / "m", source)


def test_one_rail_that_is_dead_stops_nothing(tmp_path, source, giver, monkeypatch):
    monkeypatch.setattr(checkpoint_taker, "FIRST_PAUSE_S", 0.01)
    nobody = socket.socket()
    nobody.bind(("127.0.0.3", 0))
    peer = Peer("spark-a", [nobody.getsockname(), giver.doors[0]], SECRET, patience_s=5)
    bring(Wish(tmp_path / "m", peer), [].append)
    assert same(tmp_path / "m", source)


def test_a_giver_that_is_gone_is_told(tmp_path, source, giver):
    giver.close()
    with pytest.raises(FindingError, match="could not be copied from spark-a") as error:
        taken(tmp_path / "m", giver, patience_s=0.3)
    assert error.value.finding.id == "checkpoint.copy.network" and "nothing arrived for" in str(error.value)


def test_bytes_that_are_not_those_of_the_list_come_to_no_place(tmp_path, source, giver):
    content = bytearray((source / NAMES[3]).read_bytes())
    content[9] ^= 1
    (source / NAMES[3]).write_bytes(content)
    with pytest.raises(FindingError) as error:
        taken(tmp_path / "m", giver)
    assert (
        error.value.finding.id == "checkpoint.copy.wrong_bytes" and NAMES[3] in error.value.finding.evidence
    )
    assert not (tmp_path / "m" / NAMES[3]).exists() and (tmp_path / "m" / NAMES[4]).exists()


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"short")])
def test_a_giver_without_what_it_lists_is_told(tmp_path, source, giver, damage):
    damage(source / NAMES[0])
    with pytest.raises(FindingError) as error:
        taken(tmp_path / "m", giver)
    assert error.value.finding.id == "checkpoint.copy.lacks" and NAMES[0] in error.value.finding.evidence


def test_a_disk_that_is_full_is_no_network(tmp_path, source, giver):
    entry = load(source / MANIFEST).files[NAMES[0]]
    part = part_of(tmp_path / "m" / INCOMING, NAMES[0], entry)
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    with pytest.raises(FindingError) as error:
        taken(tmp_path / "m", giver)
    assert error.value.finding.id == "checkpoint.disk.full"


# Who may take


def test_another_secret_opens_nothing(tmp_path, source, giver):
    with pytest.raises(FindingError) as error:
        taken(tmp_path / "m", giver, secret=b"t" * 64)
    assert error.value.finding.id == "checkpoint.copy.refused"


def pair():
    one, two = socket.socketpair()
    one.settimeout(5)
    two.settimeout(5)
    return one, two


def test_a_giver_must_know_the_secret_too():
    one, two = pair()
    threading.Thread(target=lambda: opened_by_giver(one, SECRET), daemon=True).start()
    assert opened_by_taker(two, SECRET).nonces
    one, two = pair()

    def impostor():
        wire = Wire(one)
        wire.say("tandem weights 1 " + "0" * 32)
        wire.line()
        wire.say("0" * 64)

    threading.Thread(target=impostor, daemon=True).start()
    with pytest.raises(Refused, match="giver does not know"):
        opened_by_taker(two, SECRET)


def test_a_proof_that_was_heard_before_opens_nothing(giver):
    def open_with(proof):
        wire = Wire(socket.create_connection(giver.doors[0], timeout=5))
        wire.line()
        wire.say(proof)
        return wire

    honest = socket.create_connection(giver.doors[0], timeout=5)
    heard = []
    real = Wire.say
    with mock.patch.object(Wire, "say", lambda wire, line: (heard.append(line), real(wire, line))[1]):
        opened_by_taker(honest, SECRET)
    with pytest.raises(Exception, match="hung up"):
        open_with(next(line for line in heard if line.count(" ") == 1)).line()


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "config.json/../../secret", MANIFEST, "", 7, None]
)
def test_nothing_but_the_list_is_given(tmp_path, source, giver, name):
    (tmp_path / "secret").write_text("no")
    wire = opened_by_taker(socket.create_connection(giver.doors[0], timeout=5), SECRET)
    assert "is not in the list" in wire.ask(file=name, first=0)["error"]


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200))
def test_noise_opens_nothing_and_stops_nobody(noise):
    one, two = pair()
    two.sendall(noise + b"\n")
    two.shutdown(socket.SHUT_WR)
    with pytest.raises(Exception, match="secret|hung up"):
        opened_by_giver(one, SECRET)
    one.close()
    two.close()


# The process and the module


def module(**params):
    printed = TextIOWrapper(BytesIO())
    with patch_module_args(params), redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        checkpoint_give.main()
    printed.seek(0)
    return {"rc": ended.value.code, **json.loads(printed.read())}


@pytest.fixture
def library(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "tandem").symlink_to(ROOT / "plugins/module_utils")
    return str(tmp_path / "lib")


def test_the_process_gives_and_ends_by_itself(tmp_path, source, library):
    result = module(path=str(source), addresses=list(RAILS), secret="s" * 64, idle=1, library=library)
    assert result["rc"] == 0 and [door[0] for door in result["doors"]] == list(RAILS), result
    peer = Peer("spark-a", [tuple(door) for door in result["doors"]], SECRET)
    bring(Wish(tmp_path / "m", peer), [].append)
    assert same(tmp_path / "m", source)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            socket.create_connection(tuple(result["doors"][0]), timeout=1).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.3)
    raise AssertionError("the giver still listens")


def test_its_secret_is_in_no_process_list(source, library):
    result = module(path=str(source), addresses=["127.0.0.1"], secret="q" * 64, idle=1, library=library)
    assert result["rc"] == 0
    shown = subprocess.run(["ps", "-eo", "args", "eww"], capture_output=True, text=True, check=True).stdout
    assert "tandem.checkpoint_giver" in shown and "q" * 64 not in shown


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"path": "/no/such"}, "The manifest /no/such/.tandem-manifest.json cannot be read"),
        ({"addresses": ["192.0.2.77"]}, "Cannot assign requested address"),
        ({"addresses": []}, "Wanted are an address"),
        ({"secret": "short"}, "secret of 32"),
        ({"library": "/no/such"}, "No module named"),
    ],
)
def test_the_module_says_why_nothing_can_be_given(source, library, params, said):
    result = module(
        **{"path": str(source), "addresses": ["127.0.0.1"], "secret": "s" * 64, "library": library, **params}
    )
    assert result["rc"] and said in result["msg"], result["msg"]


@pytest.mark.parametrize(
    ("check_mode", "given"), [(False, {"doors": [["127.0.0.1", 1]]}), (False, None), (True, None)]
)
def test_the_action_has_the_other_rank_listen_first(monkeypatch, check_mode, given):
    asked = []

    class OtherHost:
        def __init__(self, _action, host, _hostvars):
            self.host = host

        def run(self, module, arguments):
            asked.append((self.host, module, arguments))
            return given or {"failed": True, "msg": "no rail"}

    monkeypatch.setattr(action, "OtherHost", OtherHost)
    args = {"path": "/srv", "from_host": "spark-a", "from_addresses": ["127.0.0.1"]}
    task = mock.Mock(args=args, check_mode=check_mode, async_val=0, delegate_to=None)
    made = action.ActionModule(task, *(mock.Mock() for _each in range(5)))
    made.run_live = mock.Mock(return_value={"by": "job"})
    result = made.run(task_vars={"hostvars": {}})
    if check_mode:
        assert not asked and made.run_live.call_args.args[1]["peer"] is None
    elif given is None:
        assert result["failed"] and result["msg"] == "spark-a: no rail" and not made.run_live.called
    else:
        ((host, name, wish),) = asked
        peer = made.run_live.call_args.args[1]["peer"]
        assert (host, name) == ("spark-a", action.GIVER) and peer["doors"] == given["doors"]
        assert peer["secret"] == wish["secret"] and len(wish["secret"]) == 64


def test_hashes_of_git_are_those_of_git(tmp_path, source, giver):
    """Small files of the hub have no SHA-256."""
    manifest = load(source / MANIFEST)
    content = (source / "config.json").read_bytes()
    digest = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    giver._manifest = manifest.__class__({"config.json": Entry(len(content), None, digest)})
    giver._list = json.dumps(giver._manifest.as_dict()).encode()
    made, _said = taken(tmp_path / "m", giver)
    assert made.downloaded == ["config.json"] and sys.version_info
