# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel GRUB boots next, read from grub.cfg and grubenv as GRUB itself reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .kernel_files import is_number

_QUOTED = r"(?:'([^']*)'|\"([^\"]*)\"|([^\s'\"{]+))"
_ENTRY = re.compile(rf"(menuentry|submenu)\s+{_QUOTED}(.*)\{{\s*$")
_ID = re.compile(rf"(?:\$\{{?menuentry_id_option\}}?|--id)(?:\s+|=){_QUOTED}")
_LINUX = re.compile(r"linux(?:efi|16)?\s+\S*/vmlinuz-([\w.+~-]+)\s*(.*)")
_DEFAULT = re.compile(r"set\s+default=(?:\"([^\"]*)\"|'([^']*)'|(\S*))")


@dataclass
class Entry:
    """One entry of the menu, or a submenu with entries; release is the kernel's, None where none is named."""

    title: str
    id: str
    release: str | None = None
    options: tuple[str, ...] = ()
    entries: list[Entry] = field(default_factory=list)
    submenu: bool = False


def read_menu(text: str) -> list[Entry]:
    """The entries of grub.cfg at the top of the menu."""
    top = Entry("", "", submenu=True)
    open_blocks: list[Entry | None] = []  # None: a function, of which nothing is wanted
    for line in map(str.strip, text.splitlines()):
        found = _ENTRY.match(line)
        inside = next((each for each in reversed(open_blocks) if each), top)
        if found:
            named = _ID.search(found[5])
            entry = Entry(_one(found[2], found[3], found[4]), _one(*named.groups()) if named else "")
            entry.submenu = found[1] == "submenu"
            inside.entries.append(entry)
            open_blocks.append(entry)
        elif re.match(r"function\s.*\{$", line):
            open_blocks.append(None)
        elif line == "}" and open_blocks:
            open_blocks.pop()
        elif (linux := _LINUX.match(line)) and inside is not top and inside.release is None:
            inside.release, inside.options = linux[1], tuple(linux[2].split())
    return top.entries


def read_environment(text: str) -> dict[str, str]:
    """grubenv -> its variables; the padding and lines that are no assignment are left out."""
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name: value for name, equals, value in lines if equals}


def next_entry(config: str, environment: str) -> Entry | None:
    """The entry that boots next; None where the configuration has none with a kernel."""
    variables = read_environment(environment)
    wanted = variables.get("next_entry") if "next_entry" in config else None
    if not wanted:
        defaults = [_one(*groups) for groups in _DEFAULT.findall(config)]
        named = [value for value in defaults if "next_entry" not in value]
        wanted = named[-1] if named else "0"
        if re.fullmatch(r"\$\{?saved_entry\}?", wanted):
            wanted = variables.get("saved_entry") or "0"
    entries, found = read_menu(config), None
    for word in re.split(r"(?<!>)>(?!>)", wanted):
        found = _pick(entries, word.replace(">>", ">"))
        if found is None:
            break
        entries = found.entries
    while found and found.submenu:  # one that is named alone is opened, and its first entry boots
        found = _pick(found.entries, "0")
    return found if found and found.release else None


def _pick(entries: list[Entry], word: str) -> Entry | None:
    """By number, id or title; what is not there lets GRUB take the first one."""
    if is_number(word) and int(word) < len(entries):
        return entries[int(word)]
    return next((each for each in entries if word in (each.id, each.title)), entries[0] if entries else None)


def _one(*texts: str | None) -> str:
    return next((text for text in texts if text), "")


def way_to(config: str, release: str) -> str | None:
    """What grub-reboot and grub-set-default are told for a kernel; None where the menu has no entry for it.

    Only an entry that names the kernel for good will do: the one at the top of the menu boots whatever is the newest.
    """
    top = read_menu(config)
    nested = [(f"{menu.id or menu.title}>", entry) for menu in top for entry in menu.entries]
    named = [("", entry) for entry in top if not entry.submenu and release in f"{entry.id} {entry.title}"]
    for way, entry in nested + named:
        if entry.release == release and "recovery" not in f"{entry.id} {entry.title}".lower():
            return way + (entry.id or entry.title)
    return None


def boots_once(config: str) -> bool:
    """Does this configuration know an entry for one boot, and can GRUB forget it?

    On LVM, btrfs, ZFS and others GRUB cannot write: grub-mkconfig says so, and the entry would boot for ever.
    """
    known = "next_entry" in config and "save_env next_entry" in config
    return known and "GRUB lacks write support" not in config
