# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One virtual machine that boots from its own disk by real GRUB, once for each thing that it is told.

Needs root, QEMU and the lab's mmdebstrap; no network, no KVM (LAB_ACCEL=kvm takes it where it runs guests).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))

import image  # noqa: E402 - after the path to it
import vm  # noqa: E402 - after the path to it
from settings import Lab  # noqa: E402 - after the path to it
from system import remove_tree, run  # noqa: E402 - after the path to it

RECIPE = HERE / "boot_image"
LIBRARY = HERE.parents[1] / "plugins" / "module_utils"
DISK, KERNEL, INITRD = "disk.raw", "vmlinuz", "initrd"
SECTOR, FIRST, SIZE_MIB = 512, 2048, 2048  # GRUB lies between the partition table and the first MiB's end
MEMORY_MIB = 512
LIMIT_S = 1800  # emulated, on a machine that does other things as well
PANIC = "Kernel panic - not syncing"
STAND_STILL_S = 5


def build(folder: Path) -> None:
    """A disk with one partition and no boot loader yet, and one of its kernels beside it for the first boot."""
    root, system = folder / "root", folder / "system.ext3"
    root.mkdir()
    image.bootstrap(root, RECIPE, [f"--essential-hook={RECIPE / 'initramfs.sh'}"])
    for name, pattern in ((KERNEL, "vmlinuz-*-cloud-*"), (INITRD, "initrd.img-*-cloud-*")):
        (found,) = (root / "boot").glob(pattern)
        shutil.copyfile(found, folder / name)
    # ext3: GRUB does not know all that newer versions of mke2fs make an ext4 of.
    run(["mke2fs", "-q", "-t", "ext3", "-d", root, system, f"{SIZE_MIB}M"])
    with open(folder / DISK, "wb") as disk:
        disk.write(partition_table())
    run(["dd", f"if={system}", f"of={folder / DISK}", "bs=1M", "seek=1", "conv=sparse,notrunc"])
    os.truncate(folder / DISK, (1 + SIZE_MIB) << 20)
    system.unlink()
    remove_tree(root)


def partition_table() -> bytes:
    """A master boot record with one Linux partition from the first MiB on."""
    sectors = SIZE_MIB * (1 << 20) // SECTOR
    entry = b"\x80\0\0\0\x83\0\0\0" + FIRST.to_bytes(4, "little") + sectors.to_bytes(4, "little")
    return bytes(446) + entry + bytes(48) + b"\x55\xaa"


class Machine:
    """Lives in `folder`; every boot does the steps that it is given and tells what came of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.boots = folder, 0
        self.image = image.kept(Lab.from_environment(), RECIPE, build)
        disk = folder / "disk.qcow2"
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", self.image / DISK, disk])
        # The one boot that needs no boot loader, since it writes it.
        words = "root=/dev/vda1 console=ttyS0 init=/lab/init mitigations=off no_timer_check"
        direct = ["-kernel", self.image / KERNEL, "-initrd", self.image / INITRD, "-append", words]
        self.factory = self._boot([["factory"]], direct)

    def boot(self, *steps: list[str]) -> dict:
        """What the machine told; {"panic": True} where its kernel gave up and stood still until the plug was pulled."""
        return self._boot(list(steps))

    def _boot(self, steps: list[list[str]], more: Sequence[str | Path] = ()) -> dict:
        self.boots += 1
        console, told = self.folder / f"console-{self.boots}.log", self.folder / "steps.tar"
        write_steps(told, steps)
        words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-machine", "q35"]
        words += ["-accel", os.environ.get("LAB_ACCEL", "tcg"), "-cpu", vm.CPU, "-m", str(MEMORY_MIB)]
        words += ["-display", "none", "-serial", f"file:{console}"]
        words += ["-drive", f"if=virtio,format=qcow2,file={self.folder}/disk.qcow2"]
        words += ["-drive", f"if=virtio,format=raw,readonly=on,file={told}"]
        with subprocess.Popen([str(word) for word in [*words, *more]], stdin=subprocess.DEVNULL) as machine:
            try:
                return self._watch(machine, console)
            finally:
                machine.kill()  # the plug: also where the test ends early

    def _watch(self, machine: subprocess.Popen, console: Path) -> dict:
        until = time.monotonic() + LIMIT_S
        while machine.poll() is None:
            if time.monotonic() > until:
                raise AssertionError(f"no end of the boot after {LIMIT_S} s: {tail(console)}")
            if PANIC in text(console):
                time.sleep(STAND_STILL_S)
                assert machine.poll() is None, "a panic stands still here, as kernel.panic=0 has it"
                return {"panic": True}
            time.sleep(0.5)
        said = [line[4:] for line in text(console).splitlines() if line.startswith("LAB {")]
        assert len(said) == 1, tail(console)
        return json.loads(said[0])


def write_steps(path: Path, steps: list[list[str]]) -> None:
    with tarfile.open(path, "w") as archive:
        for file in sorted(LIBRARY.glob("*.py")):
            archive.add(file, f"lab/lib/tandem/{file.name}")
        archive.add(HERE / "guest" / "step.py", "lab/step.py")
        content = json.dumps(steps).encode()
        member = tarfile.TarInfo("lab/steps.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def text(console: Path) -> str:
    return console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""


def tail(console: Path) -> str:
    return "\n".join(text(console).splitlines()[-40:])
