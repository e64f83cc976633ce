#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two repositories on every node, Ubuntu's and NVIDIA's as far as a build wants them, and a profile that builds.

What is pretended: the toolkit's compiler and rustup's toolchain, which only say their versions. What is built is real.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import stubs  # noqa: E402 - after the path to it
from hands import INVENTORY, LAB_PROGRAM, NODES, shell  # noqa: E402 - after the path to it
from stubs import Stub  # noqa: E402 - after the path to it

UBUNTU, NVIDIA = "/srv/lab/ubuntu", "/srv/lab/cuda"  # where a node has them
OWN = INVENTORY.with_name("build")  # the inventory with the profile, beside the lab's
WORK = INVENTORY.with_name("build-work")  # the controller's cache, and what a run says
RUST = "1.95.0"
DRIVER, NEWER_DRIVER = "580.142-0ubuntu0.24.04.1", "580.999-0ubuntu1"
NVCC = b"""#!/bin/sh
echo 'Cuda compilation tools, release 13.2, V13.2.51'
"""
RUSTUP = b"""#!/bin/sh
# rustup toolchain install VERSION OPTIONS
[ "$1 $2" = 'toolchain install' ] || exit 2
bin=$RUSTUP_HOME/toolchains/$3-x86_64-unknown-linux-gnu/bin
mkdir -p "$bin"
for each in rustc cargo; do
  printf '#!/bin/sh\\necho "%s %s (lab)"\\n' "$each" "$3" > "$bin/$each"
  chmod 755 "$bin/$each"
done
"""
UBUNTU_STUBS = [
    Stub("nvidia-driver-580-open", DRIVER),
    Stub("rustup", "1.26.0-5", files={"usr/bin/rustup": RUSTUP}),
]
NVIDIA_STUBS = [
    Stub("nvidia-driver-580-open", NEWER_DRIVER),
    Stub("cuda-drivers", "595.84-1", [f"nvidia-driver-580-open (>= {NEWER_DRIVER})"]),
    Stub("cuda-nvcc-13-2", "13.2.51-1", files={"usr/local/cuda-13.2/bin/nvcc": NVCC}),
    Stub("cuda-toolkit-13-2", "13.2.0-1", ["cuda-nvcc-13-2"]),
    # The one that somebody takes for the toolkit, and that brings a driver.
    Stub("cuda-13-2", "13.2.0-1", ["cuda-toolkit-13-2", "cuda-drivers"]),
]
BOOT = f"""set -e
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:{UBUNTU} ./' > /etc/apt/sources.list
apt-get -qq update
apt-get -qq -y install nvidia-driver-580-open > /tmp/factory.log 2>&1 || {{ cat /tmp/factory.log; exit 1; }}
"""
# Source archives of PyPI: a package of one file in C, and one of forty, which takes a while.
MARKUPSAFE = {
    "pypi": "markupsafe==3.0.3",
    "sha256": "722695808f4b6457b320fdc131280796bdceb04ab50fe1795cd540799ebe1698",
}
CIPHERS = {
    "3.23.0": "447700a657182d60338bab09fdb27518f8856aecd80ae4c6bdddb67ff5da44ef",
    "3.22.0": "fd7ab568b3ad7b77c908d7c3f7e167ec5a8f035c64ff74f10d47a4edd043d723",
}


def build(ciphers: str = "3.23.0", turn: str = "", disk_gib: float = 0.2, **source: str) -> dict:
    """`runtime.build` of the profile. turn: anything new has the large package built anew. source: over its own."""
    return {
        "packages": ["cuda-toolkit-13-2"],
        "rust": RUST,
        # What Debian 12 has is older than vLLM wants, and enough for these.
        "tools": {"nvcc": "13.2", "gxx": "12", "rustc": "1.95", "cargo": "1.95"},
        "requires": str(HERE / "lab-build.txt"),
        "job_gib": 0.5,
        "sources": {
            "markupsafe": MARKUPSAFE,
            "pycryptodome": {"pypi": f"pycryptodome=={ciphers}", "sha256": CIPHERS[ciphers], **source},
        },
        "wheels": [
            {"name": "markupsafe", "version": "3.0.3", "source": "markupsafe", "disk_gib": disk_gib},
            {
                "name": "pycryptodome",
                "version": ciphers,
                "source": "pycryptodome",
                "needs": ["markupsafe"],
                "disk_gib": disk_gib,
                "environment": {"LAB_TURN": turn},
            },
        ],
    }


def inventory(fingerprint: str) -> dict:
    """What a user says in an inventory: a profile of their own, and a mirror."""
    runtime = {
        "kind": "source",
        "lock": str(HERE / "lab-engine.txt"),
        "made_here": None,
        "extra_indexes": None,
        "cuda_toolkit": "13.2",
        "build": build(),
    }
    profile = {
        "base": "rehearsal",
        "summary": "a package in C in place of an engine",
        "runtime": runtime,
        "engine": {"environment": {"CUDA_HOME": "/usr/local/cuda-13.2"}},
    }
    mirror = {"uri": f"file://{NVIDIA}/", "key": "lab.pub", "fingerprint": fingerprint}
    return {
        "tandem_profile": "build-lab",
        "tandem_profiles": {"build-lab": profile},
        "tandem_cuda_repository": mirror,
        "tandem_build_reserve_gib": 0.1,
        "tandem_wheelhouse_cache": str(WORK / "cache"),
    }


def archive(folder: Path) -> tuple[bytes, str]:
    """Both repositories as a tar of root's, and the fingerprint of the mirror's key."""
    for place in (UBUNTU, NVIDIA):
        (folder / place[1:]).mkdir(parents=True)
    stubs.build(folder / UBUNTU[1:], UBUNTU_STUBS, {"Origin": "Ubuntu", "Label": "Ubuntu"})
    head = {"Origin": "NVIDIA", "Label": "NVIDIA CUDA"}
    fingerprint = stubs.build(folder / NVIDIA[1:], NVIDIA_STUBS, head, "lab.pub")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                member = tar.gettarinfo(str(path), str(path.relative_to(folder)))
                member.uid = member.gid = 0
                member.uname = member.gname = "root"
                with path.open("rb") as stream:
                    tar.addfile(member, stream)
    return packed.getvalue(), fingerprint


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        content, fingerprint = archive(Path(folder))
    for node in NODES:
        command = [sys.executable, str(LAB_PROGRAM), "exec", node, "--", "tar", "-x", "-C", "/"]
        subprocess.run(command, input=content, check=True)
        shell(node, BOOT)
    (OWN / "group_vars").mkdir(parents=True, exist_ok=True)
    WORK.mkdir(exist_ok=True)
    (OWN / "hosts.yml").write_text("tandem: {}\n")
    (OWN / "group_vars" / "tandem.yml").write_text(json.dumps(inventory(fingerprint), indent=1) + "\n")


if __name__ == "__main__":
    main()
