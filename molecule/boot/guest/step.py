# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In the machine: does the steps that /lab/steps.json names with the code that a node runs, and tells what came of it.

The driver and its module are pretended, since no emulated machine has a GPU. GRUB, kernels and boots are real.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "/lab/lib")

from tandem import driver_change, grub  # noqa: E402 - after the path to it
from tandem.boot_readiness import grub_text  # noqa: E402 - after the path to it
from tandem.driver_host import DriverError, Host  # noqa: E402 - after the path to it

DRIVER = "580.142"
MODULE = "kernel/nvidia-580-open/nvidia.ko"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LOADED = f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {DRIVER}  Release Build  (lab@lab)\n"
PANICS = bytes(4096)  # an initramfs with nothing in it: no disk is found, and the kernel gives up


def factory(_host: Host) -> None:
    """GRUB on the disk, and a driver for every kernel."""
    for release in os.listdir("/lib/modules"):
        module = Path("/lib/modules", release, MODULE)
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_bytes(b"\x7fELF" + bytes(64) + f"license=Dual MIT/GPL\0version={DRIVER}\0".encode())
        with open(f"/lib/modules/{release}/modules.dep", "a") as listed:
            listed.write(f"{MODULE}:\n")
    (LIBRARIES / f"libnvidia-ml.so.{DRIVER}").touch()
    (LIBRARIES / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{DRIVER}")
    subprocess.run(["grub-install", "/dev/vda"], check=True)
    subprocess.run(["update-grub"], check=True)


def load_driver(_host: Host) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/proc/driver"], check=True)
    Path("/proc/driver/nvidia").mkdir()
    Path("/proc/driver/nvidia/version").write_text(LOADED)


def tried(host: Host) -> str:
    """The kernel that is tried: the one that did not run when the first step was taken."""
    change = host.record().change
    (other,) = set(os.listdir("/lib/modules")) - {os.uname().release}
    return change.kernel if change else other


def spoil(host: Host) -> None:
    initrd = Path(f"/boot/initrd.img-{tried(host)}")
    initrd.rename("/boot/good.img")
    initrd.write_bytes(PANICS)


def mend(host: Host) -> None:
    Path("/boot/good.img").rename(f"/boot/initrd.img-{tried(host)}")


def once(host: Host) -> None:
    driver_change.boot_once(host, DRIVER, tried(host))


def judge(host: Host) -> list[str]:
    return driver_change.judge(host, DRIVER, tried(host), [], 0)


STEPS = {each.__name__: each for each in (factory, load_driver, spoil, mend, once, judge)}


def main() -> None:
    host, told = Host(), {"between": []}
    try:
        for (name,) in json.loads(Path("/lab/steps.json").read_text()):
            told[name] = STEPS[name](host)
            told["between"].append(host.boots_next())
    except (DriverError, subprocess.CalledProcessError) as error:
        told["error"] = str(error)
    change = host.record().change
    told.update(
        running=os.uname().release,
        kernels=sorted(os.listdir("/lib/modules")),
        next=host.boots_next(),
        environment=grub.read_environment(grub_text(host.tree, "grubenv")),
        stage=change and change.stage,
    )
    print(f"\nLAB {json.dumps(told)}", flush=True)


main()
