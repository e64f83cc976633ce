# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings the tools of a build to a node: a repository, packages, a Rust. Compared first, then what lacks is brought."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from . import apt_transaction, commands, cuda_repository, files, toolchain
from .cuda_repository import Repository
from .driver_host import APT, Host
from .findings import FindingError, finding
from .openpgp_key import KeyFormatError, fingerprint

MOST_KEY_BYTES = 1 << 20
RUST_LIMIT_S = 1800
# An empty file for each package that was missing, for the day when everything goes.
REMEMBERED = "/var/lib/tandem/packages"


@dataclass(frozen=True)
class Wish:
    """rust: a version for this node, None for none. rust_server: where rustup looks, None for its own."""

    repository: Repository | None
    packages: Sequence[str]
    rust: str | None
    rust_server: str | None
    machine: str


@dataclass(frozen=True)
class Lack:
    """What is not as wanted. files: (path, text before, text after); the key's text is its fingerprint."""

    files: tuple[tuple[str, str, str], ...]
    packages: tuple[str, ...]
    rust: str | None
    others: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.files or self.packages or self.rust)


class Tools(Host):
    """A node that is given its tools."""

    def lacks(self, wish: Wish) -> Lack:
        """Compares; touches nothing."""
        others: list[str] = []
        found = []
        if wish.repository:
            others = cuda_repository.others(self.source_files(), wish.repository)
            ours = "" if others else cuda_repository.sources_text(wish.repository)
            key = "" if others else f"key {wish.repository.fingerprint}\n"
            wanted = {
                cuda_repository.PREFERENCES: (
                    self._text(cuda_repository.PREFERENCES),
                    cuda_repository.preferences_text(),
                ),
                cuda_repository.KEYRING: (self.key_text(), key),
                cuda_repository.SOURCES: (self._text(cuda_repository.SOURCES), ours),
            }
            found = [(path, now or "", then) for path, (now, then) in wanted.items() if (now or "") != then]
        there = self.packages()
        packages = [name for name in self.names(wish) if name not in there or not there[name].installed]
        rust = wish.rust
        if rust and os.access(f"{toolchain.rust_folder(rust, wish.machine)}/cargo", os.X_OK):
            rust = None
        return Lack(tuple(found), tuple(packages), rust, tuple(others))

    def names(self, wish: Wish) -> list[str]:
        return [*wish.packages, *(["rustup"] if wish.rust and "rustup" not in wish.packages else [])]

    def source_files(self) -> dict[str, str]:
        """{path: text} of all that names repositories to apt."""
        folder = "etc/apt/sources.list.d"
        paths = ["etc/apt/sources.list", *(f"{folder}/{name}" for name in self.tree.names(folder))]
        return {f"/{path}": self.tree.text(path) or "" for path in paths}

    def key_text(self) -> str:
        """The key that lies there, as `lacks` tells it; empty where there is none."""
        try:
            with open(self.tree.path(cuda_repository.KEYRING[1:]), "rb") as stream:
                return f"key {fingerprint(stream.read())}\n"
        except FileNotFoundError:
            return ""
        except (OSError, KeyFormatError):
            return "key unknown\n"

    def bring(self, wish: Wish, lack: Lack) -> None:
        """Makes the node as wanted. FindingError and DriverError, with what was done until then left in place."""
        if lack.files:
            self._set_up(wish.repository, lack)
        if lack.files or lack.packages:
            self.update_lists()
        if lack.packages:
            self._install(lack.packages)
        if lack.rust:
            self._install_rust(wish)

    def _set_up(self, repository: Repository, lack: Lack) -> None:
        """The pins before the source, so that nothing can be upgraded in between."""
        key = b"" if lack.others else self.fetch_key(repository)
        for path, _before, after in lack.files:
            content = key if path == cuda_repository.KEYRING else after.encode()
            place = self.tree.path(path[1:])
            state = "file" if content else "absent"
            wanted = files.Wanted(place, state, content=content or None, mode=0o644)
            files.apply(wanted, files.look(place, with_content=False))

    def fetch_key(self, repository: Repository) -> bytes:
        """The repository's key, only with its fingerprint. FindingError."""
        address = repository.key_address
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                content = answer.read(MOST_KEY_BYTES)
            found = fingerprint(content)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise FindingError(
                finding("build.repository.unreachable", address=address, evidence=str(error))
            ) from error
        except KeyFormatError as error:
            found = f"none: {error}"
        if found != repository.fingerprint:
            values = {"address": address, "found": found, "wanted": repository.fingerprint}
            raise FindingError(finding("build.repository.key", **values))
        return content

    def _install(self, missing: Sequence[str]) -> None:
        steps = apt_transaction.read_simulation(
            self._run(["apt-get", "--simulate", *APT, "install", *missing], 300)
        )
        if bad := cuda_repository.moves(steps, self.packages()):
            values = {"packages": ", ".join(missing), "moves": "; ".join(bad)}
            raise FindingError(
                finding("build.packages.moves", evidence=apt_transaction.table(steps), **values)
            )
        self.wait_for_apt()
        self._in_unit(["apt-get", *APT, "install", *missing])
        for name in missing:
            self._write(f"{REMEMBERED}/{name}", "")

    def _install_rust(self, wish: Wish) -> None:
        """As rustup takes it, by the hashes of the release's own manifest; where everybody may read it."""
        variables = {"RUSTUP_HOME": toolchain.RUST_HOME, "CARGO_HOME": f"{toolchain.RUST_HOME}/cargo"}
        if wish.rust_server:
            variables["RUSTUP_DIST_SERVER"] = wish.rust_server
        words = ["env", *(f"{name}={value}" for name, value in variables.items())]
        words += ["rustup", "toolchain", "install", wish.rust, "--profile=minimal", "--no-self-update"]
        answer = commands.ask(words, RUST_LIMIT_S, with_errors=True)
        if not answer.ok:
            values = {"version": wish.rust, "home": toolchain.RUST_HOME}
            raise FindingError(finding("build.rust.failed", evidence=answer.out.strip()[-1500:], **values))
