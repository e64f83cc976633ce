# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights that lie on this node already, in a mirror folder or in a Hugging Face cache, taken over by their hash.

How a folder is laid out does not matter, nor whether a cache knows its own references: a file counts where its bytes
are right. Nothing is written to where they come from, and no lock of a cache is taken or asked for.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .checkpoint_manifest import MANIFEST, Entry, Manifest, ManifestError, load
from .file_hashes import hash_files

FICLONE = 0x40049409  # linux/fs.h
_NAME_OF_BLOB = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


class SourceError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Found:
    """A file with the wanted bytes. how it can be had: link (nothing is written) or copy."""

    path: Path
    how: str


def cached(folders: Iterable[str], repository: str | None) -> list[Path]:
    """The folders of a repository in Hugging Face caches; a pattern stands for the caches of several users."""
    if not repository:
        return []
    name = "models--" + repository.replace("/", "--")
    return sorted({Path(each) for folder in folders for each in glob.glob(f"{folder}/{glob.escape(name)}")})


def snapshot(source: Path, repository: str | None, revision: str | None) -> Path:
    """The folder with config.json that a source means: itself, or one in a cache. SourceError."""
    if not source.is_dir():
        raise SourceError(f"{source} is no folder on this node. Name the folder that the weights lie in.")
    if (source / "config.json").is_file():
        return source
    of_model = [source, *cached([str(source), f"{source}/hub"], repository)]
    there = sorted(each for folder in of_model for each in folder.glob("snapshots/*") if each.is_dir())
    for each in there:
        if each.name == revision:
            return each
    if len(there) == 1 and revision is None:
        return there[0]
    if there:
        names = ", ".join(each.name for each in there)
        raise SourceError(
            f"{source} holds the revisions {names}, wanted is {revision or 'one alone'}. Fill the cache with that one, "
            "or correct checkpoint.revision in tandem_profile_overrides."
        )
    raise SourceError(
        f"{source} holds no config.json and no snapshot of {repository or 'a checkpoint'}. Name the folder of the "
        "checkpoint itself, or that of a Hugging Face cache."
    )


def manifest_of(folder: Path, repository: str | None) -> Manifest | None:
    """What a mirror or a snapshot of a cache says of its files itself; None where it says nothing.

    A cache names its blobs after the hash that the hub gave them.
    """
    for name in (MANIFEST, "SHA256SUMS"):
        if (folder / name).is_file():
            try:
                return load(folder / name)
            except ManifestError as error:
                raise SourceError(str(error)) from error
    files = {}
    for path in visible(folder):
        blob = os.path.basename(os.path.realpath(path)) if path.is_symlink() else ""
        if not _NAME_OF_BLOB.fullmatch(blob):
            return None
        known = {"sha256": blob} if len(blob) == 64 else {"git": blob}
        # A link may lead to a blob that is not there any more: whoever wants the file finds it missing.
        size = path.stat().st_size if path.exists() else None
        files[path.relative_to(folder).as_posix()] = Entry(size, **known)
    return Manifest(files, repository, folder.name) if files else None


def visible(folder: Path) -> Iterator[Path]:
    """Every file below a folder, links to files too; what is hidden is not part of a checkpoint."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


def _files(source: Path) -> Iterator[Path]:
    """Every regular file below a source, each once, whatever its name and however many links lead to it."""
    seen = set()
    for root, _folders, names in os.walk(source):
        for name in sorted(names):
            path = Path(root, name)
            try:
                info = path.stat()
            except OSError:
                continue
            if path.is_file() and (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                yield path


def find(
    wanted: Mapping[str, Entry],
    sources: Iterable[Path],
    target: Path,
    say: Callable[[str], None],
    limit_s: float = float("inf"),
    read: Mapping[str, str] | None = None,
) -> dict[str, Found]:
    """{wanted file: where its bytes are}. Only what may be one is read, and not what `read` ({path: SHA-256}) has.

    Raises TooSlow.
    """
    by_hash = {("sha256", digest): Path(path) for path, digest in (read or {}).items()}
    candidates = [path for source in sources for path in _files(source) if str(path) not in (read or {})]
    for kind in ("sha256", "git"):
        chosen = {str(path): kind for path in candidates if _may_be_one(path, kind, wanted)}
        digests, _unread = hash_files(Path("/"), chosen, say, limit_s)
        for path, digest in digests.items():
            by_hash.setdefault((kind, digest), Path(path))
    found = {}
    for name, entry in wanted.items():
        path = by_hash.get(("sha256", entry.sha256 or "")) or by_hash.get(("git", entry.git or ""))
        if path is not None:
            found[name] = Found(path, "link" if _linkable(path, target) else "copy")
    return found


def _may_be_one(path: Path, kind: str, wanted: Mapping[str, Entry]) -> bool:
    """By its size; where a list tells none, by its name."""
    size = path.stat().st_size
    return any(
        getattr(entry, kind)
        and (entry.size == size if entry.size is not None else Path(name).name == path.name)
        for name, entry in wanted.items()
    )


def _linkable(path: Path, target: Path) -> bool:
    """On the same file system, and readable for all: a link shares its owner and mode with the file."""
    info = path.stat()
    return info.st_dev == target.stat().st_dev and bool(info.st_mode & 0o004)


def take(found: Found, staged: Path) -> str:
    """Makes `staged` have the bytes: as a reflink, a hard link or a copy. Returns which one it became. OSError."""
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.unlink(missing_ok=True)
    real = os.path.realpath(found.path)
    if _reflink(real, staged):
        return "reflink"
    if found.how == "link":
        try:
            os.link(real, staged)
            return "hard link"
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
    shutil.copyfile(real, staged)
    return "copy"


def _reflink(source: str, staged: Path) -> bool:
    """A copy that shares its blocks until one of the two is written to; not every file system can."""
    with open(source, "rb") as stream, staged.open("wb") as made:
        try:
            fcntl.ioctl(made, FICLONE, stream.fileno())
            return True
        except OSError:
            pass
    staged.unlink()
    return False
