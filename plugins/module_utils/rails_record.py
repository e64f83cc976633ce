# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rails were before a change, kept where a reboot forgets it, and the way back to it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .rails_host import STATE_DIR, Host
from .rails_plan import Address, Link, RailsError

PATH = f"{STATE_DIR}/fabric-before.json"
# Of the time before this collection, for uninstall: over all reboots.
FOUND = "/var/lib/tandem/rails-found.json"
FACTORY_MTU = 1500
STAGED = "staged"
PERSISTENT = "persistent"


@dataclass(frozen=True)
class Record:
    """One change.

    links: the rails as found; files: path and text (None: absent) as found; ours: the addresses that it sets;
    profiles: what NetworkManager used for each rail.
    """

    stage: str
    backend: str
    links: tuple[Link, ...]
    files: dict[str, str | None]
    ours: tuple[str, ...]
    profiles: dict[str, str] = field(default_factory=dict)

    @property
    def netdevs(self) -> list[str]:
        return [link.name for link in self.links]


def save(host: Host, record: Record) -> None:
    host.write(PATH, json.dumps(asdict(record), indent=1) + "\n", mode=0o600)


def mark_persistent(host: Host, record: Record) -> None:
    save(host, replace(record, stage=PERSISTENT))


def load(host: Host) -> Record | None:
    """The last change since boot; None if there was none. RailsError for a file that is no record."""
    text = host.read(PATH)
    if text is None:
        return None
    try:
        data = json.loads(text)
        links = tuple(_link(item) for item in data.pop("links"))
        return Record(**{**data, "links": links, "ours": tuple(data["ours"])})
    except (ValueError, TypeError, KeyError) as error:
        raise RailsError(
            f"{PATH} is no record of a change ({error}): look at `ip address`, remove the file, run again"
        ) from error


def _link(item: Mapping[str, Any]) -> Link:
    return Link(**{**item, "addresses": tuple(Address(**address) for address in item["addresses"])})


def drop(host: Host) -> None:
    host.write(PATH, None)


@dataclass(frozen=True)
class Found:
    """One rail as it was before this collection. profile: what NetworkManager used; ours: what was set on it since."""

    link: Link
    profile: str | None
    ours: tuple[str, ...]


def found(host: Host) -> dict[str, Found]:
    """The rails as they were found, by name; none where nothing was ever set. RailsError for what is no record."""
    text = host.read(FOUND)
    if text is None:
        return {}
    try:
        return {
            name: Found(_link(each["link"]), each["profile"], tuple(each["ours"]))
            for name, each in json.loads(text).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RailsError(
            f"{FOUND} cannot be understood ({error}), so how the rails were found is not known: remove the file, and "
            f"they get MTU {FACTORY_MTU} and no address"
        ) from error


def remember(host: Host, seen: Iterable[Link], written: Container[str], record: Record) -> None:
    """Before a change: how the rails are that no file of ours configures yet, and what the change sets on all."""
    known = found(host)
    for link in seen:
        before = known.get(link.name)
        if before is None or link.name not in written:
            before = Found(link, record.profiles.get(link.name), ())
        ours = tuple(sorted({*before.ours, *record.ours}))
        known[link.name] = replace(before, ours=ours)
    host.write(FOUND, json.dumps({name: asdict(each) for name, each in known.items()}, indent=1) + "\n")


def forget(host: Host) -> None:
    host.write(FOUND, None)


def factory(link: Link, ours: Collection[str]) -> Link:
    """What a rail was of which nothing is known: as it is, without what was set on it."""
    kept = tuple(address for address in link.addresses if address.text not in ours)
    return replace(link, mtu=FACTORY_MTU, addresses=kept)


def addresses_in(texts: Mapping[str, str | None]) -> set[str]:
    """The addresses that files of ours set: these may be taken away again, others not."""
    return {word for text in texts.values() for word in re.findall(r"\d+\.\d+\.\d+\.\d+/\d+", text or "")}


def way_back(before: Link, now: Link, ours: Sequence[str]) -> list[list[str]]:
    """The commands that make an interface again what it was; empty when it is.

    Only addresses that this change set are taken away, and only lasting ones are put back: a lease or a
    link-local address is its daemon's to renew.
    """
    name = before.name
    commands = []
    if before.up and not now.up:
        commands.append(["ip", "link", "set", "dev", name, "up"])
    if before.mtu != now.mtu:
        commands.append(["ip", "link", "set", "dev", name, "mtu", str(before.mtu)])
    for address in before.addresses:
        if address.lasting and address.text not in now.texts:
            commands.append(["ip", "address", "replace", address.text, "dev", name])
    for text in now.texts:
        if text in ours and text not in before.texts:
            commands.append(["ip", "address", "delete", text, "dev", name])
    if now.up and not before.up:
        commands.append(["ip", "link", "set", "dev", name, "down"])
    return commands
