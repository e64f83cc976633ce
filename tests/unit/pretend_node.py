# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pretend node for the rails: real files in a folder, pretend interfaces, networkd, netplan and clock.

Its NetworkManager is in pretend_manager.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from ansible_collections.tandem.spark.plugins.module_utils import rails, rails_netplan_nm, rails_networkd
from ansible_collections.tandem.spark.plugins.module_utils.rails_host import Host
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import Address, Link, RailsError, Route
from pretend_manager import PretendManager

MANAGEMENT = "enP7s7"


def link(name: str, *addresses: str, mtu: int = 1500, up: bool = True, carrier: bool = True, **more) -> Link:
    number = sum(name.encode()) % 256
    lasting = tuple(Address(text, not text.startswith("169.254.")) for text in addresses)
    return Link(name, f"02:00:00:00:00:{number:02x}", mtu, up, carrier, more.get("master"), lasting)


class PretendNode(Host):
    """refuses_mtu: interfaces that take no other MTU; answers: does a packet of (netdev, peer, bytes) come back?"""

    def __init__(self, root: Path, *links: Link) -> None:
        super().__init__(str(root))
        self.state = {each.name: each for each in (link(MANAGEMENT, "192.168.1.7/24"), *links)}
        self.managed: dict[str, tuple[str, str]] = {}  # interface -> file and text it was configured from
        self.commands: list[list[str]] = []
        self.refuses_mtu: set[str] = set()
        self.answers = lambda netdev, peer, size: True
        self.clock = 0.0
        self.generates_in_place = False  # as netplan's command line does since 1.0, through systemd
        self.manager = PretendManager(self)
        self.put(rails.AGENT, "#!/bin/sh\n")

    # What tests ask and do

    def put(self, path: str, text: str) -> None:
        target = Path(self.path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def said(self, *words: str) -> list[list[str]]:
        return [command for command in self.commands if command[: len(words)] == list(words)]

    @property
    def armed(self) -> bool:
        """Was the timer started after it was last stopped?"""
        relevant = [command[0] for command in self.commands if command[0] in ("systemd-run", "systemctl")]
        return bool(relevant) and relevant[-1] == "systemd-run"

    def reboot(self) -> None:
        for path in self.find("/run/**/*") + self.find("/run/*/*/*"):
            if Path(self.path(path)).is_file():
                Path(self.path(path)).unlink()
        self.state = {
            name: replace(each, mtu=1500, addresses=()) if name != MANAGEMENT else each
            for name, each in self.state.items()
        }
        self.managed = {}
        if self.find("/etc/netplan/*"):
            self._generate(self.root)
        self._networkd()
        self.manager.start()

    # In place of the node

    def links(self) -> dict[str, Link]:
        return dict(self.state)

    def routes(self) -> list[Route]:
        return [Route("default", MANAGEMENT), Route("192.168.1.0/24", MANAGEMENT)]

    def now(self) -> float:
        return self.clock

    def pause(self, seconds: float) -> None:
        self.clock += seconds

    def which_pass(self, commands) -> list[bool]:
        return [
            self.answers(argv[argv.index("-I") + 1], argv[-1], int(argv[argv.index("-s") + 1]) + 28)
            for argv in commands
        ]

    def run(self, argv, must: bool = True, timeout_s: float = 60) -> str:
        self.commands.append(list(argv))
        if "--root-dir" in argv:
            self._generate(argv[argv.index("--root-dir") + 1])
            if self.generates_in_place:
                self._generate(self.root)
        elif argv[:2] == ["networkctl", "reload"]:
            self._networkd()
        elif argv[:2] == ["networkctl", "reconfigure"]:
            for netdev in argv[2:]:
                self.managed.pop(netdev, None)
            self._networkd()
        elif argv[0] == "nmcli":
            return self.manager.nmcli(list(argv[1:]))
        elif argv[0] == "ip":
            self._ip(list(argv[1:]))
        return ""

    def _generate(self, root: str) -> None:
        """netplan: later files win, addresses are merged; a file in /run hides its namesake in /etc."""
        made = Host(root)
        files = {}
        for folder in ("/usr/lib/netplan", "/etc/netplan", "/run/netplan"):
            files.update({Path(path).name: made.read(path) for path in made.find(f"{folder}/*.yaml")})
        merged: dict[str, dict] = {}
        for _name, text in sorted(files.items()):
            try:
                ethernets = yaml.safe_load(text)["network"]["ethernets"]
            except (yaml.YAMLError, TypeError, KeyError):
                raise RailsError("`netplan generate` failed: invalid YAML") from None
            for netdev, given in ethernets.items():
                known = merged.setdefault(netdev, {})
                addresses = known.get("addresses", []) + given.get("addresses", [])
                known.update(given, addresses=addresses)
        for netdev, given in merged.items():
            if given.get("renderer") == "NetworkManager":
                made.write(rails_netplan_nm.PROFILE.format(netdev=netdev), _profile(netdev, given), 0o600)
                continue
            lines = [f"Address={address}" for address in given["addresses"]]
            mtu = f"[Link]\nMTUBytes={given['mtu']}\n" if "mtu" in given else ""
            text = "\n".join([f"[Match]\nName={netdev}\n", mtu + "[Network]", *lines]) + "\n"
            made.write(f"/run/systemd/network/10-netplan-{netdev}.network", text)

    def _networkd(self) -> None:
        """The first matching file by name configures; a changed one again; unknown addresses are dropped."""
        files: dict[str, str] = {}
        for folder in rails_networkd.FOLDERS:
            for path in self.find(f"{folder}/*.network"):
                files.setdefault(Path(path).name, path)
        for name, found in list(self.state.items()):
            texts = [(path, self.read(path) or "") for _name, path in sorted(files.items())]
            chosen = next((each for each in texts if _matches(name, each[1])), None)
            before = self.managed.get(name)
            if chosen == before:
                continue
            addresses = found.addresses
            if before:
                own = _values(before[1], "Address")
                addresses = tuple(each for each in addresses if each.text not in own)
                self.managed.pop(name)
            if chosen:
                self.managed[name] = chosen
                addresses = tuple(Address(text, True) for text in _values(chosen[1], "Address"))
                mtu = _values(chosen[1], "MTUBytes")
                if mtu and name not in self.refuses_mtu:
                    found = replace(found, mtu=int(mtu[0]))
                found = replace(found, up=True)
            self.state[name] = replace(found, addresses=addresses)

    def _ip(self, words: list[str]) -> None:
        netdev = words[words.index("dev") + 1]
        found = self.state[netdev]
        if words[:2] == ["address", "replace"]:
            found = replace(found, addresses=(*found.addresses, Address(words[2], True)))
        elif words[:2] == ["address", "delete"]:
            found = replace(found, addresses=tuple(a for a in found.addresses if a.text != words[2]))
        elif "mtu" in words:
            found = replace(found, mtu=int(words[-1]))
        else:
            found = replace(found, up=words[-1] == "up")
        self.state[netdev] = found


def _profile(netdev: str, given: dict) -> str:
    passed = given["networkmanager"]["passthrough"]
    addresses = [f"address{number}={text}" for number, text in enumerate(given["addresses"], start=1)]
    lines = [f"[connection]\nid=netplan-{netdev}\ninterface-name={netdev}"]
    lines += [f"autoconnect-priority={passed['connection.autoconnect-priority']}"]
    lines += [f"[ethernet]\nmtu={given['mtu']}", "[ipv4]\nmethod=manual", *addresses]
    return "\n".join(lines) + "\n"


def _matches(name: str, text: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in rails_networkd.match_values(text))


def _values(text: str, key: str) -> list[str]:
    return [line.split("=", 1)[1] for line in text.splitlines() if line.startswith(f"{key}=")]
