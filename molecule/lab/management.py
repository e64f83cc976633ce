# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who writes a node's network, and with it the link that Ansible comes by. The rails have no configuration."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from settings import MANAGEMENT, Node

# Nobody advertises a router here: to wait for one makes network-online.target 12 s late.
NETPLAN = """network:
  version: 2
  renderer: {renderer}
  ethernets:
    {name}:
      addresses: [{address}/24]
      accept-ra: false
      routes:
        - to: default
          via: {gateway}
"""
NETWORKD = """[Match]
Name={name}

[Network]
Address={address}/24
Gateway={gateway}
IPv6AcceptRA=no
"""
NETWORKMANAGER = """[connection]
id=management
uuid=6c1c4a3e-3f0c-4c55-9d6a-0b3a52b4f0e1
type=ethernet
interface-name={name}

[ipv4]
method=manual
address1={address}/24,{gateway}

[ipv6]
method=link-local
"""
# The one that does not write the network must not be waited for either.
NETWORKD_UNITS = (
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-networkd-wait-online.service",
)
NETWORKMANAGER_UNITS = ("NetworkManager.service", "NetworkManager-wait-online.service")
# network -> path and text of its configuration
FILES = {
    "netplan-networkd": ("etc/netplan/50-management.yaml", NETPLAN.replace("{renderer}", "networkd")),
    "networkd": ("etc/systemd/network/50-management.network", NETWORKD),
    "netplan-networkmanager": (
        "etc/netplan/50-management.yaml",
        NETPLAN.replace("{renderer}", "NetworkManager"),
    ),
    "networkmanager": ("etc/NetworkManager/system-connections/management.nmconnection", NETWORKMANAGER),
}


def configure(node: Node, network: str, root: Path) -> None:
    """Lay the files of `network` into a node's own root: one manager runs, and netplan is there or not."""
    path, text = FILES[network]
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.format(name=MANAGEMENT, address=node.address, gateway=node.lab.client_address))
    target.chmod(0o644 if network == "networkd" else 0o600)
    if "netplan" not in network:
        hide(root / "usr/sbin/netplan")
    managed = "networkmanager" in network
    for unit in NETWORKD_UNITS if managed else NETWORKMANAGER_UNITS:
        mask = root / "etc/systemd/system" / unit
        mask.parent.mkdir(parents=True, exist_ok=True)
        mask.symlink_to("/dev/null")
    if managed:
        # NetworkManager leaves veths to whoever made them; here they are what cards are elsewhere.
        rule = root / "etc/udev/rules.d/85-nm-unmanaged.rules"
        rule.parent.mkdir(parents=True, exist_ok=True)
        rule.symlink_to("/dev/null")


def hide(path: Path) -> None:
    """Let the image's file be absent: an overlay's whiteout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
