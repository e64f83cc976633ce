# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails written for NetworkManager: one profile per rail, and a setting that keeps it while its cable blinks.

A profile in /run hides one in /etc with the same UUID, which is how a change is staged. Of several profiles for one
interface NetworkManager uses a single one, so files of others do not merge with ours: the priority decides.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

from .findings import Finding, finding
from .rails_host import Host, foreign_file
from .rails_plan import Link, Rail, RailsError

NAME = "networkmanager"
MODE = 0o600  # NetworkManager ignores a profile that others can read
PATIENCE_S = 4  # for so long it may put a rail back by itself, from the profile that it had before
STAGED = "/run/NetworkManager/system-connections/tandem-{netdev}.nmconnection"
PERSISTENT = "/etc/NetworkManager/system-connections/tandem-{netdev}.nmconnection"
FOLDERS = tuple(f"{top}/NetworkManager/system-connections" for top in ("/etc", "/run", "/usr/lib"))
GENERATED = "netplan-"
ONE_PROFILE = "an interface has one profile, and after a reboot it is this collection's"
PRIORITY = 999  # the highest: a profile of somebody else for this interface must not win at the next boot

# addr-gen-mode: a stable-privacy address would be one GID more than the card's own, and move the IPv4 ones.
PROFILE = """\
# Written by the Ansible collection tandem.spark (role fabric); changes made here are overwritten.
[connection]
id=tandem-{netdev}
uuid={uuid}
type=ethernet
interface-name={netdev}
autoconnect-priority={priority}

[ethernet]
mtu={mtu}

[ipv4]
method=manual
address1={address}
never-default=true

[ipv6]
method=link-local
addr-gen-mode=eui64
never-default=true
"""
# Without it a cable that is out for six seconds, a reboot of the peer will do, takes addresses and MTU along.
CARRIER_STAGED = "/run/NetworkManager/conf.d/90-tandem-{netdev}.conf"
CARRIER_PERSISTENT = "/etc/NetworkManager/conf.d/90-tandem-{netdev}.conf"
CARRIER = """\
# Written by the Ansible collection tandem.spark (role fabric); changes made here are overwritten.
[device-tandem-{netdev}]
match-device=interface-name:{netdev}
ignore-carrier=yes
"""


def _render(rails: Iterable[Rail], path: str) -> dict[str, str]:
    return {
        path.format(netdev=rail.netdev): PROFILE.format(
            netdev=rail.netdev,
            uuid=uuid.uuid5(uuid.NAMESPACE_DNS, f"{rail.netdev}.tandem.spark"),
            priority=PRIORITY,
            mtu=rail.mtu,
            address=rail.address,
        )
        for rail in rails
    }


def carrier(rails: Iterable[Rail], path: str) -> dict[str, str]:
    """Path and text of what keeps a rail without a cable as it is."""
    return {path.format(netdev=rail.netdev): CARRIER.format(netdev=rail.netdev) for rail in rails}


def staged(rails: Sequence[Rail]) -> dict[str, str]:
    """Path and text of what a reboot forgets."""
    return {**carrier(rails, CARRIER_STAGED), **_render(rails, STAGED)}


def persistent(rails: Sequence[Rail]) -> dict[str, str]:
    """Path and text of what a reboot keeps."""
    return {**carrier(rails, CARRIER_PERSISTENT), **_render(rails, PERSISTENT)}


def own_files(host: Host) -> list[str]:
    patterns = (STAGED, PERSISTENT, CARRIER_STAGED, CARRIER_PERSISTENT)
    return [path for pattern in patterns for path in host.find(pattern.format(netdev="*"))]


def netdevs_in(text: str) -> list[str]:
    """The interfaces that a file of ours configures."""
    return re.findall(r"^(?:match-device=)?interface-name[=:](\S+)$", text, re.MULTILINE)


def load(host: Host, netdevs: Sequence[str], wrote: bool) -> bool:
    """Have NetworkManager read written files and use them; True if there was anything to read."""
    if wrote:
        host.run(["nmcli", "general", "reload", "conf"])
        paths = [path.format(netdev=netdev) for netdev in netdevs for path in (STAGED, PERSISTENT)]
        take_up(host, paths, _profiles(host, netdevs))
    return wrote


def _profiles(host: Host, netdevs: Iterable[str]) -> dict[str, str]:
    """Interface -> the profile of ours that counts for it, as far as there is one."""
    found = {}
    for netdev in netdevs:
        for path in (PERSISTENT, STAGED):
            if host.find(path.format(netdev=netdev)):
                found[netdev] = path.format(netdev=netdev)
    return found


def renew(host: Host, netdevs: Sequence[str]) -> None:
    """Have these rails configured anew, from files that are right."""
    profiles = _profiles(host, netdevs)
    take_up(host, list(profiles.values()), profiles)


def take_up(host: Host, paths: Sequence[str], profiles: Mapping[str, str]) -> None:
    """Read these files again, those that are gone too, and have each interface use its profile (path).

    Not `nmcli connection reload`: that would read everybody's files. Where an interface uses the profile already,
    its standing addresses stay; one that the profile does not have goes in any case.
    """
    if paths:
        host.run(["nmcli", "connection", "load", *paths])
    known = {path: profile for profile, path in _query(host, "UUID,FILENAME", "connection", "show")}
    active = in_use(host, profiles)
    for netdev, path in profiles.items():
        if path not in known:
            raise RailsError(
                f"NetworkManager does not take {path} for {netdev}: read `journalctl -b -u NetworkManager`"
            )
        if active.get(netdev) == known[path]:
            host.run(["nmcli", "device", "reapply", netdev])
        else:
            host.run(["nmcli", "--wait", "10", "connection", "up", "uuid", known[path], "ifname", netdev])


def in_use(host: Host, netdevs: Iterable[str]) -> dict[str, str]:
    """Interface -> UUID of the profile that it uses now, or tries to; the way back needs it."""
    wanted = set(netdevs)
    shown = _query(host, "DEVICE,CON-UUID", "device", "status")
    return {netdev: profile for netdev, profile in shown if netdev in wanted and profile}


def restore(host: Host, profiles: Mapping[str, str]) -> None:
    """Have each interface use again the profile (UUID) that it used, if that is still known."""
    known = {profile for profile, _path in _query(host, "UUID,FILENAME", "connection", "show")}
    active = in_use(host, profiles)
    for netdev, profile in profiles.items():
        if profile in known and active.get(netdev) != profile:
            # Nobody waits: a profile that asks for a lease that nobody gives would take 45 s.
            command = ["nmcli", "--wait", "0", "connection", "up", "uuid", profile, "ifname", netdev]
            host.run(command, must=False)


def _query(host: Host, fields: str, *words: str) -> list[tuple[str, str]]:
    """Two fields of nmcli, of which the first never has a colon."""
    shown = host.run(["nmcli", "--terse", "--escape", "no", "--fields", fields, *words])
    return [(first, second) for first, _colon, second in (line.partition(":") for line in shown.splitlines())]


def foreign(host: Host, rails: Sequence[Rail], links: Mapping[str, Link]) -> list[Finding]:
    """Profiles of others for a rail, and rails that NetworkManager leaves alone."""
    unmanaged = {
        netdev for netdev, state in _query(host, "DEVICE,STATE", "device", "status") if state == "unmanaged"
    }
    found = [
        finding("fabric.rail.unmanaged", netdev=rail.netdev) for rail in rails if rail.netdev in unmanaged
    ]
    own = own_files(host)
    for path in (path for folder in FOLDERS for path in host.find(f"{folder}/*")):
        text = host.read(path) or ""
        if path in own or path.rpartition("/")[2].startswith(GENERATED) or made_up(text):
            continue
        for rail in rails:
            if rail.netdev in links and names(text, links[rail.netdev]):
                found.append(foreign_file(path, rail.netdev, ONE_PROFILE))
    return found


def made_up(text: str) -> bool:
    """Is it what NetworkManager itself gives an interface that nobody configured? It yields to ours."""
    return re.search(r"^nm-generated=true$", text, re.MULTILINE) is not None


def names(text: str, link: Link) -> bool:
    """Does a profile name this interface, by its name or its address? One for every interface yields to ours."""
    values = re.findall(r"^(?:interface-name|mac-address)=(.*)$", text, re.MULTILINE)
    words = {word for value in values for word in re.split(r"[;,\s]+", value) if word}
    return link.name in words or link.mac.lower() in {word.lower() for word in words}
