#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes machines of the lab's nodes that have a driver, kernels and a boot loader: see node/ for what is pretended."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import repository  # noqa: E402 - beside this file
from hands import LAB_PROGRAM, NODES, lab, shell  # noqa: E402 - after the path to it

FACTORY = ("580.142", "1014")
FACTORY_BOOT = f"""set -e
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:{repository.PLACE} ./' > /etc/apt/sources.list
echo 'Unattended-Upgrade::Origins-Pattern {{ "origin=lab"; }};' > /etc/apt/apt.conf.d/60lab
apt-get -qq update
systemctl --quiet enable lab-boot.service
"""


def pins(driver: str, number: str, ota: str = "26.04.1") -> list[str]:
    """apt's words for one whole pair as the factory installs it."""
    whole, kernel = f"{driver}-{repository.REVISION}", f"6.17.0-{number}.{number[2:]}"
    built = kernel + repository.KERNELS[number][driver]
    metas = [f"linux-{part}{repository.HWE}={kernel}" for part in ("", "image-", "headers-", "tools-")]
    user_space = [f"{stub.name}={whole}" for stub in repository.driver(driver)]
    modules = f"linux-modules-nvidia-{repository.FLAVOUR}"
    return [
        *metas,
        *user_space,
        f"{modules}-{repository.HWE}={built}",
        f"{modules}-6.17.0-{number}-nvidia={built}",
        f"dgx-spark-ota-update-meta={ota}",
        "dgx-release",
        "dgx-platform",
        "lab-tool=1.0",
    ]


def install_factory(node: str, driver: str, number: str) -> None:
    """The packages of a pair, all but two marked as automatically installed, as DGX OS has them."""
    words = pins(driver, number)
    names = " ".join(word.split("=")[0] for word in words)
    moving = "--allow-downgrades --allow-change-held-packages"
    shell(
        node,
        f"""export DEBIAN_FRONTEND=noninteractive
apt-get -qq -y {moving} install {" ".join(words)} > /tmp/factory.log 2>&1 || {{ cat /tmp/factory.log; exit 1; }}
apt-mark auto {names} > /dev/null
apt-mark manual dgx-spark-ota-update-meta lab-tool > /dev/null""",
    )


def fill(node: str, archive: bytes) -> None:
    command = [sys.executable, str(LAB_PROGRAM), "exec", node, "--", "tar", "-x", "-C", "/"]
    subprocess.run(command, input=archive, check=True)


def archive() -> bytes:
    """The repository and the files of node/, as root's."""
    packed = io.BytesIO()

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=packed, mode="w") as tar:
        repository.build(Path(folder))
        tar.add(folder, repository.PLACE.lstrip("/"), filter=owned)
        for path in sorted((HERE / "node").rglob("*")):
            if path.is_file():
                tar.add(path, str(path.relative_to(HERE / "node")), filter=owned)
    return packed.getvalue()


def main() -> None:
    content = archive()
    for node in NODES:
        fill(node, content)
        shell(node, FACTORY_BOOT)
        install_factory(node, *FACTORY)
        lab("reboot", node)


if __name__ == "__main__":
    main()
