# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails written for netplan with NetworkManager behind it, as DGX OS has it.

The profiles that netplan makes lie in /run and are made again at every boot, so netplan's file is what lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from . import rails_netplan, rails_networkd, rails_nm
from .findings import Finding
from .rails_host import Host
from .rails_plan import Link, Rail

NAME = "netplan-networkmanager"
MODE = rails_netplan.MODE
PATIENCE_S = rails_nm.PATIENCE_S
# What netplan makes of a rail: the profile, and what udev sets when the interface appears.
LINK = f"{rails_netplan.NETWORKD_DIR}/{rails_networkd.GENERATED}{{netdev}}.link"
PROFILE = f"/run/NetworkManager/system-connections/{rails_nm.GENERATED}{{netdev}}.nmconnection"

# netplan has no word for these; it hands them on. Its own ipv6-address-generation makes a profile that
# NetworkManager refuses (netplan 0.106), and what it makes of link-local changed from release to release.
PASSTHROUGH = f"""\
      networkmanager:
        passthrough:
          connection.autoconnect-priority: "{rails_nm.PRIORITY}"
          ipv4.never-default: "true"
          ipv6.method: "link-local"
          ipv6.addr-gen-mode: "eui64"
          ipv6.never-default: "true"
"""


def _render(rails: Sequence[Rail], path: str) -> dict[str, str]:
    return {path: rails_netplan.render(rails, "NetworkManager", PASSTHROUGH)} if rails else {}


def staged(rails: Sequence[Rail]) -> dict[str, str]:
    """Path and text of what a reboot forgets."""
    return {**rails_nm.carrier(rails, rails_nm.CARRIER_STAGED), **_render(rails, rails_netplan.STAGED)}


def persistent(rails: Sequence[Rail]) -> dict[str, str]:
    """Path and text of what a reboot keeps."""
    return {
        **rails_nm.carrier(rails, rails_nm.CARRIER_PERSISTENT),
        **_render(rails, rails_netplan.PERSISTENT),
    }


def own_files(host: Host) -> list[str]:
    return rails_netplan.own_files(host) + rails_nm.own_files(host)


def netdevs_in(text: str) -> list[str]:
    """The interfaces that a file of ours configures."""
    return rails_netplan.netdevs_in(text) + rails_nm.netdevs_in(text)


def load(host: Host, netdevs: Sequence[str], wrote: bool) -> bool:
    """Have NetworkManager use what netplan makes of its files; True if there was anything new to use."""
    if wrote:
        host.run(["nmcli", "general", "reload", "conf"])
    patterns = [each.format(netdev=netdev) for netdev in netdevs for each in (LINK, PROFILE)]
    changed = [path for path in rails_netplan.take_over(host, patterns) if path.endswith(".nmconnection")]
    if changed:
        profiles = _profiles(host, netdevs)
        rails_nm.take_up(host, changed, {rail: path for rail, path in profiles.items() if path in changed})
    return bool(changed)


def _profiles(host: Host, netdevs: Iterable[str]) -> dict[str, str]:
    paths = {netdev: PROFILE.format(netdev=netdev) for netdev in netdevs}
    return {netdev: path for netdev, path in paths.items() if host.find(path)}


def renew(host: Host, netdevs: Sequence[str]) -> None:
    """Have these rails configured anew, from files that are right."""
    profiles = _profiles(host, netdevs)
    rails_nm.take_up(host, list(profiles.values()), profiles)


in_use, restore = rails_nm.in_use, rails_nm.restore


def foreign(host: Host, rails: Sequence[Rail], links: Mapping[str, Link]) -> list[Finding]:
    """Files of others that configure a rail, netplan's and NetworkManager's."""
    return rails_netplan.foreign_yaml(host, rails, links) + rails_nm.foreign(host, rails, links)
