# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources on the controller, with real pip and git over files: by hash or not at all, and nothing of them is run.

And the wheels that were built, beside a list of an index.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import zipfile

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.build_plan import Source
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError
from ansible_collections.tandem.spark.plugins.plugin_utils import build_sources, built_wheels, wheelhouse

SETUP = "raise SystemExit('a source was run on the controller')\n"


def packed(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index that is a folder."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return folder


@pytest.mark.parametrize("backend", ["setuptools.build_meta", "flit_core.buildapi", "own_backend", None])
def test_an_archive_of_the_index_is_brought_and_not_run(index, tmp_path, backend):
    files = {"thing-1.0/setup.py": SETUP, "thing-1.0/own_backend.py": SETUP}
    if backend:
        path = '\nbackend-path = ["."]' if backend == "own_backend" else ""
        files["thing-1.0/pyproject.toml"] = (
            f'[build-system]\nrequires = []\nbuild-backend = "{backend}"{path}\n'
        )
    digest = packed(index / "thing-1.0.tar.gz", files)
    said = []
    source = Source("thing", "pypi", "thing==1.0", digest)
    assert build_sources.bring([source], tmp_path / "cache", said.append) == {f"{digest}.tar": digest}
    assert said == [f"source thing: thing==1.0 {digest[:12]}"]
    (index / "thing-1.0.tar.gz").unlink()
    said.clear()
    assert build_sources.bring([source], tmp_path / "cache", said.append) and not said


def test_another_archive_of_that_version_is_refused(index, tmp_path):
    packed(index / "thing-1.0.tar.gz", {"thing-1.0/setup.py": SETUP})
    source = Source("thing", "pypi", "thing==1.0", "0" * 64)
    with pytest.raises(FindingError, match="could not be brought") as error:
        build_sources.bring([source], tmp_path / "cache", lambda line: None)
    assert (
        error.value.finding.id == "build.source.missing" and f"{'0' * 64}.tar" in error.value.finding.remedy
    )


def test_an_archive_by_its_address(tmp_path):
    digest = packed(tmp_path / "a.tar.gz", {"a/b": "c"})
    cache = tmp_path / "cache"
    source = Source("a", "url", (tmp_path / "a.tar.gz").as_uri(), digest)
    assert build_sources.bring([source], cache, lambda line: None) == {source.file: digest}
    other = Source("a", "url", (tmp_path / "a.tar.gz").as_uri(), "0" * 64)
    with pytest.raises(FindingError) as error:
        build_sources.bring([other], cache, lambda line: None)
    assert error.value.finding.id == "build.source.other" and digest in error.value.finding.summary
    absent = Source("a", "url", (tmp_path / "absent").as_uri(), "1" * 64)
    with pytest.raises(FindingError, match="absent"):
        build_sources.bring([absent], cache, lambda line: None)
    # Put there by hand, it needs no way out.
    (cache / f"{digest}.tar").unlink()
    (tmp_path / "a.tar.gz").rename(cache / f"{digest}.tar")
    assert build_sources.bring([source], cache, lambda line: None) == {source.file: digest}


def git(folder, *words):
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder, files):
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, files)


def commit(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)
        git(folder, "add", name)
    git(folder, "commit", "--quiet", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def names(path):
    with tarfile.open(path) as tar:
        return sorted(member.name for member in tar if member.isfile())


def test_a_commit_with_what_lies_in_it(tmp_path, monkeypatch):
    for variable, value in {"COUNT": "1", "KEY_0": "protocol.file.allow", "VALUE_0": "always"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{variable}", value)
    repository(tmp_path / "inner", {"kernel.cuh": "x"})
    first = repository(tmp_path / "outer", {"a.py": "1"})
    git(tmp_path / "outer", "submodule", "--quiet", "add", str(tmp_path / "inner"), "inner")
    second = commit(tmp_path / "outer", {"a.py": "2"})
    cache, address = tmp_path / "cache", str(tmp_path / "outer")
    bare, whole = Source("o", "git", address, first), Source("o", "git", address, second, submodules=True)
    found = build_sources.bring([bare, whole], cache, lambda line: None)
    assert names(cache / bare.file) == ["source/a.py"]
    assert names(cache / whole.file) == ["source/.gitmodules", "source/a.py", "source/inner/kernel.cuh"]
    for path in cache.glob("*.tar"):
        path.unlink()
    assert build_sources.bring([bare, whole], cache, lambda line: None) == found, "the same bytes each time"
    (cache / bare.file).write_bytes(b"other")
    with pytest.raises(FindingError, match="another content than when it was checked out"):
        build_sources.bring([bare], cache, lambda line: None)
    with pytest.raises(FindingError, match="could not be brought"):
        build_sources.bring([Source("o", "git", address, "0" * 40)], cache, lambda line: None)


# -- what was built

LOCK = """# comment
aiohttp==3.14.4 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
torch==2.14.0 ; platform_machine == 'aarch64' \\
    --hash=sha256:cc
uv==0.13.9 --hash=sha256:dd
"""


def test_a_list_with_what_was_built():
    records = [
        {"name": "torch", "version": "2.14.0+cu132", "sha256": "ee"},
        {"name": "Deep_Gemm", "version": "2.8.1", "sha256": "ff"},
    ]
    text = built_wheels.composed(LOCK, records)
    assert text == (
        "aiohttp==3.14.4 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "deep-gemm==2.8.1 \\\n    --hash=sha256:ff\n"
        "torch==2.14.0+cu132 \\\n    --hash=sha256:ee\n"
        "uv==0.13.9 --hash=sha256:dd\n"
    )
    assert built_wheels.composed(text, records) == text


def record(content=b"wheel", **told):
    return {
        "name": "thing",
        "version": "1.0",
        "file": "thing-1.0-py3-none-any.whl",
        "sha256": hashlib.sha256(content).hexdigest(),
        **told,
    }


def test_a_wheel_is_kept_only_with_its_content(tmp_path):
    incoming = tmp_path / "incoming"
    incoming.write_bytes(b"whee")
    assert built_wheels.keep(tmp_path, "d", record(), incoming) is None
    assert built_wheels.kept(tmp_path, "d") is None
    incoming.write_bytes(b"wheel")
    path = built_wheels.keep(tmp_path, "d", record(), incoming)["path"]
    assert built_wheels.kept(tmp_path, "d")["path"] == path
    (tmp_path / "built/d" / record()["file"]).write_bytes(b"cut")
    assert built_wheels.kept(tmp_path, "d") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"file": "../x", "bytes": 1}', '{"file": 1}'])
def test_a_record_that_makes_no_sense_is_none(tmp_path, text):
    (tmp_path / "built/d").mkdir(parents=True)
    (tmp_path / "built/d/record.json").write_text(text)
    assert built_wheels.kept(tmp_path, "d") is None


def test_a_built_wheel_is_in_the_wheelhouse_beside_the_others(index, tmp_path):
    wheel = tmp_path / "elsewhere" / "thing-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {
            "METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
            "RECORD": "",
        }.items():
            archive.writestr(f"thing-1.0.dist-info/{name}", text)
        archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    told = record(wheel.read_bytes())
    lock = built_wheels.write_lock(tmp_path / "locks", "x", built_wheels.composed("", [told]))
    before = lock.stat().st_mtime_ns
    built_wheels.write_lock(tmp_path / "locks", "x", lock.read_text())
    assert lock.stat().st_mtime_ns == before
    target = wheelhouse.Target(lock, "3.12", "aarch64", "2.39", placed=(wheel,))
    _folder, wheels = wheelhouse.fill(target, tmp_path / "cache", lambda line: None)
    assert wheels == {wheel.name: told["sha256"]}
