# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines compiled on this node, a folder for each stack, and how all of it is kept below a bound.

The folder of a stack is named by the first sixteen hex digits of its fingerprint and outlives releases and reboots.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import engine_state, records
from .kernel_files import Tree, is_number

CACHES = "var/cache/tandem"
PLAN = "etc/tandem/plan.json"
GIB = 1 << 30
# Four stacks of 5 GiB: vLLM, FlashInfer and DeepGEMM leave a few GiB for each.
MAX_GIB = 20
FINGERPRINT_DIGITS = 16
_STACK = re.compile(r"[0-9a-f]{16}")
_GOING = re.compile(r"\.[0-9a-f]{16}\.going")  # taken out of use, and not yet deleted
_OCTAL = re.compile(r"\\([0-7]{3})")


class CachesError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Cache:
    """One stack's folder. bytes: as the disk counts them; used: newest change in it, seconds since 1970.

    whole: counted to the end. releases: those that name it. kept_for: why it stays, whatever its size.
    """

    name: str
    bytes: int
    used: float
    whole: bool = True
    releases: tuple[str, ...] = ()
    kept_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pruned:
    """removed: in order; left: what remains; troubles: what could not be removed, and why."""

    removed: tuple[Cache, ...]
    left: tuple[Cache, ...]
    troubles: tuple[str, ...]


def max_gib(root: Path = Path("/")) -> float:
    """The bound that the plan sets, or the default."""
    bound = (records.read_json(root / PLAN) or {}).get("cache_max_gib")
    return bound if isinstance(bound, (int, float)) and not isinstance(bound, bool) else MAX_GIB


def stacks_of_releases(root: Path) -> dict[str, str | None]:
    """{release: folder of its stack}; None where its manifest does not say."""
    found = {}
    for folder in (root / engine_state.RELEASES[1:]).glob("*/"):
        fingerprint = (records.read_json(folder / "manifest.json") or {}).get("fingerprint")
        name = fingerprint[:FINGERPRINT_DIGITS] if isinstance(fingerprint, str) else ""
        found[folder.name] = name if _STACK.fullmatch(name) else None
    return found


def _in_force(root: Path) -> dict[str, str]:
    """{word: release} of the releases whose stacks are never touched."""
    state = engine_state.look(root, {})
    return {word: state[word] for word in ("current", "applied") if state[word]}


def mounts_below(folder: str, mountinfo: str) -> list[str]:
    """The mount points inside a folder, as /proc/self/mountinfo spells them: a bind mount looks like a folder."""
    points = [line.split()[4] for line in mountinfo.splitlines() if len(line.split()) > 4]
    plain = [_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), point) for point in points]
    return [point for point in plain if point.startswith(folder.rstrip("/") + "/")]


def _working_in(folder: str, proc: Tree) -> dict[str, list[str]]:
    """{name in the folder: processes that work there}."""
    found: dict[str, list[str]] = {}
    for pid in (name for name in proc.names() if is_number(name)):
        try:
            place = os.readlink(proc.path(pid, "cwd"))
        except OSError:
            continue
        if place.startswith(f"{folder}/"):
            found.setdefault(place[len(folder) + 1 :].split("/")[0], []).append(pid)
    return found


def _size(folder: str, deadline: float | None) -> tuple[int, float, bool]:
    """(bytes on disk, newest change, counted to the end). Links are not followed, hard links count once."""
    info = os.lstat(folder)
    total, newest, device = info.st_blocks * 512, info.st_mtime, info.st_dev
    seen: set[int] = set()
    folders = [folder]
    while folders:
        if deadline is not None and time.monotonic() > deadline:
            return total, newest, False
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            return total, newest, False
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:  # it went away meanwhile
                continue
            if info.st_dev != device or (info.st_nlink > 1 and info.st_ino in seen):
                continue
            if stat.S_ISDIR(info.st_mode):
                folders.append(entry.path)
            else:
                seen.add(info.st_ino)
            total, newest = total + info.st_blocks * 512, max(newest, info.st_mtime)
    return total, newest, True


def look(root: Path = Path("/"), limit_s: float | None = None) -> list[Cache]:
    """Every stack's folder, the one used last first. Raises CachesError where they cannot be listed."""
    base = os.path.realpath(root / CACHES)
    try:
        names = sorted(
            entry.name
            for entry in os.scandir(base)
            if _STACK.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CachesError(f"{base} cannot be listed ({error.strerror}). Run this as root.") from error
    deadline = None if limit_s is None else time.monotonic() + limit_s
    stacks, in_force = stacks_of_releases(root), _in_force(root)
    live = os.path.realpath(root) == "/"
    working = _working_in(base, Tree("/proc")) if live else {}
    mounted = mounts_below(base, Tree("/proc/self").text("mountinfo") or "")
    found = []
    for name in names:
        kept_for = [f"{word} release" for word, release in in_force.items() if stacks.get(release) == name]
        if name in working:
            kept_for.append(f"working folder of processes {', '.join(working[name])}")
        kept_for += [f"{point} is mounted" for point in mounted if f"{point}/".startswith(f"{base}/{name}/")]
        try:
            size, used, whole = _size(os.path.join(base, name), deadline)
        except OSError:  # it went away meanwhile
            continue
        releases = tuple(sorted(release for release, stack in stacks.items() if stack == name))
        found.append(Cache(name, size, used, whole, releases, tuple(kept_for)))
    return sorted(found, key=lambda cache: (-cache.used, cache.name))


def choose(caches: list[Cache], max_bytes: float) -> list[Cache]:
    """What must go, the one unused for longest first, until the rest fits or only what is kept is left."""
    total = sum(cache.bytes for cache in caches)
    going = []
    for cache in sorted(caches, key=lambda cache: (cache.used, cache.name)):
        if total > max_bytes and cache.bytes and not cache.kept_for:
            going.append(cache)
            total -= cache.bytes
    return going


def refuse_unknown(root: Path) -> None:
    """Raises CachesError where it is not known which folders are in use: then none may go."""
    stacks = stacks_of_releases(root)
    unknown = [f"{release} ({word})" for word, release in _in_force(root).items() if not stacks.get(release)]
    if unknown:
        raise CachesError(
            f"The stack of release {' and '.join(unknown)} is unknown, because its manifest cannot be read; "
            "nothing was removed. Write it anew with site.yml."
        )


@contextmanager
def _opened(root: Path) -> Iterator[int]:
    handle = os.open(os.path.realpath(root / CACHES), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


def _take_out(base: int, cache: Cache) -> None:
    """Renames a folder, so that no engine ever starts with half of it, and makes it anew where a release names it.

    All by names in an open folder, following no link: the engine's user may write here, and root deletes.
    """
    info = os.stat(cache.name, dir_fd=base, follow_symlinks=False)
    os.rename(cache.name, f".{cache.name}.going", src_dir_fd=base, dst_dir_fd=base)
    if cache.releases:  # a unit of that release works in it
        os.mkdir(cache.name, 0o700, dir_fd=base)
        made = os.open(cache.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=base)
        try:
            os.fchown(made, info.st_uid, info.st_gid)
            os.fchmod(made, stat.S_IMODE(info.st_mode))
        finally:
            os.close(made)


def _sweep(base: int) -> None:
    """Deletes what was taken out, also by a run that was cut off."""
    for name in sorted(os.listdir(base)):
        if _GOING.fullmatch(name):
            shutil.rmtree(name, dir_fd=base)  # follows no link inside, and refuses to be one


def prune(root: Path, max_bytes: float) -> Pruned:
    """Removes folders until all fit into the bound. Raises CachesError where it is unknown what is in use."""
    refuse_unknown(root)
    caches = look(root)
    removed, troubles = [], []
    try:
        with _opened(root) as base:
            _sweep_or_tell(base, troubles)
            for cache in choose(caches, max_bytes):
                try:
                    _take_out(base, cache)
                except OSError as error:
                    troubles.append(f"{cache.name} could not be removed: {error.strerror or error}")
                    continue
                removed.append(cache)
                _sweep_or_tell(base, troubles)
    except FileNotFoundError:
        return Pruned((), (), ())
    left = tuple(cache for cache in caches if cache not in removed)
    return Pruned(tuple(removed), left, tuple(troubles))


def _sweep_or_tell(base: int, troubles: list[str]) -> None:
    """What cannot be deleted is out of use all the same, and is tried again at the next prune."""
    try:
        _sweep(base)
    except OSError as error:
        troubles.append(f"{error.filename or 'a folder'} could not be deleted: {error.strerror or error}")


def mark_used(root: Path) -> None:
    """Notes that the current release's stack was in use until now. Nothing to note is no fault."""
    stacks = stacks_of_releases(root)
    name = stacks.get(_in_force(root).get("current", ""))
    if name:
        try:
            os.utime(root / CACHES / name, follow_symlinks=False)
        except OSError:
            pass  # it only orders what may go


def growth_mark(root: Path, limit_s: float) -> str | None:
    """Changes whenever something is compiled for the current release. None where that cannot be told in time."""
    release = engine_state.current(root)
    name = stacks_of_releases(root).get(release) if release else None
    if not name:
        return None
    try:
        size, used, whole = _size(os.path.realpath(root / CACHES / name), time.monotonic() + limit_s)
    except OSError:
        return None
    return f"{size} {used}" if whole else None


def summary(caches: list[Cache], bound_gib: float) -> Mapping[str, object]:
    """What status tells of them. Sizes in GiB."""
    return {
        "gib": round(sum(cache.bytes for cache in caches) / GIB, 2),
        "max_gib": bound_gib,
        "whole": all(cache.whole for cache in caches),
        "stacks": [
            {"name": cache.name, "gib": round(cache.bytes / GIB, 2), "kept_for": list(cache.kept_for)}
            for cache in caches
        ],
    }
