# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails written for systemd-networkd: one .network file per rail.

networkd takes the first file that matches, by name, and a file in /etc hides its namesake in /run. So the
staged file has a name of its own that comes before the persistent one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from .findings import Finding, finding
from .rails_host import Host, foreign_file
from .rails_plan import Link, Rail

NAME = "networkd"
MODE = 0o644  # systemd-networkd reads it as its own user
PATIENCE_S = 4  # setting the MTU takes a real card through a link flap of a second or two
NOT_USED = "of several files for an interface networkd uses the first, which is this collection's"
STAGED = "/run/systemd/network/04-tandem-{netdev}.network"
PERSISTENT = "/etc/systemd/network/05-tandem-{netdev}.network"
# Highest priority first: a name found in one folder hides the same name in the later ones.
FOLDERS = tuple(f"{top}/systemd/network" for top in ("/etc", "/run", "/usr/local/lib", "/usr/lib"))
GENERATED = "10-netplan-"

# ConfigureWithoutCarrier: a cable that blinks must not take the addresses (and so the GIDs) along.
TEMPLATE = """\
# Written by the Ansible collection tandem.spark (role fabric); changes made here are overwritten.
[Match]
Name={netdev}

[Link]
MTUBytes={mtu}
RequiredForOnline=no

[Network]
Address={address}
DHCP=no
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
ConfigureWithoutCarrier=yes
IgnoreCarrierLoss=yes
"""


def _render(rails: Iterable[Rail], path: str) -> dict[str, str]:
    values = [{"netdev": rail.netdev, "mtu": rail.mtu, "address": rail.address} for rail in rails]
    return {path.format(**each): TEMPLATE.format(**each) for each in values}


def staged(rails: Iterable[Rail]) -> dict[str, str]:
    """Path and text of what a reboot forgets."""
    return _render(rails, STAGED)


def persistent(rails: Iterable[Rail]) -> dict[str, str]:
    """Path and text of what a reboot keeps."""
    return _render(rails, PERSISTENT)


def own_files(host: Host) -> list[str]:
    return [path for pattern in (STAGED, PERSISTENT) for path in host.find(pattern.format(netdev="*"))]


def netdevs_in(text: str) -> list[str]:
    """The interfaces that a file of ours configures."""
    return re.findall(r"^Name=(\S+)$", text, re.MULTILINE)


def load(host: Host, netdevs: Sequence[str], wrote: bool) -> bool:
    """Have networkd read written files; True if there was anything to read."""
    if wrote:
        host.run(["networkctl", "reload"])
    return wrote


def renew(host: Host, netdevs: Sequence[str]) -> None:
    """Have these rails configured anew, from files that are right.

    A reload touches only interfaces whose file changed, and leaves standing addresses alone; this takes them off
    and on again.
    """
    host.run(["networkctl", "reconfigure", *netdevs])


def in_use(host: Host, netdevs: Iterable[str]) -> dict[str, str]:
    """networkd goes by its files alone: there is nothing else to remember of an interface."""
    return {}


def restore(host: Host, profiles: Mapping[str, str]) -> None:
    """Nothing, as nothing was remembered."""


def foreign(host: Host, rails: Sequence[Rail], links: Mapping[str, Link]) -> list[Finding]:
    """Files of others that configure a rail."""
    return clashes(host, rails, links, os.path.basename(PERSISTENT))


def clashes(host: Host, rails: Sequence[Rail], links: Mapping[str, Link], ours: str) -> list[Finding]:
    """Foreign .network files that match a rail. ours: file name with {netdev}, for who comes first.

    A file that comes first decides alone, whatever it matches by. A later one is told about only if it names
    the rail: a catch-all such as Name=en* is meant to yield.
    """
    files: dict[str, str] = {}
    for folder in FOLDERS:
        for path in host.find(f"{folder}/*.network"):
            files.setdefault(os.path.basename(path), path)
    own = own_files(host)
    found = []
    for name, path in sorted(files.items()):
        if path in own or name.startswith(GENERATED):
            continue
        patterns = match_values(host.read(path) or "")
        for rail in rails:
            link = links.get(rail.netdev)
            mine = ours.format(netdev=rail.netdev)
            if link is None or not _matches(patterns, link):
                continue
            if name < mine:
                values = {"path": path, "netdev": rail.netdev, "ours": mine}
                found.append(finding("fabric.rail.shadowed", evidence=path, **values))
            elif {rail.netdev, link.mac.lower()} & set(patterns):
                found.append(foreign_file(path, rail.netdev, NOT_USED))
    return found


def _matches(patterns: Iterable[str], link: Link) -> bool:
    return any(pattern == link.mac.lower() or fnmatchcase(link.name, pattern) for pattern in patterns)


def match_values(text: str) -> list[str]:
    """Names, globs and (lower case) MAC addresses in the [Match] section of a .network file.

    `*` where the section is missing, which matches everything; nothing for an empty file, which is a mask.
    """
    if not text.strip():
        return []
    section, values, seen = "", [], False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
            seen = seen or section == "[Match]"
        elif section == "[Match]" and "=" in line and not line.startswith(("#", ";")):
            key, value = (part.strip() for part in line.split("=", 1))
            if key in ("Name", "OriginalName"):
                values += [word for word in value.split() if not word.startswith("!")]
            elif key in ("MACAddress", "PermanentMACAddress"):
                values += [word.lower() for word in re.split(r"\s+", value) if word]
    return values if seen else ["*"]
