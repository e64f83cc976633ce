# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source archives on the controller, each under the hash that the profile names; fetched once, nothing of them is run.

pip would run an archive's own build for its metadata; a backend that says name and version stands in for it. git gives
a commit by its name, which is a hash over all of it, and a commit of a submodule lies in its parent.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils.build_plan import Source
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError, finding
from ansible_collections.tandem.spark.plugins.module_utils.runtime import sha256_of

# Imported by every Python that pip starts below PYTHONPATH; it acts only where pip asks a build backend.
STAND_IN = """
import os, pathlib, sys, types

name = os.environ.get("_PYPROJECT_HOOKS_BUILD_BACKEND", "")
if name and "SOURCE_PIN" in os.environ:
    def get_requires_for_build_wheel(config_settings=None):
        return []

    def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
        package, version = os.environ["SOURCE_PIN"].split("==")
        folder = pathlib.Path(metadata_directory, f"{package.replace('-', '_')}-{version}.dist-info")
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {package}\\nVersion: {version}\\n")
        (folder / "WHEEL").write_text("Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        return folder.name

    module, _colon, inner = name.partition(":")
    os.environ.pop("_PYPROJECT_HOOKS_BACKEND_PATH", None)
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        made = types.ModuleType(".".join(parts[:end]))
        made.__path__ = []
        sys.modules[made.__name__] = made
    holder = sys.modules[module]
    for each in filter(None, inner.split(".")):
        setattr(holder, each, types.SimpleNamespace())
        holder = getattr(holder, each)
    for hook in (get_requires_for_build_wheel, prepare_metadata_for_build_wheel):
        setattr(holder, hook.__name__, hook)
"""

Say = Callable[[str], None]


class SourceError(Exception):
    """The last words of what was to bring a source."""


def bring(sources: Sequence[Source], cache: Path, say: Say) -> dict[str, str]:
    """{file: sha256} of the archives, all of them in `cache`. Two runs at once wait for each other.

    Raises FindingError with the place where an archive can be put by hand.
    """
    cache.mkdir(parents=True, exist_ok=True)
    found = {}
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in sources:
            found[source.file] = _one(source, cache / source.file, say)
    return found


def _one(source: Source, target: Path, say: Say) -> str:
    if not target.exists():
        say(f"source {source.name}: {source.what} {source.check[:12]}")
        try:
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                _bring(source, Path(folder), target)
        except (SourceError, OSError) as error:
            values = {"name": source.name, "what": source.what, "file": target}
            raise FindingError(finding("build.source.missing", evidence=str(error), **values)) from error
    digest = _digest(source, target)
    if source.kind != "git" and digest != source.check:
        values = {
            "name": source.name,
            "what": f"{source.what}, {target}",
            "found": digest,
            "wanted": source.check,
        }
        raise FindingError(finding("build.source.other", **values))
    return digest


def _digest(source: Source, path: Path) -> str:
    """The archive's SHA-256. That of a checkout was taken when it was made: git vouches for no archive."""
    kept = path.with_suffix(".sha256")
    if source.kind == "git":
        try:
            told = kept.read_text().strip()
            if len(told) == 64 and told == sha256_of(path):
                return told
        except OSError:
            pass
        raise FindingError(
            finding(
                "build.source.other",
                name=source.name,
                what=f"{source.what}, {path}",
                found="another content than when it was checked out (remove it, it is brought anew)",
                wanted=source.check,
            )
        )
    return sha256_of(path)


def _bring(source: Source, folder: Path, target: Path) -> None:
    if source.kind == "pypi":
        os.replace(download(source.what, source.check, folder), target)
    elif source.kind == "url":
        _download_url(source.what, folder / "archive")
        os.replace(folder / "archive", target)
    else:
        _check_out(source, folder / "tree")
        digest = pack(folder / "tree", folder / "archive")
        target.with_suffix(".sha256").write_text(digest + "\n")
        os.replace(folder / "archive", target)


def download(pin: str, sha256: str, folder: Path) -> Path:
    """The source archive of a pin NAME==VERSION from the package index, by pip and its own configuration.

    Raises SourceError with pip's last words.
    """
    for name in ("list.txt", "stand-in/sitecustomize.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / "list.txt").write_text(f"{pin} --hash=sha256:{sha256}\n")
    (folder / "stand-in/sitecustomize.py").write_text(STAND_IN)
    out = folder / "out"
    words = [
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary=:all:",
        "--no-build-isolation",
        "--require-hashes",
    ]
    words += [f"--dest={out}", f"--requirement={folder / 'list.txt'}"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "stand-in"), "SOURCE_PIN": pin}
    _run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words], environment)
    return next(out.iterdir())


def _download_url(url: str, target: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, target.open("wb") as stream:
            while piece := answer.read(1 << 20):
                stream.write(piece)
    except (urllib.error.URLError, ValueError) as error:
        raise SourceError(f"{url}: {error}") from error


def _check_out(source: Source, tree: Path) -> None:
    """One commit, without history; where a server does not give it by its name, with all of it."""
    git = ["git", "-C", str(tree), "-c", "advice.detachedHead=false"]
    _run(["git", "init", "--quiet", str(tree)])
    try:
        _run([*git, "fetch", "--quiet", "--depth=1", source.what, source.check])
    except SourceError:
        _run([*git, "fetch", "--quiet", source.what, "+refs/*:refs/remotes/all/*"])
    _run([*git, "checkout", "--quiet", source.check])
    if source.submodules:
        # A submodule's address may be relative to the repository's.
        _run([*git, "remote", "add", "origin", source.what])
        _run([*git, "submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"])


def pack(tree: Path, target: Path) -> str:
    """An archive of a tree without what git keeps in it, below one top folder; its SHA-256."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if os.path.basename(member.name) == ".git":
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 315619200  # the same for all: nothing of today gets in
        return member

    # gzip writes the name and the time of day into its header where it is not given others.
    with (
        target.open("wb") as stream,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(tree.iterdir()):
            tar.add(path, f"source/{path.name}", filter=plain)
    return sha256_of(target)


def _run(words: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Raises SourceError with the command's last words."""
    try:
        done = subprocess.run(
            list(words),
            env=environment or {**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise SourceError(f"{words[0]} is not on the controller ({error.strerror})") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-1500:]
        raise SourceError(f"`{' '.join(words[:4])} …` ended with {done.returncode}: {said}")
