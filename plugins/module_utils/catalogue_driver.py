# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about driver and kernel: as a pair, now and after the next boot."""

from __future__ import annotations

from .catalogue import Entry

_API = "The kernel log of such a node: NVRM: API mismatch: client has version A kernel module has version B"
_KHO = "NVIDIA/NV-Kernels#590"

ENTRIES = {
    "driver.none": Entry(
        "warning",
        "node",
        "There is no NVIDIA driver: none is loaded, and none is installed",
        "Install the driver that DGX OS ships: apt-get install nvidia-driver-580-open",
    ),
    "driver.loaded.none": Entry(
        "error",
        "node",
        "Driver {version} is on the node, but no NVIDIA module is loaded",
        "Run `modprobe nvidia` and read `dmesg | grep -i nvrm`; a kernel without its modules says `module not found`",
    ),
    "driver.next_boot.unknown": Entry(
        "warning",
        "node",
        "It is unknown which kernel boots next, so its NVIDIA module could not be looked for",
        "Run `grub-editenv list` and look at the default in /boot/grub/grub.cfg",
    ),
    "driver.userspace.unknown": Entry(
        "warning",
        "node",
        "The driver's libraries were not found, so it is unknown whether they fit the module",
        "Run `ldconfig -p | grep libnvidia-ml` on the node",
    ),
    "driver.pair.bad": Entry(
        "error",
        "node",
        "{pair} ({when}) is known to be bad: {why}",
        "{remedy}",
        source="driver_versions: the row's source is in the evidence",
    ),
    "driver.pair.contested": Entry(
        "warning",
        "node",
        "{pair} ({when}) is contested: {why}",
        "{remedy}",
        source="driver_versions: the row's source is in the evidence",
    ),
    "driver.pair.unlisted": Entry(
        "info",
        "node",
        "{pair} ({when}) is neither known to be good nor to be bad",
        "Nothing needs to be done once a proof has passed with it; keep it equal on all ranks",
    ),
    "driver.kernel.kho_cma": Entry(
        "error",
        "node",
        "The kernel's handover over kexec took memory away: {free} GiB of CMA are free, of {total} GiB that there are",
        "Add kho=off to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub and reboot, or boot a 6.17 kernel; "
        "look at this before the memlock limit where ibv_reg_mr says ENOMEM",
        source=_KHO,
    ),
    "driver.kernel.crash_memory": Entry(
        "warning",
        "node",
        "{mib} MiB are kept for a crash kernel, which the engine then lacks",
        "Remove crashkernel= from the kernel's options (package kdump-tools sets it) unless crash dumps are wanted",
        source=_KHO,
    ),
    "driver.kernel.no_module": Entry(
        "error",
        "node",
        "The next boot's kernel {kernel} has no NVIDIA module: after a reboot there is no GPU",
        "Before any reboot: apt-get install {package}, or make a kernel that has its modules the default",
    ),
    "driver.kernel.no_image": Entry(
        "error",
        "node",
        "GRUB boots {kernel} next, but {file} {state}",
        "Run `update-initramfs -c -k {kernel}` where it is the initrd, then update-grub and `grub-editenv list`; "
        "before any reboot see that /boot is mounted and not full",
    ),
    "driver.kernel.next_boot": Entry(
        "warning",
        "node",
        "The next boot brings another pair: {next} in place of {now}",
        "Keep it from happening unasked: hold driver and kernel. What is proved is proved for the pair of now",
    ),
    "driver.flavour.closed": Entry(
        "error",
        "node",
        "The driver {version} is of the closed flavour, which never starts a GB10",
        "Install the open flavour of the same version (nvidia-driver-580-open with linux-modules-nvidia-580-open-*)",
        source="Start9Labs/start-technologies#3693",
    ),
    "driver.userspace.mismatch": Entry(
        "error",
        "node",
        "The libraries are of driver {userspace}, the loaded module is {loaded}",
        "Reboot into the installed driver, or bring the packages back to {loaded}, all of them in one step",
        source=_API,
    ),
    "driver.next_boot.mismatch": Entry(
        "error",
        "node",
        "The next boot loads module {module}, but the libraries are of driver {userspace}",
        "Bring the modules of {kernel} and the driver to one version before any reboot",
        source=_API,
    ),
    "driver.version.old": Entry(
        "error",
        "node",
        "Driver {version} is loaded, {minimum} or newer is wanted",
        "Use an image or engine that was built for this driver, or bring every rank to a newer one",
        source="eugr/spark-vllm-docker#266",
    ),
    "driver.version.unequal": Entry(
        "warning",
        "group",
        "The ranks do not have the same driver and kernel: {versions}",
        "Bring them to one pair; an unequal pair is a likely cause of lost speed, not a proved one",
        source="canada-quant/dsv4-flash-w4a16-fp8 F006",
    ),
    "driver.packages.mixed": Entry(
        "error",
        "node",
        "The driver's packages are of several versions: {versions}",
        "Bring all of them to one version in one transaction, simulated first with apt-get -s",
    ),
    "driver.packages.broken": Entry(
        "error",
        "node",
        "Packages of driver or kernel are not wholly installed: {packages}",
        "Run `dpkg --audit`, then `dpkg --configure -a`; do not reboot before it is quiet",
    ),
    "driver.holds.partial": Entry(
        "warning",
        "node",
        "Driver and kernel are held only in part, so an upgrade can part them; not held: {packages}",
        "apt-mark hold {packages}",
        fixed_by="driver",
    ),
    "driver.holds.none": Entry(
        "warning",
        "node",
        "{movers} may upgrade driver and kernel unasked: {packages} are not held",
        "apt-mark hold {packages}",
        fixed_by="driver",
    ),
    "driver.pin.unmet": Entry(
        "warning",
        "node",
        "Driver {driver} with kernel {kernel} is wanted and not there yet: {why}",
        "Run `ansible-playbook playbooks/driver.yml -i inventory`, which shows what it would do before it does it",
    ),
    "driver.pin.impossible": Entry(
        "warning",
        "node",
        "Driver {driver} is wanted, and cannot be had as it is",
        "{problems}",
    ),
    "driver.change.unfinished": Entry(
        "warning",
        "node",
        "A change to driver {driver} with kernel {kernel} was begun and is not through (stage {stage})",
        "Run playbooks/driver.yml with the same words again, which takes it up",
    ),
    "driver.runfile.over_apt": Entry(
        "warning",
        "node",
        "A driver of NVIDIA's .run installer{version} lies over the one of the packages",
        "Run `nvidia-uninstall`, then apt-get install --reinstall the packages of the driver",
    ),
    "driver.runfile.trace": Entry(
        "info",
        "node",
        "NVIDIA's .run installer{version} was used on this node once",
        "Nothing needs to be done if the libraries fit the module; remove /var/log/nvidia-installer.log then",
    ),
    "driver.cdi.stale": Entry(
        "warning",
        "node",
        "{file} names driver {named}, loaded is {loaded}: containers get libraries that are not there",
        "nvidia-ctk cdi generate --output={file}",
    ),
    "driver.memory.override": Entry(
        "warning",
        "node",
        "An option of the NVIDIA modules may hide memory from CUDA: {files}",
        "Compare CUDA's total memory with MemTotal; below 80 % of it, read the file and ask who wrote it. Do not "
        "delete it unread: this was reported once",
        source="al-engr.com/sglang-deepseek-spark-pivot.html, a single report",
    ),
    "driver.memory.hidden": Entry(
        "warning",
        "node",
        "CUDA sees {cuda} GiB of the {total} GiB of this node",
        "Look for options of the NVIDIA modules in /etc/modprobe.d{files}; do not delete them unread",
        source="al-engr.com/sglang-deepseek-spark-pivot.html, a single report",
    ),
    "driver.xid.recovery": Entry(
        "error",
        "node",
        "The driver wants the GPU to be recovered in this boot (Xid 154): {action}",
        "Stop the engine on all ranks and reboot this node; nothing on it is to be trusted before",
    ),
    "driver.xid.fault": Entry(
        "warning",
        "node",
        "The driver told of faults of the GPU itself in this boot: Xid {xids}",
        "Read `journalctl -k -g NVRM` around it. If answers or speed are not as proved, stop the engine on all ranks "
        "and reboot; if it comes again, ask for a replacement",
        source="NVIDIA, Xid catalogue; NVIDIA/NemoClaw#8520: 120 some seconds after a cable was plugged in",
    ),
    "driver.gpu.not_started": Entry(
        "error",
        "node",
        "The driver could not start the GPU in this boot",
        "See that the flavour is open; else shut down and pull the power cord for a minute",
    ),
    "driver.gpu.doe": Entry(
        "error",
        "node",
        "The firmware's mailbox did not answer in this boot, as after a panic of kernel 6.17.0-1008",
        "Shut down, pull the power cord for a minute, and boot a newer kernel",
        source="forums.developer.nvidia.com, thread 366026",
    ),
}
