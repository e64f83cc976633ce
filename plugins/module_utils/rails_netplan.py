# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails written for netplan: one YAML file for all rails. Here with systemd-networkd behind it.

A file in /run/netplan hides its namesake in /etc/netplan, which is how a change is staged.
`netplan generate` writes the files of every interface anew, and networkd takes a new file for a changed one:
at the next reload the management interface would lose a DHCP lease for a second (field case 040). So the
generator works in a scratch root, and only the rails' files are taken over from there. It is called by itself:
since netplan 1.0 its command line has systemd reload as well, which generates everything in place.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from . import rails_networkd
from .findings import Finding
from .rails_host import STATE_DIR, Host, foreign_file
from .rails_plan import Link, Rail

NAME = "netplan-networkd"
MODE = 0o600  # netplan warns of anything wider
PATIENCE_S = rails_networkd.PATIENCE_S
FILE = "90-tandem-fabric.yaml"
STAGED = f"/run/netplan/{FILE}"
PERSISTENT = f"/etc/netplan/{FILE}"
FOLDERS = ("/etc/netplan", "/run/netplan", "/usr/lib/netplan")
# Newest first; netplan 1.2 split what writes for networkd and NetworkManager off the generator.
GENERATORS = ("/usr/libexec/netplan/configure", "/usr/libexec/netplan/generate", "/usr/lib/netplan/generate")
NETWORKD_DIR = "/run/systemd/network"

MERGED = "addresses of both files are merged"

HEADER = """\
# Written by the Ansible collection tandem.spark (role fabric); changes made here are overwritten.
network:
  version: 2
  ethernets:
"""
# The renderer is named per interface: named globally it would move every other interface too.
ETHERNET = """\
    {netdev}:
      renderer: {renderer}
      addresses: [{address}]
      mtu: {mtu}
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: [ipv6]
      optional: true
"""
# A cable that blinks must not take the addresses (and so the GIDs) along.
IGNORE_CARRIER = "      ignore-carrier: true\n"


def render(rails: Iterable[Rail], renderer: str, more: str) -> str:
    """The file of all rails. more: further lines of every interface."""
    return HEADER + "".join(
        ETHERNET.format(netdev=rail.netdev, renderer=renderer, address=rail.address, mtu=rail.mtu) + more
        for rail in rails
    )


def staged(rails: Sequence[Rail]) -> dict[str, str]:
    """Path and text of what a reboot forgets."""
    return {STAGED: render(rails, "networkd", IGNORE_CARRIER)} if rails else {}


def persistent(rails: Sequence[Rail]) -> dict[str, str]:
    """Path and text of what a reboot keeps."""
    return {PERSISTENT: render(rails, "networkd", IGNORE_CARRIER)} if rails else {}


def own_files(host: Host) -> list[str]:
    return host.find(STAGED) + host.find(PERSISTENT)


def netdevs_in(text: str) -> list[str]:
    """The interfaces that a file of ours configures."""
    return re.findall(r"^    (\S+):$", text, re.MULTILINE)


def load(host: Host, netdevs: Sequence[str], wrote: bool) -> bool:
    """Have networkd read what netplan makes of its files; True if there was anything new to read."""
    patterns = [f"{NETWORKD_DIR}/{rails_networkd.GENERATED}{netdev}.*" for netdev in netdevs]
    return rails_networkd.load(host, netdevs, bool(take_over(host, patterns)))


renew, in_use, restore = rails_networkd.renew, rails_networkd.in_use, rails_networkd.restore


def take_over(host: Host, patterns: Sequence[str]) -> list[str]:
    """Make the generated files of these patterns those of a scratch root; the paths of those that changed.

    Somebody may have generated them in place meanwhile: they are compared with what was there before.
    """
    before = {path: host.read(path) for pattern in patterns for path in host.find(pattern)}
    with tempfile.TemporaryDirectory(prefix="netplan-", dir=host.path(STATE_DIR)) as scratch:
        os.makedirs(f"{scratch}/usr/lib")
        os.symlink("usr/lib", f"{scratch}/lib")
        for path in _files(host):
            os.makedirs(os.path.dirname(scratch + path), exist_ok=True)
            shutil.copy(host.path(path), scratch + path)
        host.run([*_generator(host), "--root-dir", scratch])
        made = Host(scratch)
        paths = sorted({path for pattern in patterns for path in (*host.find(pattern), *made.find(pattern))})
        for path in paths:
            _take_over(host, made, path)
        return [path for path in sorted({*before, *paths}) if before.get(path) != host.read(path)]


def _generator(host: Host) -> list[str]:
    found = [path for path in GENERATORS if host.find(path)]
    return found[:1] or ["netplan", "generate"]


def _take_over(host: Host, made: Host, path: str) -> None:
    source = made.path(path)
    if not os.path.exists(source):
        host.write(path, None)
    elif made.read(path) != host.read(path):
        host.write(path, made.read(path), mode=os.stat(source).st_mode & 0o777)
        os.chown(host.path(path), os.stat(source).st_uid, os.stat(source).st_gid)


def _files(host: Host) -> list[str]:
    return [path for folder in FOLDERS for path in host.find(f"{folder}/*.yaml")]


def foreign(host: Host, rails: Sequence[Rail], links: Mapping[str, Link]) -> list[Finding]:
    """Files of others that configure a rail, netplan's and networkd's."""
    generated = f"{rails_networkd.GENERATED}{{netdev}}.network"
    return foreign_yaml(host, rails, links) + rails_networkd.clashes(host, rails, links, generated)


def foreign_yaml(host: Host, rails: Sequence[Rail], links: Mapping[str, Link]) -> list[Finding]:
    """Files of others in netplan's folders that name a rail."""
    found = []
    for path in _files(host):
        if path in (STAGED, PERSISTENT):
            continue
        text = host.read(path) or ""
        for rail in rails:
            mac = links[rail.netdev].mac if rail.netdev in links else ""
            if mentions(text, rail.netdev) or mentions(text, mac):
                found.append(foreign_file(path, rail.netdev, MERGED))
    return found


def mentions(text: str, word: str) -> bool:
    """Is the word in the YAML text, comments aside? Enough to name a file, without a parser on the node."""
    bare = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines())
    whole = rf"(?<![\w.-]){re.escape(word)}(?![\w.-])"
    return bool(word) and re.search(whole, bare, re.IGNORECASE) is not None
