# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to think of driver and kernel of a node: findings, and one verdict on the pair of now and of the next boot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from . import driver_family
from .driver import DriverLook
from .driver_versions import judge as judge_pair
from .findings import Finding, finding, worst_first
from .nccl_speaker import version_number

# Faults of the GPU, its memory or its firmware; not those of programs (13, 31, 43, 45), nor 169 of a closed module.
FAULTS = ("48", "61", "62", "64", "74", "79", "92", "95", "119", "120", "140", "143")
CUDA_SHARE = 0.8  # CUDA sees nearly all of MemTotal; 62 of 119.7 GiB were seen where an option hid memory


def judge(
    look: DriverLook, minimum: str | None = None, cuda_total_gib: float | None = None
) -> tuple[str, list[Finding]]:
    """The verdict (good, bad, contested or unknown) and everything that was found, worst first.

    good is said only where both pairs are known to be good, every part of them was read, and no error was found.
    """
    if not look.anything:
        marks = [judge_pair(None, look.running, look.running_options or ())]
        notes = [finding("driver.none"), *_unread(look), *_pairs(look)]
    else:
        marks = [mark for _when, _driver, _kernel, mark in _judged(look)]
        notes = [
            *_unread(look),
            *_pairs(look),
            *_versions(look, minimum),
            *_next_boot(look),
            *_packages(look),
            *_leftovers(look),
            *_memory(look, cuda_total_gib),
            *_log(look),
        ]
    found = {mark for mark, _row in marks}
    if "bad" in found or any(note.severity == "error" for note in notes):
        verdict = "bad"
    elif "contested" in found:
        verdict = "contested"
    else:
        verdict = "good" if found == {"good"} and _whole(look) else "unknown"
    return verdict, worst_first(notes)


def compare(seen: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Results of the module by host -> a finding where loaded drivers or running kernels differ."""
    pairs = {host: (each["driver"]["loaded"], each["kernel"]["running"]) for host, each in seen.items()}
    if len(set(pairs.values())) < 2:
        return []
    told = (
        f"{host} {driver or 'unknown'} on {kernel or 'unknown'}" for host, (driver, kernel) in pairs.items()
    )
    return [finding("driver.version.unequal", hosts=tuple(pairs), versions=", ".join(told))]


def _whole(look: DriverLook) -> bool:
    """Was everything read that the verdict good speaks of?"""
    return bool(
        look.loaded
        and look.userspace
        and look.flavour == "open"
        and look.modules_present
        and look.module.version
        and look.next_boot_lacks == ()
        and look.packages is not None
        and look.kho.takes_memory is False
        and not look.unreadable
    )


def _judged(look: DriverLook) -> Iterator[tuple[str, str | None, str | None, tuple]]:
    now = (look.loaded, look.running)
    then = (look.module.version if look.module else None, look.next_boot)
    yield "now", *now, judge_pair(*now, look.running_options or ())
    yield "next boot", *then, judge_pair(*then, look.next_boot_options)


def _pairs(look: DriverLook) -> Iterator[Finding]:
    told: dict[tuple, list[str]] = {}
    rows = {}
    for when, driver, kernel, (mark, row) in _judged(look):
        if mark != "good" and kernel and (row or driver):
            told.setdefault((mark, driver, kernel), []).append(when)
            rows[mark, driver, kernel] = row
    for (mark, driver, kernel), when in told.items():
        row = rows[mark, driver, kernel]
        pair = f"Driver {driver} with kernel {kernel}" if driver else f"Kernel {kernel}"
        if row:
            values = {"pair": pair, "when": " and ".join(when), "why": row.why, "remedy": row.remedy}
            yield finding(f"driver.pair.{mark}", evidence=row.source, **values)
        elif look.anything:
            yield finding("driver.pair.unlisted", pair=pair, when=" and ".join(when))
    if look.kho.takes_memory:
        yield finding("driver.kernel.kho_cma", free=look.kho.cma_free_gib, total=look.kho.cma_total_gib)


def _unread(look: DriverLook) -> Iterator[Finding]:
    if look.unreadable:
        files = " ".join(look.unreadable)
        yield finding("host.look.failed", subject=files, command=f"ls -l {files}")
    for value, subject, command in (
        (look.running, "The running kernel", "uname -r"),
        (look.packages, "The installed packages", "dpkg-query --list"),
        (look.kho.cma_total_gib, "The memory that is kept as CMA", "grep Cma /proc/meminfo"),
    ):
        if value is None:
            yield finding("host.look.failed", subject=subject, command=command)


def _versions(look: DriverLook, minimum: str | None) -> Iterator[Finding]:
    if look.loaded_unknown:
        yield finding(
            "host.look.failed", subject="The loaded driver", command="cat /proc/driver/nvidia/version"
        )
    elif look.running and not look.loaded:
        yield finding("driver.loaded.none", version=look.installed or look.userspace or "of unknown version")
    if look.loaded and look.userspace and look.loaded != look.userspace:
        yield finding("driver.userspace.mismatch", userspace=look.userspace, loaded=look.loaded)
    if not look.userspace:
        yield finding("driver.userspace.unknown")
    if look.flavour == "closed":
        yield finding("driver.flavour.closed", version=look.loaded or look.installed)
    if minimum and look.loaded and version_number(look.loaded) < version_number(minimum):
        yield finding("driver.version.old", version=look.loaded, minimum=minimum)


def _next_boot(look: DriverLook) -> Iterator[Finding]:
    kernel, module = look.next_boot, look.module
    if not kernel:
        yield finding("driver.next_boot.unknown")
        return
    for file in look.next_boot_lacks or ():
        yield finding("driver.kernel.no_image", kernel=kernel, file=file, state="is not there or empty")
    if look.modules_present is False:
        branch = next(
            (re.sub(r"^nvidia-driver-", "", each.name) for each in look.movers if "driver" in each.name), ""
        )
        package = f"linux-modules-nvidia-{branch or '580-open'}-{kernel}"
        evidence = ""
        if module:
            listed, there = (
                "is in modules.dep and not on the disk",
                "is on the disk and not in modules.dep: depmod -a",
            )
            evidence = f"{module.path} {listed if module.listed else there}"
        yield finding("driver.kernel.no_module", evidence=evidence, kernel=kernel, package=package)
        return
    if not look.modules_known or module is None:
        yield finding("host.look.failed", subject=f"The modules of {kernel}", command="ls /lib/modules")
        return
    if module.version is None:
        command = f"modinfo -k {kernel} nvidia"
        yield finding("host.look.failed", subject=f"The version of {module.path}", command=command)
    elif look.userspace and module.version != look.userspace:
        values = {"module": module.version, "userspace": look.userspace, "kernel": kernel}
        yield finding("driver.next_boot.mismatch", **values)
    if module.open_flavour is False and look.flavour != "closed":
        yield finding("driver.flavour.closed", version=f"{module.version} of the next boot")
    now, then = (look.loaded, look.running), (module.version, kernel)
    if None not in (*now, *then) and now != then:
        told = {"now": f"{now[0]} on {now[1]}", "next": f"{then[0]} on {then[1]}"}
        yield finding("driver.kernel.next_boot", **told)


def _packages(look: DriverLook) -> Iterator[Finding]:
    packages = list((look.packages or {}).values())
    broken = [each.name for each in packages if each.broken]
    if broken:
        yield finding("driver.packages.broken", packages=" ".join(broken))
    versions = driver_family.versions(look.packages or {})
    if len(versions) > 1:
        evidence = "; ".join(f"{version}: {' '.join(names)}" for version, names in versions.items())
        yield finding("driver.packages.mixed", evidence=evidence, versions=", ".join(sorted(versions)))
    loose = " ".join(each.name for each in look.movers if not each.held)
    if loose and any(each.held for each in packages):
        yield finding("driver.holds.partial", packages=loose)
    elif loose and look.automatic:
        yield finding("driver.holds.none", movers=" and ".join(look.automatic), packages=loose)


def _leftovers(look: DriverLook) -> Iterator[Finding]:
    version = f" ({look.runfile_log})" if look.runfile_log else ""
    if look.runfile:
        yield finding("driver.runfile.over_apt", evidence=f"/{look.runfile}", version=version)
    elif look.runfile_log is not None:
        yield finding("driver.runfile.trace", evidence="/var/log/nvidia-installer.log", version=version)
    for file, named in look.cdi.items():
        if look.loaded and named != (look.loaded,):
            yield finding("driver.cdi.stale", file=file, named=", ".join(named), loaded=look.loaded)


def _memory(look: DriverLook, cuda_total_gib: float | None) -> Iterator[Finding]:
    files = ", ".join(look.overrides)
    if cuda_total_gib is None or look.mem_total_gib is None:
        if files:
            yield finding("driver.memory.override", files=files)
    elif cuda_total_gib < CUDA_SHARE * look.mem_total_gib:
        values = {"cuda": cuda_total_gib, "total": look.mem_total_gib, "files": files and f" ({files})"}
        yield finding("driver.memory.hidden", evidence=files, **values)
    if look.crash_kernel_bytes:
        yield finding("driver.kernel.crash_memory", mib=look.crash_kernel_bytes >> 20)


def _log(look: DriverLook) -> Iterator[Finding]:
    if look.log is None:
        return
    if look.log.wanted:
        yield finding("driver.xid.recovery", action=look.log.wanted)
    elif faults := [xid for xid in look.log.xids if xid in FAULTS]:
        yield finding("driver.xid.fault", xids=", ".join(sorted(faults, key=int)))
    if look.log.not_started:
        yield finding("driver.gpu.not_started", evidence=look.log.not_started)
    if look.log.doe:
        yield finding("driver.gpu.doe", evidence=look.log.doe)
