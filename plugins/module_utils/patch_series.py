# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of patches against a source tree: what each of them is there, and the tree with all of them.

No record is kept: the tree itself is asked. What is applied is peeled off in memory from the last patch to the first,
and the series is put on again; what comes out is compared with what lies there. So patches may build on each other,
and a run that was cut off is ended by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .unified_diff import FileChange, Patch, PatchError, put_on

APPLIED, ALREADY, UPSTREAM, MISFIT = "applied", "already applied", "upstream has it", "does not apply"
# `Upstream-Has: FILE: TEXT` in a patch's header: where the file holds this text, the patch is not needed.
UPSTREAM_FIELD = "Upstream-Has"


@dataclass(frozen=True)
class Outcome:
    """outcome: one of the four; why: the text that upstream has, or every hunk that does not fit."""

    name: str
    outcome: str
    why: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "outcome": self.outcome, "why": list(self.why)}


@dataclass(frozen=True)
class Edit:
    """One file of the tree, before and after; None where there is none. mode: of a new one."""

    before: bytes | None
    after: bytes | None
    mode: int | None = None


@dataclass(frozen=True)
class Judged:
    outcomes: tuple[Outcome, ...]
    edits: Mapping[str, Edit]

    @property
    def misfits(self) -> list[str]:
        """Every hunk of every patch that does not apply, with the patch's name."""
        return [f"{each.name}: {why}" for each in self.outcomes if each.outcome == MISFIT for why in each.why]


class _Overlay:
    """A tree with changes that are not written; files are read once, and only those that a patch names."""

    def __init__(self, root: str):
        self.root = root
        self.found: dict[str, bytes | None] = {}
        self.now: dict[str, bytes | None] = {}

    def read(self, path: str) -> bytes | None:
        if path not in self.found:
            self.found[path] = self.now[path] = _read(self.root, path)
        return self.now[path]

    def put(self, change: FileChange) -> None:
        self.now[change.path], _off = put_on(change, self.read(change.path))

    def peel(self, change: FileChange) -> bool:
        """Takes a change off where it is applied: its result fits, and nearer to its place than what it starts from."""
        back, ahead = self._off(change.reversed()), self._off(change)
        if back is None or (ahead is not None and ahead < back):
            return False
        self.put(change.reversed())
        return True

    def _off(self, change: FileChange) -> int | None:
        try:
            return put_on(change, self.read(change.path))[1]
        except PatchError:
            return None


def _read(root: str, path: str) -> bytes | None:
    """A file of the tree. Raises PatchError where a link or something else lies on the way: it may lead outside."""
    at = root
    for part in path.split("/"):
        at = os.path.join(at, part)
        if os.path.islink(at):
            raise PatchError(f"{at} is a link, and what a patch changes must lie in the tree itself.")
    try:
        with open(at, "rb") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise PatchError(f"{at} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def judge(root: str, patches: Sequence[Patch]) -> Judged:
    """What each patch is on this tree, and what would be written. Touches nothing.

    Raises PatchError where the tree cannot be read.
    """
    if not os.path.isdir(root):
        raise PatchError(f"{root} is no folder; wanted is an unpacked source tree. Unpack it there first.")
    tree = _Overlay(root)
    peeled = [
        {change.path for change in reversed(patch.changes) if tree.peel(change)}
        for patch in reversed(patches)
    ][::-1]
    modes: dict[str, int | None] = {}
    outcomes = []
    for patch, there in zip(patches, peeled, strict=True):
        outcomes.append(_forward(tree, patch, there))
        modes.update({change.path: change.mode for change in patch.changes if change.kind == "create"})
    edits = {
        path: Edit(tree.found[path], now, modes.get(path))
        for path, now in tree.now.items()
        if now != tree.found[path]
    }
    return Judged(tuple(outcomes), edits)


def _forward(tree: _Overlay, patch: Patch, there: set[str]) -> Outcome:
    marker = _upstream(tree, patch)
    if marker:
        for change in patch.changes:
            if change.path in there:  # upstream's own words, and not ours to take away
                tree.put(change)
        return Outcome(patch.name, UPSTREAM, (marker,))
    before = dict(tree.now)
    problems = []
    for change in patch.changes:
        try:
            tree.put(change)
        except PatchError as error:
            problems += error.problems
    if problems:
        tree.now = {**tree.found, **before}  # files that were read meanwhile are as they were found
        return Outcome(patch.name, MISFIT, tuple(problems))
    whole = there == {change.path for change in patch.changes}
    return Outcome(patch.name, ALREADY if whole else APPLIED)


def _upstream(tree: _Overlay, patch: Patch) -> str | None:
    for value in patch.values(UPSTREAM_FIELD):
        path, colon, text = value.partition(": ")
        if not colon or not text.strip():
            raise PatchError(
                f"{patch.name}: {UPSTREAM_FIELD}: {value!r} is not FILE: TEXT. Correct the patch's header."
            )
        content = tree.read(path)
        if content is not None and text.strip().encode() in content:
            return f"{path} has {text.strip()!r}"
    return None


def write(root: str, edits: Mapping[str, Edit]) -> None:
    """All edits or none: each file is written beside its place first, and then all are renamed.

    Raises PatchError where the file system refuses; the tree is as it was then.
    """
    targets = {os.path.join(root, path): edit for path, edit in edits.items()}
    folders: list[str] = []
    done: list[str] = []
    try:
        for path, edit in targets.items():
            folders += _make_folder(os.path.dirname(path))
            _stage(path, edit)
        for path, edit in targets.items():
            if edit.after is None:
                os.unlink(path)
            else:
                os.replace(_beside(path, "new"), path)
            done.append(path)
    except OSError as error:
        for path in done:
            _bring_back(path, targets[path])
        _clear(targets)
        for folder in reversed(folders):
            os.rmdir(folder)
        raise PatchError(
            f"{error.filename or root} could not be written: {error.strerror or error}. The tree is as it was. "
            f"Check space and mount (df -h {root}; findmnt -T {root}) and run again."
        ) from error
    with contextlib.suppress(OSError):  # the tree is whole, whatever lies beside its files
        _clear(targets)


def _make_folder(folder: str) -> list[str]:
    """Makes a folder and those above it; returns the ones that were made, the uppermost first."""
    missing = []
    while not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    for each in missing:
        os.mkdir(each)
    return missing


def _beside(path: str, what: str) -> str:
    """What is written first, and the link that keeps what was there. A run that was cut off leaves them to the next."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tandem-{what}")


def _stage(path: str, edit: Edit) -> None:
    new, old = _beside(path, "new"), _beside(path, "old")
    _clear([path])
    if edit.before is not None:
        os.link(path, old)
    if edit.after is None:
        return
    with open(new, "wb") as stream:
        stream.write(edit.after)
        stream.flush()
        os.fsync(stream.fileno())
    if edit.before is None:
        os.chmod(new, edit.mode or 0o644)
    else:
        owner = os.stat(path)
        os.chown(new, owner.st_uid, owner.st_gid)
        shutil.copymode(path, new)


def _bring_back(path: str, edit: Edit) -> None:
    if edit.before is None:
        _remove(path)
    else:
        os.replace(_beside(path, "old"), path)  # a link needs no space


def _clear(paths: Iterable[str]) -> None:
    for path in paths:
        _remove(_beside(path, "new"))
        _remove(_beside(path, "old"))


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)
