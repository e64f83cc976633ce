# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NetworkManager of a pretend node: profiles that were loaded, and which of them an interface uses."""

from __future__ import annotations

import uuid
from configparser import ConfigParser
from dataclasses import replace

from ansible_collections.tandem.spark.plugins.module_utils import rails_nm
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import Address, RailsError

FACTORY_MTU = 1500


class Profile:
    def __init__(self, path: str, text: str) -> None:
        values = ConfigParser(strict=False)
        values.read_string(text)
        self.path = path
        self.uuid = values.get("connection", "uuid", fallback=str(uuid.uuid3(uuid.NAMESPACE_URL, path)))
        self.netdev = values.get("connection", "interface-name", fallback=None)
        self.priority = values.getint("connection", "autoconnect-priority", fallback=0)
        self.mtu = values.getint("ethernet", "mtu", fallback=FACTORY_MTU)
        found = values.items("ipv4") if values.has_section("ipv4") else []
        self.addresses = tuple(Address(value, True) for key, value in found if key.startswith("address"))


class PretendManager:
    """node: whose links it sets; refuses: paths of profiles that it cannot read; unmanaged: what it leaves alone."""

    def __init__(self, node) -> None:
        self.node = node
        self.files: dict[str, Profile] = {}
        self.active: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.unmanaged: set[str] = set()

    @property
    def known(self) -> dict[str, Profile]:
        """UUID -> the profile that counts: one in /run hides the others."""
        ordered = sorted(self.files.values(), key=lambda each: each.path.startswith("/run/"))
        return {each.uuid: each for each in ordered}

    def start(self) -> None:
        self.active = {}
        self.files = {}
        paths = [path for folder in rails_nm.FOLDERS for path in self.node.find(f"{folder}/*")]
        self._load(paths)
        for netdev in self.node.state:
            self._connect(netdev)

    def nmcli(self, words: list[str]) -> str:
        if words[0] == "--terse":
            return self._shown(words[words.index("--fields") + 1])
        if words[:2] == ["connection", "load"]:
            self._load(words[2:])
        elif words[:2] == ["device", "reapply"]:
            self._use(words[2], self.known[self.active[words[2]]])
        elif "up" in words:
            self._use(words[-1], self.known[words[words.index("uuid") + 1]])
        elif words[:2] != ["general", "reload"]:
            raise RailsError(f"nmcli does not know {words}")
        return ""

    def _shown(self, fields: str) -> str:
        rows = {
            "UUID,FILENAME": [(each.uuid, each.path) for each in self.known.values()],
            "DEVICE,CON-UUID": [(netdev, self.active.get(netdev, "")) for netdev in self.node.state],
            "DEVICE,STATE": [
                (netdev, "unmanaged" if netdev in self.unmanaged else "connected")
                for netdev in self.node.state
            ],
        }[fields]
        return "".join(f"{first}:{second}\n" for first, second in rows)

    def _load(self, paths: list[str]) -> None:
        for path in paths:
            text = self.node.read(path)
            if text is None or path in self.refuses:
                self.files.pop(path, None)
            else:
                self.files[path] = Profile(path, text)
        for netdev, profile in list(self.active.items()):
            if profile not in self.known:
                del self.active[netdev]
                self.node.state[netdev] = replace(self.node.state[netdev], addresses=(), mtu=FACTORY_MTU)
                self._connect(netdev)

    def _connect(self, netdev: str) -> None:
        fitting = [each for each in self.known.values() if each.netdev == netdev]
        if fitting:
            self._use(netdev, max(fitting, key=lambda each: each.priority))

    def _use(self, netdev: str, profile: Profile) -> None:
        self.active[netdev] = profile.uuid
        mtu = self.node.state[netdev].mtu if netdev in self.node.refuses_mtu else profile.mtu
        found = replace(self.node.state[netdev], up=True, mtu=mtu, addresses=profile.addresses)
        self.node.state[netdev] = found
