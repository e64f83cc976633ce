# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of a checkpoint's files with their sizes and hashes, and how a folder compares with it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .file_hashes import hash_files
from .safetensors import HeaderError, read_header

MANIFEST = ".tandem-manifest.json"
SUM_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


class ManifestError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Entry:
    """Size in bytes and the SHA-256, or the hash that git gives a small file; None where the list does not say."""

    size: int | None = None
    sha256: str | None = None
    git: str | None = None


@dataclass(frozen=True)
class Manifest:
    """repository and revision as the hub names them, None where the list does not say."""

    files: Mapping[str, Entry]
    repository: str | None = None
    revision: str | None = None

    def as_dict(self) -> dict[str, Any]:
        files = {
            name: {key: value for key, value in vars(entry).items() if value is not None}
            for name, entry in sorted(self.files.items())
        }
        return {"repository": self.repository, "revision": self.revision, "files": files}


@dataclass(frozen=True)
class Bad:
    """problem: missing, truncated, corrupt, other_revision or unreadable. said: a sentence with the file's name."""

    file: str
    problem: str
    said: str


def load(path: Path) -> Manifest:
    """Reads a manifest: {"files": {name: {"size", "sha256"}}}, or the lines that sha256sum writes. ManifestError."""
    want = "Name a file that sha256sum wrote, or one of this collection"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ManifestError(f"The manifest {path} cannot be read: {error}. {want}.") from error
    try:
        return _from_json(json.loads(text)) if text.lstrip().startswith("{") else _from_sums(text)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ManifestError(f"{path} is no manifest of a checkpoint ({error}). {want}.") from error


def describe(path: Path) -> dict[str, str | None] | None:
    """{"revision", "digest"} of a list, equal for equal ones; None where there is none that can be read."""
    try:
        manifest = load(path)
    except ManifestError:
        return None
    text = json.dumps(manifest.as_dict(), sort_keys=True)
    return {"revision": manifest.revision, "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}


def from_content(content: Any) -> Manifest:
    """A manifest from {"repository", "revision", "files": {name: {"size", "sha256" or "git"}}}. ManifestError."""
    try:
        return _from_json(content)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ManifestError(f"no manifest of a checkpoint ({error})") from error


def _from_json(content: Any) -> Manifest:
    files = {}
    for name, entry in content["files"].items():
        size = entry.get("size")
        if size is not None and (not isinstance(size, int) or size < 0):
            raise ValueError(f"{name} has the size {size}")
        files[_name(name)] = Entry(size, _hex(entry.get("sha256"), 64), _hex(entry.get("git"), 40))
    if not files:
        raise ValueError("it names no file")
    return Manifest(files, content.get("repository"), content.get("revision"))


def _from_sums(text: str) -> Manifest:
    files = {}
    for line in text.splitlines():
        match = SUM_LINE.fullmatch(line)
        if not match:
            raise ValueError(f"a line is {line[:60]!r}")
        files[_name(match[2].removeprefix("./"))] = Entry(sha256=match[1].lower())
    if not files:
        raise ValueError("it names no file")
    return Manifest(files)


def _hex(text: Any, digits: int) -> str | None:
    if text is not None and not re.fullmatch(rf"[0-9a-f]{{{digits}}}", text):
        raise ValueError(f"{text!r} is no hash of {digits} digits")
    return text


def _name(name: str) -> str:
    """A file below the folder, whatever a manifest from elsewhere says."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{name!r} lies outside the folder")
    return str(path)


def compare_sizes(folder: Path, manifest: Manifest) -> list[Bad]:
    """What is missing or of another size. Costs a stat for each file."""
    bad = []
    for name, entry in manifest.files.items():
        try:
            size = (folder / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            bad.append(Bad(name, "missing", f"{name} is missing"))
            continue
        except OSError as error:
            bad.append(Bad(name, "unreadable", f"{name} cannot be read ({error.strerror})"))
            continue
        if entry.size is not None and size != entry.size:
            problem = _why_another_size(folder / name, size < entry.size)
            bad.append(Bad(name, problem, f"{name} has {size} bytes, wanted are {entry.size}"))
    return bad


def _why_another_size(path: Path, shorter: bool) -> str:
    """A shard that is whole by its own header was not cut off: it is another one."""
    if path.suffix != ".safetensors":
        return "other_revision"
    try:
        read_header(path)
    except OSError:
        return "unreadable"
    except HeaderError:
        return "truncated" if shorter else "corrupt"
    return "other_revision"


def compare_hashes(
    folder: Path,
    manifest: Manifest,
    say: Callable[[str], None],
    limit_s: float = float("inf"),
    read: Mapping[str, str] | None = None,
) -> tuple[list[Bad], dict[str, str]]:
    """The same, and every byte of what has the right size. Returns also the SHA-256 of the files. Raises TooSlow.

    read: {file: SHA-256} of what was read in this run already.
    """
    bad = compare_sizes(folder, manifest)
    wrong = {each.file for each in bad}
    kinds = {
        name: "sha256" if entry.sha256 or not entry.git else "git"
        for name, entry in manifest.files.items()
        if name not in wrong
    }
    known = {name: digest for name, digest in (read or {}).items() if kinds.get(name) == "sha256"}
    found, unread = hash_files(
        folder, {name: kind for name, kind in kinds.items() if name not in known}, say, limit_s
    )
    found |= known
    bad += [Bad(name, "unreadable", f"{name} cannot be read ({why})") for name, why in unread.items()]
    differ = [
        name
        for name, digest in found.items()
        if digest != (_wanted(manifest.files[name], kinds[name]) or digest)
    ]
    # Damage hits a file or two. Where most differ although their sizes are right, they are others.
    problem = "other_revision" if len(differ) > max(1, len(found) // 2) else "corrupt"
    for name in differ:
        said = f"{name} has the {kinds[name]} hash {found[name][:12]}, wanted is "
        bad.append(Bad(name, problem, said + f"{_wanted(manifest.files[name], kinds[name])[:12]}"))
    digests = {name: digest for name, digest in found.items() if kinds[name] == "sha256"}
    return sorted(bad, key=lambda each: each.file), digests


def _wanted(entry: Entry, kind: str) -> str | None:
    return entry.sha256 if kind == "sha256" else entry.git
