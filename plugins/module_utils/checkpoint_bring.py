# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a checkpoint folder to what its manifest says: what lies on the node is taken over, the rest is downloaded.

File by file, and only what is wrong. A file comes to its place when its hash was found right, and not before. What is
damaged is replaced; what may be somebody's, a whole file of another revision, is moved to a folder beside.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from . import checkpoint_adopt, checkpoint_seals
from .checkpoint_adopt import SourceError
from .checkpoint_hub import Hub, part_of
from .checkpoint_manifest import (
    MANIFEST,
    Bad,
    Entry,
    Manifest,
    ManifestError,
    compare_hashes,
    compare_sizes,
    load,
)
from .checkpoint_taker import Peer
from .file_hashes import TooSlow, hash_files
from .findings import Finding, FindingError, finding
from .progress import at_the_end

INCOMING, ASIDE = ".tandem-incoming", ".tandem-aside"
GIB = 1 << 30
SPARE_BYTES = GIB  # what a disk keeps free after all
LOOK_EVERY_S = 2.0


@dataclass(frozen=True)
class Wish:
    """carrier: who brings what is not on this node; None: nobody. source: a mirror folder or a cache on this node.

    caches: patterns of folders. manifest: a list of the operator's, which counts before every other. read: {file:
    SHA-256} of what was read just now. fresh: seals of an earlier run do not count.
    """

    folder: Path
    carrier: Hub | Peer | None = None
    source: Path | None = None
    caches: tuple[str, ...] = ()
    repository: str | None = None
    revision: str | None = None
    manifest: Path | None = None
    read: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    limit_s: float = float("inf")


@dataclass
class Brought:
    """taken: {file: from where and how}. aside: {file: where the one of before lies}. missing: check mode alone."""

    manifest: Manifest
    right: list[str] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    downloaded: list[str] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)
    listed: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.taken or self.downloaded or self.listed)


def bring(wish: Wish, say: Callable[[str], None]) -> Brought:
    """Raises FindingError, SourceError, ManifestError, TooSlow, OSError; what arrived until then stays."""
    try:
        wish.folder.mkdir(parents=True, exist_ok=True)
        with alone(wish.folder, say, wish.limit_s):
            return _bring(wish, say)
    except OSError as error:
        raise FindingError(disk_finding(wish.folder, error)) from error


def planned(wish: Wish, say: Callable[[str], None]) -> Brought:
    """What `bring` would look for, by sizes alone and without asking the hub. The same errors."""
    kept = _kept(wish)
    manifest = load(wish.manifest) if wish.manifest else kept or Manifest({})
    return Brought(manifest, bad=compare_sizes(wish.folder, manifest), listed=kept is None)


def disk_finding(folder: Path, error: OSError) -> Finding:
    kind = "full" if error.errno in (28, 122) else "error"  # ENOSPC, EDQUOT
    return finding(
        f"checkpoint.disk.{kind}", evidence=f"{error.filename or folder}: {error.strerror or error}"
    )


@contextmanager
def alone(folder: Path, say: Callable[[str], None], limit_s: float) -> Iterator[None]:
    """Waits for another run that works on the folder, such as one whose controller was cut off."""
    (folder / INCOMING).mkdir(exist_ok=True)
    with (folder / INCOMING / "lock").open("w") as lock:
        end, told = time.monotonic() + limit_s, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TooSlow(f"another run still works on {folder}") from None
                if not told:
                    say(f"an earlier run still works on {folder}; waiting for it")
                told = True
                time.sleep(LOOK_EVERY_S)
        yield


def _bring(wish: Wish, say: Callable[[str], None]) -> Brought:
    manifest, read = _manifest(wish, say)
    made = Brought(manifest)
    listed = wish.folder / MANIFEST
    if not listed.is_file() or load(listed) != manifest:
        checkpoint_seals.save(listed, manifest.as_dict())
        made.listed = True
    made.bad = _compare(wish, manifest, say)
    made.right = sorted(manifest.files.keys() - {each.file for each in made.bad})
    checkpoint_seals.write(wish.folder, {name: manifest.files[name] for name in made.right})
    if unusable := [each for each in made.bad if each.problem == "unreadable"]:
        raise FindingError(
            finding("checkpoint.shard.unreadable", evidence="; ".join(each.said for each in unusable))
        )
    if made.bad:
        _fill(wish, made, read, say)
    drop_parts(wish.folder)
    return made


def _kept(wish: Wish) -> Manifest | None:
    """The list of an earlier run, where it is of what is wanted now."""
    if not (wish.folder / MANIFEST).is_file():
        return None
    try:
        kept = load(wish.folder / MANIFEST)
    except ManifestError:
        return None  # cut off while it was written by hand; it can be made anew
    if wish.carrier is not None and wish.carrier.always:
        return None
    asked = wish.carrier is not None or wish.source is not None
    same = kept.repository == wish.repository and wish.revision in (None, kept.revision)
    return kept if same or not asked else None


def _manifest(wish: Wish, say: Callable[[str], None]) -> tuple[Manifest, dict[str, str]]:
    """The list of what belongs here, and {path: SHA-256} of what was read for it.

    What the operator's own list says of a file counts before all others; it need not name every file.
    """
    manifest, read = _listed(wish, say)
    if wish.manifest:
        manifest = replace(manifest, files={**manifest.files, **load(wish.manifest).files})
    return manifest, read


def _listed(wish: Wish, say: Callable[[str], None]) -> tuple[Manifest, dict[str, str]]:
    if kept := _kept(wish):
        return kept, {}
    if wish.carrier is not None:
        say(f"asking {wish.carrier.where} what belongs to the weights")
        return wish.carrier.manifest(say), {}
    folder = wish.folder
    if wish.source is not None:
        try:
            folder = checkpoint_adopt.snapshot(wish.source, wish.repository, wish.revision)
        except SourceError:
            if wish.manifest and wish.source.is_dir():
                return Manifest({}), {}  # files of any name, which the operator's list tells apart
            raise
        if own := checkpoint_adopt.manifest_of(folder, wish.repository):
            return own, {}
    names = [path.relative_to(folder).as_posix() for path in checkpoint_adopt.visible(folder)]
    known = wish.read if folder == wish.folder else {}
    digests, unread = hash_files(
        folder, {name: "sha256" for name in names if name not in known}, say, wish.limit_s
    )
    if unread:
        evidence = "; ".join(f"{folder / name} cannot be read ({why})" for name, why in unread.items())
        raise FindingError(finding("checkpoint.shard.unreadable", evidence=evidence))
    digests |= {name: digest for name, digest in known.items() if name in names}
    if not digests and not wish.manifest:
        raise SourceError(f"{folder} holds no file of a checkpoint. Name the folder that the weights lie in.")
    files = {name: Entry((folder / name).stat().st_size, digest) for name, digest in digests.items()}
    return Manifest(files), {str(folder / name): digest for name, digest in digests.items()}


def _compare(wish: Wish, manifest: Manifest, say: Callable[[str], None]) -> list[Bad]:
    sealed = set() if wish.fresh else checkpoint_seals.known(wish.folder, manifest)
    rest = {name: entry for name, entry in manifest.files.items() if name not in sealed}
    return compare_hashes(wish.folder, replace(manifest, files=rest), say, wish.limit_s, wish.read)[0]


def _fill(wish: Wish, made: Brought, read: Mapping[str, str], say: Callable[[str], None]) -> None:
    wanted = {each.file: made.manifest.files[each.file] for each in made.bad}
    sources = [wish.source] if wish.source else []
    sources += checkpoint_adopt.cached(wish.caches, made.manifest.repository or wish.repository)
    sources += [path for path in [wish.folder / ASIDE] if path.is_dir()]
    found = checkpoint_adopt.find(wanted, sources, wish.folder, say, wish.limit_s, read)
    lacking = {name: entry for name, entry in wanted.items() if name not in found}
    if lacking and wish.carrier is None:
        where = (
            f"{wish.source} has not the right bytes of" if wish.source else "there is nothing to take from:"
        )
        evidence = f"{where} {_named(lacking)}"
        raise FindingError(finding("checkpoint.source.lacks", evidence=evidence))
    copied = sum(wanted[name].size or 0 for name, each in found.items() if each.how == "copy")
    _plan_space(wish.folder, copied, lacking)
    for name, each in found.items():
        part = part_of(wish.folder / INCOMING, name, wanted[name])
        how = checkpoint_adopt.take(each, part)
        if how == "copy" and not _is(part, wanted[name]):
            raise FindingError(
                finding("checkpoint.disk.error", evidence=f"the copy of {each.path} is another file")
            )
        put(wish.folder, name, part, made)
        made.taken[name] = f"{how} of {each.path}"
    checkpoint_seals.write(wish.folder, {name: wanted[name] for name in found})
    if found:
        say(f"took {len(found)} files over from {', '.join(sorted({str(s) for s in sources}))}")
    if lacking:
        _download(wish, lacking, made, say)


def _plan_space(folder: Path, copied: int, lacking: Mapping[str, Entry]) -> None:
    parts = sum(_size(part_of(folder / INCOMING, name, entry)) for name, entry in lacking.items())
    check_space(folder, copied + sum(entry.size or 0 for entry in lacking.values()) - parts)


def check_space(folder: Path, wanted: int) -> None:
    """Raises FindingError where so many bytes more would not leave the disk its spare."""
    free = shutil.disk_usage(folder).free
    if wanted > 0 and free < wanted + SPARE_BYTES:
        values = {
            "free": f"{free / GIB:.1f}",
            "wanted": f"{(wanted + SPARE_BYTES) / GIB:.1f}",
            "folder": folder,
        }
        raise FindingError(finding("checkpoint.disk.small", **values))


def _take(
    wish: Wish,
    left: Mapping[str, Entry],
    made: Brought,
    say: Callable[[str], None],
    name: str,
    digest: str | None,
) -> bool:
    """Puts a file that arrived in its place; False where its bytes are wrong."""
    part = part_of(wish.folder / INCOMING, name, left[name])
    wanted = left[name].sha256 or left[name].git
    if not (_is(part, left[name]) if digest is None else digest == wanted):
        part.unlink()
        say(f"{name} arrived with wrong bytes")
        return False
    put(wish.folder, name, part, made)
    checkpoint_seals.write(wish.folder, {name: left[name]})
    made.downloaded.append(name)
    return True


def _download(wish: Wish, lacking: Mapping[str, Entry], made: Brought, say: Callable[[str], None]) -> None:
    """Each file is hashed while the next ones arrive; one with wrong bytes is asked for once more."""
    carrier = wish.carrier.at(made.manifest.revision)
    left, folder = dict(lacking), wish.folder / INCOMING
    began = time.monotonic()
    for _round in range(2):
        checks: dict[str, Future] = {}
        check = partial(_take, wish, left, made, say)
        with ThreadPoolExecutor(1) as pool:  # one at a time: seals are one file
            carrier.download(
                left,
                folder,
                say,
                lambda name, digest, checks=checks, check=check: checks.update(
                    {name: pool.submit(check, name, digest)}
                ),
                wish.limit_s,
            )
        left = {name: left[name] for name, job in checks.items() if not job.result()}
        if not left:
            total = sum(entry.size or 0 for entry in lacking.values())
            say(at_the_end("brought", len(lacking), total, time.monotonic() - began))
            return
    raise carrier.error("wrong_bytes", _named(left))


def put(folder: Path, name: str, part: Path, made: Brought) -> None:
    """Moves a file with the right bytes to its place. What is whole and another revision's makes room beside."""
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    problem = next((each.problem for each in made.bad if each.file == name), "missing")
    if problem == "other_revision" and place.exists():
        beside = folder / ASIDE / f"{name}.{time.strftime('%Y%m%d-%H%M%S')}"
        beside.parent.mkdir(parents=True, exist_ok=True)
        os.rename(place, beside)
        made.aside[name] = str(beside)
    if part.stat().st_nlink == 1:
        part.chmod(0o644)
    os.replace(part, place)


def drop_parts(folder: Path) -> None:
    """Removes what this collection itself had begun to write and needs no more; the lock's file stays."""
    for path in (folder / INCOMING).rglob("*.part"):
        path.unlink()


def _is(path: Path, entry: Entry) -> bool:
    kind = "sha256" if entry.sha256 else "git"
    digests, unread = hash_files(path.parent, {path.name: kind}, lambda _line: None, threads=1)
    if unread:
        raise OSError(5, unread[path.name], str(path))
    return digests[path.name] == (entry.sha256 or entry.git)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _named(files: Mapping[str, Entry]) -> str:
    names = sorted(files)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
