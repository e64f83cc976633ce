# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted against found, and what is written."""

from __future__ import annotations

import errno
import json
import os

import pytest
from ansible.module_utils import basic
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.tandem.spark.plugins.module_utils import files
from ansible_collections.tandem.spark.plugins.module_utils.files import Found, Wanted
from ansible_collections.tandem.spark.plugins.modules import managed_files


@pytest.mark.parametrize(
    ("wanted", "found", "differing"),
    [
        (Wanted("/p", content=b"a"), Found("absent"), ["state"]),
        (Wanted("/p", content=b"a"), Found("file", b"a", mode=0o644), []),
        (Wanted("/p", content=b"a"), Found("file", b"b", mode=0o644), ["content"]),
        (Wanted("/p", content=b"a", mode=0o600), Found("file", b"b", mode=0o644), ["content", "mode"]),
        (Wanted("/p", content=b"a", owner="root"), Found("file", b"a", owner="nobody"), ["owner"]),
        (Wanted("/p", "directory"), Found("file", b""), ["state"]),
        (Wanted("/p", "link", target="x"), Found("link", target="y"), ["target"]),
        (Wanted("/p", "link", target="x", mode=0o644), Found("link", target="x"), []),
        (Wanted("/p", "absent"), Found("absent"), []),
        (Wanted("/p", "absent"), Found("directory"), ["state"]),
    ],
)
def test_differences(wanted, found, differing):
    assert files.differences(wanted, found) == differing


@pytest.fixture
def make(tmp_path):
    """Makes a path under tmp_path as wanted, the way the module does."""

    def run(name, *arguments, **keywords):
        item = Wanted(str(tmp_path / name), *arguments, **keywords)
        files.apply(item, files.look(item.path, with_content=True))
        return files.differences(item, files.look(item.path, with_content=True))

    return run


@pytest.mark.parametrize(
    "keywords",
    [
        {"content": b"text", "mode": 0o640},
        {"state": "directory", "mode": 0o750},
        {"state": "link", "target": "elsewhere"},
        {"state": "absent"},
    ],
)
def test_what_is_made_is_what_was_wanted(make, keywords):
    assert make("sub/folder/name", **keywords) == []
    assert make("sub/folder/name", **keywords) == []


def test_a_reader_never_sees_half_a_file(make, tmp_path):
    make("f", content=b"old")
    with open(tmp_path / "f", "rb") as reader:
        make("f", content=b"new")
        assert reader.read() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["f"]


@pytest.mark.parametrize("state", ["file", "link", "directory"])
def test_something_of_another_kind_is_never_overwritten(make, tmp_path, state):
    kept = tmp_path / "data"
    if state == "directory":
        kept.write_text("somebody's")
    else:
        kept.mkdir()
        (kept / "inside").write_text("somebody's")
    with pytest.raises(files.FilesError, match="move it away"):
        make("data", state=state, content=b"x", target="x")
    assert (kept if state == "directory" else kept / "inside").read_text() == "somebody's"


@pytest.mark.parametrize("name", ["a\0b", "a" * 300])
def test_a_path_that_no_file_system_takes(make, name):
    with pytest.raises(files.FilesError, match="could not be looked at"):
        make(name, content=b"x")


@pytest.mark.parametrize("keywords", [{"content": b"new"}, {"state": "link", "target": "new"}])
def test_nothing_is_left_beside_a_path_that_could_not_be_replaced(make, tmp_path, monkeypatch, keywords):
    def full(*_arguments, **_keywords):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fchown", "chown"):
        monkeypatch.setattr(files.os, name, full)
    with pytest.raises(files.FilesError, match="No space left"):
        make("f", **keywords)
    assert os.listdir(tmp_path) == []


ENTRY = {name: spec.get("default") for name, spec in managed_files.FILE_SPEC.items()} | {"content": "x"}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"path": "relative"}, "not absolute"),
        ({"path": "/p", "content": None}, "neither content nor src"),
        ({"path": "/p", "state": "link"}, "no target"),
        ({"path": "/p", "mode": "420"}, "four octal digits"),
        ({"path": "/p", "mode": "-001"}, "four octal digits"),
        ({"path": "/p", "content": "\ud800"}, "UTF-8"),
    ],
)
def test_an_entry_that_cannot_be_meant(entry, why):
    with pytest.raises(files.FilesError, match=why):
        managed_files.wanted_from({**ENTRY, **entry})


def test_one_path_has_one_spelling_and_one_entry():
    wanted = [managed_files.wanted_from({**ENTRY, "path": path}) for path in ("/a//b/", "/a/b")]
    assert {item.path for item in wanted} == {"/a/b"}
    with pytest.raises(files.FilesError, match="/a/b: named more than once"):
        files.refuse_twice(wanted)


def test_an_account_that_does_not_exist_is_named(make):
    with pytest.raises(files.FilesError, match="no-such-account"):
        make("f", content=b"", owner="no-such-account")


def test_purge_names_only_files_that_the_list_does_not(tmp_path):
    (tmp_path / "kept").write_text("")
    (tmp_path / "old").write_text("")
    (tmp_path / "folder").mkdir()
    wanted = [Wanted(str(tmp_path), "directory", purge=True), Wanted(str(tmp_path / "kept"), content=b"")]
    assert files.strangers(wanted) == [str(tmp_path / "old")]
    assert files.strangers([Wanted(str(tmp_path / "missing"), "directory", purge=True)]) == []


def test_what_goes_away_is_shown_as_absent():
    gone = Wanted("/p", "absent")
    assert files.describe(gone, Found("file", b"a", mode=0o644), "before") == "file mode=0644\na"
    assert files.describe(gone, Found("file", b"a", mode=0o644), "after") == "absent\n"


def test_a_secret_is_not_in_the_diff():
    wanted = Wanted("/p", content=b"hunter2", sensitive=True)
    text = files.describe(wanted, Found("file", b"hunter1"), "before") + files.describe(
        wanted, Found("absent"), "after"
    )
    assert "hunter" not in text and "not shown" in text


def test_a_secret_is_neither_in_the_result_nor_in_the_nodes_log(tmp_path, monkeypatch, capsys):
    """Ansible writes the options of every module to the log of the node, which more people read than root."""
    logged = []
    monkeypatch.setattr(AnsibleModule, "_log_to_syslog", lambda _self, message: logged.append(message))
    monkeypatch.setattr(basic, "has_journal", False)
    path = str(tmp_path / "key")
    for entry, seen in (({"secret": "hunter2"}, False), ({"content": "hunter2"}, True)):
        (tmp_path / "key").unlink(missing_ok=True)
        given = {"files": [{"path": path, **entry}], "_ansible_diff": True, "_ansible_verbosity": 4}
        with patch_module_args(given), pytest.raises(SystemExit):
            managed_files.main()
        said = capsys.readouterr().out
        assert json.loads(said)["changed"] and (tmp_path / "key").read_text() == "hunter2"
        assert ("hunter2" in said) == ("hunter2" in "".join(logged)) == seen, (said, logged)
        assert logged.pop().startswith("Invoked with")
