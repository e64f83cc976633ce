# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rails were before a change, kept where a reboot forgets it, and the way back to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from .rails_host import STATE_DIR, Host
from .rails_plan import Address, Link, RailsError

PATH = f"{STATE_DIR}/fabric-before.json"
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
        links = tuple(
            Link(**{**item, "addresses": tuple(Address(**address) for address in item["addresses"])})
            for item in data.pop("links")
        )
        return Record(**{**data, "links": links, "ours": tuple(data["ours"])})
    except (ValueError, TypeError, KeyError) as error:
        raise RailsError(
            f"{PATH} is no record of a change ({error}): look at `ip address`, remove the file, run again"
        ) from error


def drop(host: Host) -> None:
    host.write(PATH, None)


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
