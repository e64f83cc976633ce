# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unified diff read, and put on the content of a file. Text and bytes in and out, no file is touched.

Stricter than patch(1): every line of context must be there (no fuzz), and a hunk that is not where its header says may
lie elsewhere only if it fits in exactly one place. Line ends are those of the file, whatever those of the patch are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*): ?(.*)")
_NEW_MODE = re.compile(r"new file mode 100(644|755)")
# What a git diff may say between the header of a file and its hunks; everything else there is refused.
_GIT_LINES = re.compile(r"index [0-9a-f]+\.\.|new file mode 100(644|755)$|deleted file mode ")
NOWHERE = "/dev/null"
_REVERSED = {" ": " ", "-": "+", "+": "-"}
_REVERSED_KIND = {"change": "change", "create": "delete", "delete": "create"}


class PatchError(Exception):
    """What was found, what was wanted and what to do; `problems` are the same, one by one."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Hunk:
    """Lines are (" ", "-" or "+", text); a text ends with a line feed unless the file ends there without one."""

    old_start: int
    new_start: int
    lines: tuple[tuple[str, str], ...]

    @property
    def old(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "+"]

    @property
    def new(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "-"]

    def reversed(self) -> Hunk:
        lines = tuple((_REVERSED[kind], text) for kind, text in self.lines)
        return Hunk(self.new_start, self.old_start, lines)


@dataclass(frozen=True)
class FileChange:
    """kind: change, create or delete. mode: of a file that is created, where the patch says it."""

    path: str
    kind: str
    hunks: tuple[Hunk, ...]
    mode: int | None = None

    def reversed(self) -> FileChange:
        hunks = tuple(hunk.reversed() for hunk in self.hunks)
        return replace(self, kind=_REVERSED_KIND[self.kind], hunks=hunks)


@dataclass(frozen=True)
class Patch:
    """fields: those of the header, as DEP-3 writes them; one may be there several times."""

    name: str
    changes: tuple[FileChange, ...]
    fields: tuple[tuple[str, str], ...] = field(default=())

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name.lower()]


def lines_of(text: str) -> list[str]:
    """Lines with their line feeds; form feeds and the like are no ends of a line, as they are none to diff."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + parts[-1:][: bool(parts[-1])]


def read_patch(name: str, text: str) -> Patch:
    """One patch file. Raises PatchError with what cannot be read; nothing in it is skipped in silence."""
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        text = text.replace("\r\n", "\n")
    reader = _Reader(name, lines_of(text))
    fields = tuple(reader.header())
    changes = tuple(reader.changes())
    if not changes:
        raise PatchError(f"{name} changes no file. Write it with `diff -u` or `git diff`.")
    paths = [change.path for change in changes]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise PatchError(f"{name} changes {', '.join(twice)} twice. Join its parts into one.")
    return Patch(name, changes, fields)


class _Reader:
    def __init__(self, name: str, lines: list[str]):
        self.name, self.lines, self.at = name, lines, 0

    def refuse(self, what: str) -> PatchError:
        return PatchError(f"{self.name}, line {self.at + 1}: {what}")

    def line(self, ahead: int = 0) -> str | None:
        place = self.at + ahead
        return self.lines[place].removesuffix("\n") if place < len(self.lines) else None

    def begins(self) -> bool:
        """Whether a file begins here."""
        line, following = self.line() or "", self.line(1) or ""
        return line.startswith("diff --git ") or (line.startswith("--- ") and following.startswith("+++ "))

    def header(self) -> Iterator[tuple[str, str]]:
        name, value = None, ""
        while self.line() is not None and not self.begins():
            line = self.line()
            if line.startswith("@@ "):
                raise self.refuse("a hunk of no file; wanted are --- and +++ before it.")
            found = _FIELD.fullmatch(line)
            if found or not line.startswith(" "):
                if name:
                    yield name, value
                name, value = found.groups() if found else (None, "")
            elif name:
                value = f"{value}\n{line[1:]}"
            self.at += 1
        if name:
            yield name, value

    def changes(self) -> Iterator[FileChange]:
        while self.line() is not None:
            if self.begins():
                yield self.change()
                continue
            if self.line() not in ("", "-- ") and not self.line().startswith(("diff ", "Index: ", "====")):
                if self.line(-1) != "-- ":  # a version of git follows its signature
                    raise self.refuse(
                        f"{self.line()!r} belongs to no hunk; the counts of the last one are wrong."
                    )
            self.at += 1

    def change(self) -> FileChange:
        mode = None
        if self.line().startswith("diff --git "):
            self.at += 1
            while _GIT_LINES.match(self.line() or ""):
                found = _NEW_MODE.fullmatch(self.line())
                mode = int(found[1], 8) if found else mode
                self.at += 1
            if not self.begins() or self.line().startswith("diff "):
                raise self.refuse(
                    "renames, modes, empty and binary files are not known here; wanted are --- and +++."
                )
        old, new = (self.path(ahead) for ahead in (0, 1))
        if NOWHERE not in (old, new) and old != new:
            raise self.refuse(
                f"{old} would become {new}. Write a deleted and a new file in place of a rename."
            )
        self.at += 2
        kind = "create" if old == NOWHERE else "delete" if new == NOWHERE else "change"
        hunks = []
        while (self.line() or "").startswith("@@ "):
            hunks.append(self.hunk(kind))
        if not hunks:
            raise self.refuse("no hunk follows the names of a file.")
        if kind != "change" and len(hunks) > 1:
            raise self.refuse("a file that is new or deleted has one hunk.")
        return FileChange(new if kind == "create" else old, kind, tuple(hunks), mode)

    def path(self, ahead: int) -> str:
        named = self.line(ahead)[4:].split("\t")[0].rstrip()
        if named == NOWHERE:
            return NOWHERE
        first, _slash, path = named.partition("/")
        parts = path.split("/")
        if not first or not path or {"", ".", ".."} & set(parts) or '"' in named or "\0" in named:
            raise self.refuse(f"{named!r} is no path below a first folder such as a/ or b/.")
        return path

    def hunk(self, kind: str) -> Hunk:
        found = _HUNK.match(self.line())
        if not found:
            raise self.refuse(f"{self.line()!r} is no head of a hunk.")
        old_start, new_start = int(found[1]), int(found[3])
        left = {"-": int(found[2] or 1), "+": int(found[4] or 1)}
        begin, self.at = self.at, self.at + 1
        lines: list[tuple[str, str]] = []
        while left["-"] or left["+"] or (self.line() or "").startswith("\\"):
            line = self.line()
            sign, text = (line[:1] or " ", line[1:] + "\n") if line is not None else ("", "")
            if sign == "\\" and lines:
                lines[-1] = lines[-1][0], lines[-1][1].removesuffix("\n")
            elif sign not in _REVERSED:
                raise self.refuse(f"the hunk of line {begin + 1} has fewer lines than its head says.")
            else:
                for side in "-+" if sign == " " else sign:
                    left[side] -= 1
                if min(left.values()) < 0:
                    raise self.refuse(f"the hunk of line {begin + 1} has other lines than its head says.")
                lines.append((sign, text))
            self.at += 1
        made = Hunk(old_start, new_start, tuple(lines))
        if kind == "change" and not (made.old and made.new):
            raise self.refuse(f"the hunk of line {begin + 1} has no context, so its place cannot be known.")
        if (kind == "create" and made.old) or (kind == "delete" and made.new):
            raise self.refuse(f"the hunk of line {begin + 1} has lines of a file that is {NOWHERE}.")
        return made


def put_on(change: FileChange, content: bytes | None) -> tuple[bytes | None, int]:
    """The content after one change, and by how many lines its hunks lay off at most; None is a file that is not there.

    Raises PatchError naming file and hunk, with every hunk that does not fit.
    """
    where = f"{change.path}, hunk 1"
    if change.kind == "create":
        if content is not None:
            raise PatchError(f"{where}: the file shall be new, and is there with another content.")
        return _encode("".join(change.hunks[0].new)), 0
    if content is None:
        raise PatchError(f"{where}: there is no such file.")
    lines = lines_of(_decode(content))
    if change.kind == "delete":
        if _bare(lines) != _bare(change.hunks[0].old):
            raise PatchError(f"{where}: the file shall be deleted, and has another content.")
        return None, 0
    made, off = _put_hunks(change, lines)
    return _encode("".join(made)), off


def _put_hunks(change: FileChange, lines: list[str]) -> tuple[list[str], int]:
    bare = _bare(lines)
    made: list[str] = []
    done = offset = worst = 0  # lines that are dealt with; how far the last hunk, and any, was from its place
    problems = []
    for number, hunk in enumerate(change.hunks, 1):
        wanted = _bare(hunk.old)
        place, why = _place(bare, wanted, hunk.old_start - 1 + offset, done)
        if place is None:
            there = _bare(hunk.new)
            if there != wanted and len(_places(bare, there, 0)) == 1:
                why = "what it would make is already there"
            problems.append(f"{change.path}, hunk {number}: {why}.")
            continue
        made += lines[done:place]
        made += _merged(hunk, lines[place : place + len(wanted)])
        done, offset = place + len(wanted), place - (hunk.old_start - 1)
        worst = max(worst, abs(offset))
    if problems:
        raise PatchError(*problems)
    return made + lines[done:], worst


def _places(bare: list[str], wanted: list[str], start: int) -> list[int]:
    last = len(bare) - len(wanted)
    first = wanted[0]  # a hunk has lines on both sides; read_patch refuses others
    return [
        at for at in range(start, last + 1) if bare[at] == first and bare[at : at + len(wanted)] == wanted
    ]


def _place(bare: list[str], wanted: list[str], expected: int, done: int) -> tuple[int | None, str]:
    """Where a hunk fits, or why it does not."""
    if expected >= done and bare[expected : expected + len(wanted)] == wanted:
        return expected, ""
    places = _places(bare, wanted, done)
    if len(places) == 1:
        return places[0], ""
    if places:
        numbers = ", ".join(str(at + 1) for at in places)
        return None, f"it fits at each of the lines {numbers}, and not at {expected + 1} where it should be"
    found = bare[max(0, expected) : max(0, expected) + len(wanted)]
    for ahead, line in enumerate(wanted):
        if ahead >= len(found) or found[ahead] != line:
            there = found[ahead] if ahead < len(found) else None
            return (
                None,
                f"wanted is {_shown(line, there)} at line {expected + 1 + ahead}, found is {_shown(there, line)}",
            )
    return None, "it lies before the hunk that goes before it"


def _shown(line: str | None, beside: str | None) -> str:
    """A line for a reader; its white space too where that is all in which it differs from the one beside it."""
    if line is None:
        return "the end of the file"
    only_space = beside is not None and line.split() == beside.split()
    return repr(line if only_space else line.strip())


def _merged(hunk: Hunk, found: list[str]) -> Iterator[str]:
    """The lines that come in place of `found`: its own where they are context, new ones with its line ends."""
    carriage = any(line.endswith("\r\n") for line in found)
    own = iter(found)
    for kind, text in hunk.lines:
        if kind == "+":
            body = text.removesuffix("\n")
            end = text[len(body) :]
            yield body.removesuffix("\r") + ("\r" if carriage and end else "") + end if end else body
        else:
            line = next(own, "")  # there are as many as the hunk asks for, or it would not have been found
            if kind == " ":
                yield line


def _bare(lines: list[str]) -> list[str]:
    """Lines as they are compared: without the carriage return of their end."""
    return [line[:-2] + "\n" if line.endswith("\r\n") else line for line in lines]


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
