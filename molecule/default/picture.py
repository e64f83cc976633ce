# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in some thousand lines: files, packages, accounts, units and network. Runs in the node, by its own Python.

What moves by itself is left out: logs, caches of apt and of Python, backups of account files, leases and the journal.
"""

import glob
import hashlib
import json
import os
import re
import stat
import subprocess
import sys

FOLDERS = ("/etc", "/home", "/opt", "/root", "/srv", "/usr", "/var/cache", "/var/lib", "/var/spool")
# Of what a reboot forgets, where this collection and the writers of the network put files.
RUN = (
    "/run/tandem*",
    "/run/netplan",
    "/run/systemd/network",
    "/run/systemd/system",
    "/run/NetworkManager/conf.d",
)
MOVES = re.compile(
    r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|/etc/(ld\.so\.cache|resolv\.conf|\.pwd\.lock|machine-id)$"
    r"|/root/\.(ansible|cache|bash_history|lesshst)|/__pycache__(/|$)|\.pyc$|/srv/models/[^/]+/\.tandem-"
    r"|/var/cache/(apt|man|debconf|ldconfig)/|/var/lib/(apt|dbus|NetworkManager|sudo|ucf|private|logrotate)(/|$)"
    r"|/var/lib/(dpkg/(lock|.*-old$|triggers/|status|available|info/.*triggers)|systemd/)"
)
SEEN_BY_HASH = ("/etc", "/run", "/usr/local", "/opt", "/root", "/home")


def walk(top):
    """A line for each path below a folder; folders by their rights alone, since their times tell nothing."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        for name in sorted([*folders, *names]):
            path = os.path.join(folder, name)
            if not MOVES.search(path):
                yield line(path)


def line(path):
    info = os.lstat(path)
    kind = stat.filemode(info.st_mode)
    what = f"{path} {kind} {info.st_uid}:{info.st_gid}"
    if stat.S_ISLNK(info.st_mode):
        return f"{what} -> {os.readlink(path)}"
    if stat.S_ISREG(info.st_mode) and path.startswith(SEEN_BY_HASH):
        with open(path, "rb") as stream:
            return f"{what} {hashlib.sha256(stream.read()).hexdigest()[:16]}"
    return f"{what} {info.st_size}" if stat.S_ISREG(info.st_mode) else what


def said(command):
    """What a command prints, a line each, sorted; numbers that move are the command's to leave out."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    return sorted(each.rstrip() for each in done.stdout.splitlines() if each.strip())


def network():
    """Links with rights and addresses, routes, and the rules of the packet filter, without counters and times."""
    links = json.loads(
        subprocess.run(["ip", "-j", "address"], capture_output=True, text=True, check=True).stdout
    )
    found = [
        f"{link['ifname']} mtu {link['mtu']} {'up' if 'UP' in link['flags'] else 'down'} "
        + " ".join(sorted(f"{each.get('local')}/{each.get('prefixlen')}" for each in link["addr_info"]))
        for link in links
    ]
    return found + said(
        "ip -4 route show table all; ip -4 rule; nft list ruleset | sed 's/counter packets.*/counter/'"
    )


def files():
    tops = [*FOLDERS, *(path for each in RUN for path in sorted(glob.glob(each)))]
    return [each for top in tops for each in ([line(top)] if os.path.lexists(top) else []) + list(walk(top))]


def main():
    subprocess.run(
        ["systemctl", "is-system-running", "--wait"], capture_output=True, check=False, timeout=120
    )
    json.dump(
        {
            "files": files(),
            "packages": said(
                "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status} ${db:Status-Want}\\n'"
            ),
            "marks": said("apt-mark showhold | sed 's/^/hold /'; apt-mark showauto | sed 's/^/auto /'"),
            "accounts": said("getent passwd; getent group"),
            "units": said(
                "systemctl list-unit-files --no-legend --no-pager --type=service,timer,socket,path,target"
            ),
            "services": said(
                "systemctl list-units --no-legend --no-pager --plain --type=service,timer,socket --state=active,failed"
                " | awk '{print $1, $3}' | grep -v -e '^user' -e '^ssh@' -e '^run-' -e 'dpkg-db' -e 'session-'"
            ),
            "swap": said("cat /proc/swaps | awk '{print $1, $2}'"),
            "network": network(),
        },
        sys.stdout,
    )


main()
