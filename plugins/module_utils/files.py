# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, folders and links as one list: compare wanted with found, then write what differs.

One list costs one module run, where a task per file costs one each (about 0.25 s of CPU on either side).
Every file is written beside its place and renamed over it, so a reader never sees half of one.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import tempfile
from collections import Counter
from dataclasses import dataclass


class FilesError(Exception):
    """What was found, what was wanted and what to do, in one sentence."""


@dataclass(frozen=True)
class Wanted:
    """One path as it should be. `mode` is an int such as 0o644; None leaves mode or owner as they are."""

    path: str
    state: str = "file"
    content: bytes | None = None
    target: str | None = None
    mode: int | None = None
    owner: str | None = None
    group: str | None = None
    purge: bool = False
    sensitive: bool = False


@dataclass(frozen=True)
class Found:
    """One path as it is; `state` is absent, file, directory, link or other."""

    state: str
    content: bytes | None = None
    target: str | None = None
    mode: int | None = None
    owner: str | None = None
    group: str | None = None


def _name(lookup, number: int) -> str:
    """The account's name, or its number where it has none (a removed user's files)."""
    try:
        return lookup(number)[0]
    except KeyError:
        return str(number)


def look(path: str, with_content: bool) -> Found:
    """Reads one path without following a link at its end. Raises FilesError where that is refused."""
    try:
        return _look(path, with_content)
    except (FileNotFoundError, NotADirectoryError):
        return Found("absent")
    except (OSError, ValueError) as error:
        raise FilesError(
            f"{path!r} could not be looked at: {getattr(error, 'strerror', None) or error}. "
            "Look at it with `ls -ld`, and run again."
        ) from error


def _look(path: str, with_content: bool) -> Found:
    info = os.lstat(path)
    owner = _name(pwd.getpwuid, info.st_uid)
    group = _name(grp.getgrgid, info.st_gid)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return Found("link", target=os.readlink(path), owner=owner, group=group)
    if stat.S_ISDIR(info.st_mode):
        return Found("directory", mode=mode, owner=owner, group=group)
    if not stat.S_ISREG(info.st_mode):
        return Found("other", mode=mode, owner=owner, group=group)
    content = None
    if with_content:
        with open(path, "rb") as stream:
            content = stream.read()
    return Found("file", content, None, mode, owner, group)


def differences(wanted: Wanted, found: Found) -> list[str]:
    """The attributes that differ, in words; empty when the path is as wanted."""
    if wanted.state != found.state:
        return ["state"]
    if wanted.state == "absent":
        return []
    differing = []
    if wanted.state == "file" and wanted.content != found.content:
        differing.append("content")
    if wanted.state == "link" and wanted.target != found.target:
        differing.append("target")
    if wanted.state != "link" and wanted.mode is not None and wanted.mode != found.mode:
        differing.append("mode")
    differing += [
        name for name in ("owner", "group") if getattr(wanted, name) not in (None, getattr(found, name))
    ]
    return differing


def strangers(wanted: list[Wanted]) -> list[str]:
    """Files in the folders marked `purge` that the list does not name: left over from an older version."""
    named = {item.path for item in wanted}
    left_over = []
    for folder in (item.path for item in wanted if item.purge):
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        left_over += [e.path for e in entries if e.path not in named and not e.is_dir(follow_symlinks=False)]
    return left_over


def describe(wanted: Wanted | None, found: Found, side: str) -> str:
    """One side of a diff as text: the attributes on one line, then the content."""
    thing = found if side == "before" else wanted
    if thing is None or thing.state == "absent":
        return "absent\n"
    attributes = [thing.state]
    if thing.state == "link":
        attributes.append(f"-> {thing.target}")
    for name in ("mode", "owner", "group"):
        value = getattr(thing, name)
        if value is None and side == "after":
            value = getattr(found, name)
        if value is not None and not (name == "mode" and thing.state == "link"):
            attributes.append(f"{name}={value:04o}" if name == "mode" else f"{name}={value}")
    text = " ".join(attributes) + "\n"
    if thing.state == "file" and thing.content is not None:
        hidden = wanted is not None and wanted.sensitive
        text += "(content not shown)\n" if hidden else thing.content.decode("utf-8", "replace")
    return text


def _owner_ids(wanted: Wanted) -> tuple[int, int]:
    try:
        uid = -1 if wanted.owner is None else pwd.getpwnam(wanted.owner).pw_uid
        gid = -1 if wanted.group is None else grp.getgrnam(wanted.group).gr_gid
    except KeyError as missing:
        raise FilesError(
            f"{wanted.path} shall belong to an account that does not exist: {missing.args[0]}. "
            "Create the account first (role node does)."
        ) from None
    return uid, gid


def _replace(wanted: Wanted) -> None:
    """Writes a file or link beside its place and renames it over: never half a file, never a missing link."""
    folder, name = os.path.split(wanted.path)
    uid, gid = _owner_ids(wanted)
    if wanted.state == "link":
        staged = os.path.join(folder, f".{name}.tandem-new")
        if os.path.lexists(staged):
            os.unlink(staged)
        os.symlink(wanted.target or "", staged)
    else:
        handle, staged = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        if wanted.state == "link":
            os.chown(staged, uid, gid, follow_symlinks=False)
        else:
            _fill(handle, wanted, uid, gid)
        os.replace(staged, wanted.path)
    except OSError:
        os.unlink(staged)
        raise


def _fill(handle: int, wanted: Wanted, uid: int, gid: int) -> None:
    with os.fdopen(handle, "wb") as stream:
        stream.write(wanted.content or b"")
        os.fchmod(handle, 0o644 if wanted.mode is None else wanted.mode)
        os.fchown(handle, uid, gid)
        stream.flush()
        os.fsync(handle)


def remove(path: str) -> None:
    """Removes whatever is there; a folder with all that it holds."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def refuse_twice(wanted: list[Wanted]) -> None:
    """Raises FilesError for paths that the list names more than once: which one counts?"""
    counts = Counter(item.path for item in wanted)
    twice = [path for path, count in counts.items() if count > 1]
    if twice:
        raise FilesError(f"{', '.join(twice)}: named more than once. Name every path once.")


def refuse_another_kind(wanted: Wanted, found: Found) -> None:
    """Raises FilesError where something of another kind stands in the way: it may be somebody's data."""
    if found.state not in ("absent", wanted.state) and wanted.state != "absent":
        raise FilesError(
            f"{wanted.path} is a {found.state} where a {wanted.state} is wanted. "
            "Look at it, move it away, and run again."
        )


def apply(wanted: Wanted, found: Found) -> None:
    """Makes one path as wanted. Raises FilesError where something is in the way or the file system refuses."""
    refuse_another_kind(wanted, found)
    try:
        if wanted.state == "absent":
            remove(wanted.path)
        elif wanted.state == "directory":
            os.makedirs(wanted.path, mode=0o755, exist_ok=True)
            os.chown(wanted.path, *_owner_ids(wanted))
            if wanted.mode is not None:
                os.chmod(wanted.path, wanted.mode)
        else:
            os.makedirs(os.path.dirname(wanted.path), mode=0o755, exist_ok=True)
            _replace(wanted)
    except (OSError, ValueError) as error:
        raise FilesError(
            f"{wanted.path} could not be written: {getattr(error, 'strerror', None) or error}. "
            f"Check free space and mount options (df -h {wanted.path}; findmnt -T {wanted.path}) and run again."
        ) from error
