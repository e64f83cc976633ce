# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apt repositories of stub packages, for the scenarios that need other names and versions than Debian has.

A flat repository, as NVIDIA's are. With `key` it is signed by a key of its own, made for it and thrown away.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path


@dataclass
class Stub:
    """One version of one package. files: path -> content, or a link's target after ->; postinst: a shell script."""

    name: str
    version: str
    depends: list[str] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes | str] = field(default_factory=dict)
    postinst: str = ""

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version}_all.deb"

    def control(self) -> str:
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "all",
            "Maintainer": "The lab <lab@localhost>",
            "Depends": ", ".join(self.depends),
            **self.more,
            "Description": "stub",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def build(folder: Path, stubs: Sequence[Stub], head: Mapping[str, str], key: str = "") -> str:
    """Fills a folder with the packages and what apt reads of them; the fingerprint of its key, empty without one.

    head: fields of its Release file. key: name of the file in it that holds the public key.
    """
    entries = [_package(folder, stub) for stub in stubs]
    packages = "\n".join(entries)
    (folder / "Packages").write_text(packages)
    digest = hashlib.sha256(packages.encode()).hexdigest()
    told = "".join(f"{name}: {value}\n" for name, value in {**head, "Date": formatdate(usegmt=True)}.items())
    release = f"{told}Architectures: all amd64\nSHA256:\n {digest} {len(packages)} Packages\n"
    (folder / "Release").write_text(release)
    return _sign(folder, key) if key else ""


def _package(folder: Path, stub: Stub) -> str:
    """Builds one; its entry in Packages."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(stub.control())
    for path, content in stub.files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (tree / path).symlink_to(content.removeprefix("-> "))
        else:
            (tree / path).write_bytes(content)
            (tree / path).chmod(0o755 if content.startswith(b"#!") else 0o644)
    if stub.postinst:
        (tree / "DEBIAN/postinst").write_text(
            f"#!/bin/sh\nset -e\n[ ! -e /etc/lab/slow ] || sleep 20\n{stub.postinst}\n"
        )
        (tree / "DEBIAN/postinst").chmod(0o755)
    file = folder / stub.file
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, file],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(tree)
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{stub.control()}Filename: ./{stub.file}\nSize: {len(content)}\nSHA256: {digest}\n"


def _sign(folder: Path, key: str) -> str:
    """Writes InRelease and the public key; its fingerprint."""
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--batch", "--quiet", "--homedir", home, "--passphrase", ""]

        def run(*words: str) -> bytes:
            environment = {**os.environ, "LC_ALL": "C"}
            return subprocess.run([*gpg, *words], env=environment, check=True, capture_output=True).stdout

        run("--quick-gen-key", "The lab <lab@localhost>", "rsa2048", "sign", "never")
        try:
            (folder / key).write_bytes(run("--armor", "--export"))
            (folder / "InRelease").write_bytes(
                run("--armor", "--clearsign", "--output", "-", str(folder / "Release"))
            )
            rows = run("--with-colons", "--fingerprint").decode().splitlines()
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)
    return next(row.split(":")[9] for row in rows if row.startswith("fpr:"))
