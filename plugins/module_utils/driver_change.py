# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of driver and kernel on one node: what is due, whether it may be done, and its steps.

Each step leaves the node in a state that the next run understands, so that a run that was cut off is taken up again:
plan -> install -> boot once -> judge -> (proof of the release) -> done. driver_host does what is done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import apt_transaction, driver_family, driver_judgement, driver_pin, driver_record, grub
from .apt_transaction import Step
from .debian_packages import Package
from .driver import DriverLook
from .driver_host import DriverError, Host
from .driver_pin import Closure
from .driver_record import Change, Record
from .driver_versions import judge as judge_pair

# What is wrong for good, whatever boots next. Holds and the next boot are set right by the steps that follow.
_NOT_YET = ("driver.next_boot.", "driver.kernel.n", "driver.holds.", "driver.pin.", "host.look.")


@dataclass(frozen=True)
class Plan:
    """step: none, install, boot, judge or prove; problems keep it from being done."""

    step: str
    why: str
    closure: Closure | None = None
    transaction: Sequence[Step] = ()
    problems: Sequence[str] = field(default=())
    warnings: Sequence[str] = field(default=())

    @property
    def reboots(self) -> bool:
        return self.step in ("install", "boot")


def due(
    look: DriverLook, packages: Mapping[str, Package], closure: Closure, record: Record, boot_id: str | None
) -> tuple[str, str]:
    """The next step towards the closure's pair, and why in words."""
    change = record.change
    pair = f"driver {closure.driver} with kernel {closure.kernel}"
    if change and (change.driver, change.kernel) != (closure.driver, closure.kernel):
        change = None  # a wish of an earlier run, which is given up
    broken = any(each.broken and driver_family.in_family(name) for name, each in packages.items())
    if closure.missing(packages) or broken:
        return "install", f"packages of {pair} are not installed"
    if change and change.stage == "booting" and change.boot_id != boot_id:
        return "judge", f"the node was booted for {pair} and not judged yet"
    runs = (look.loaded, look.running) == (closure.driver, closure.kernel)
    if not runs:
        return "boot", f"{pair} is installed and does not run"
    if look.next_boot != closure.kernel:
        return "judge", f"{pair} runs and is not what boots next"
    if change and change.stage == "good":
        return "prove", f"{pair} runs, and no release was proved with it"
    if change:
        return "judge", f"{pair} runs and was not judged yet"
    return "none", f"{pair} runs"


def plan(host: Host, driver: str, kernel: str, whole_fallback: bool) -> Plan:
    """What is due for the wanted pair; a transaction is simulated, and everything that is in its way is named."""
    look, packages, record = host.look(), host.packages(), host.record()
    if not look.running:
        return Plan("none", "", problems=["The running kernel is unknown: run `uname -r`"])
    drivers = sorted(driver_family.versions(packages))
    try:
        closure = driver_pin.closure(packages, host.offer(), drivers, look.running, driver, kernel)
    except driver_pin.PinError as error:
        return Plan("install", "", problems=error.problems)
    step, why = due(look, packages, closure, record, host.boot_id())
    if step == "none":
        return Plan(step, why, closure)
    mark, row = judge_pair(closure.driver, closure.kernel, look.next_boot_options)
    pair = f"driver {closure.driver} with kernel {closure.kernel}"
    problems = [f"{pair} is known to be bad: {row.why} ({row.source})"] if mark == "bad" else []
    warnings = [f"{pair} is contested: {row.why} ({row.source}). {row.remedy}"] if mark == "contested" else []
    if mark == "unknown":
        warnings = [f"{pair} is in no list of pairs that are known to be good"]
    transaction: list[Step] = []
    if step in ("install", "boot"):
        problems += _boot_problems(host, look.running)
        mine = record.change is not None and record.change.stage == "installing"
        if (audit := host.audit()) and not mine:
            problems.append(
                f"dpkg is not through with earlier work: run `dpkg --configure -a`. It says: {audit}"
            )
    if step == "install":
        problems += host.room()
        if not audit:
            transaction = apt_transaction.read_simulation(
                host.simulate(closure.words(packages), closure.preferences)
            )
            problems += apt_transaction.problems(transaction, closure, packages, look.running, whole_fallback)
    elif step == "boot":
        problems += host.unready(closure.kernel, closure.driver)
    return Plan(step, why, closure, transaction, problems, warnings)


def _boot_problems(host: Host, running: str) -> list[str]:
    if missing := host.grub_tools_missing():
        return [f"{', '.join(missing)} cannot be run: without GRUB no kernel can be booted once"]
    found = []
    if not grub.boots_once(host.grub()):
        found.append(
            "GRUB cannot boot an entry once: its configuration does not know next_entry (run update-grub), or /boot "
            "lies where GRUB cannot write (LVM, btrfs, ZFS), so that it would boot it for ever"
        )
    if grub.way_to(host.grub(), running) is None:
        found.append(
            f"GRUB's menu has no entry for the running kernel {running}, so there would be no way back"
        )
    return found


def install(host: Host, driver: str, kernel: str, whole_fallback: bool) -> Plan:
    """The packages of the pair, all of them in one transaction; the kernel that runs stays the one that boots."""
    look, record = host.look(), host.record()
    host.wait_for_apt()
    cut_off = record.change is not None and record.change.stage == "installing"
    if cut_off and host.audit():
        host.finish_broken()
    planned = plan(host, driver, kernel, whole_fallback)
    through = cut_off and planned.step == "boot"  # what was unpacked was all that was missing
    if planned.problems or not (through or planned.step == "install"):
        return planned
    closure = planned.closure
    before = record.change.before if record.change else (look.loaded, look.running)
    change = Change("installing", closure.driver, closure.kernel, before)
    record = replace(record, grub=True)
    if not through:
        host.write_record(driver_record.at_stage(record, change, host.boot_id()))
        host.set_up_grub(look.running)
        host.write_preferences(closure.preferences)
        host.install(closure.words(host.packages()))
    left = closure.missing(host.packages())
    if left:
        raise DriverError(
            f"apt ended well, and these are still not as wanted: {left}. Look at /var/log/apt/term.log"
        )
    host.boot_always(look.running)
    host.write_record(driver_record.at_stage(record, replace(change, stage="installed"), host.boot_id()))
    return replace(planned, step="install")


def boot_once(host: Host, driver: str, kernel: str) -> Change:
    """Has the wanted kernel boot once. DriverError where it would not come up with its driver."""
    look, record = host.look(), host.record()
    problems = [*_boot_problems(host, look.running), *host.unready(kernel, driver)]
    if problems:
        raise DriverError("The node must not be booted like this:\n" + "\n".join(problems))
    before = record.change.before if record.change else (look.loaded, look.running)
    change = Change("booting", driver, kernel, before)
    record = replace(record, grub=True)
    # What came back before, or else what runs now, stays the default until the other was judged.
    host.set_up_grub(look.running if look.running != kernel else (before[1] or look.running))
    host.boot_once(kernel)
    host.write_record(driver_record.at_stage(record, change, host.boot_id()))
    return change


def reasons(look: DriverLook, driver: str, kernel: str) -> list[str]:
    """Why the pair that runs now is not what was wanted, or not well; empty where it is."""
    found = []
    if look.running != kernel:
        found.append(f"kernel {look.running or 'unknown'} runs, {kernel} was to boot: it did not come up")
    if look.loaded != driver:
        found.append(f"driver {look.loaded or 'none'} is loaded, wanted is {driver}")
    if look.userspace != driver:
        found.append(f"the libraries are of driver {look.userspace or 'unknown'}, wanted is {driver}")
    _verdict, notes = driver_judgement.judge(look)
    found += [
        f"{note.summary}. {note.remedy}"
        for note in notes
        if note.severity == "error" and not note.id.startswith(_NOT_YET)
    ]
    return found


def judge(
    host: Host, driver: str, kernel: str, also: Sequence[str], timeout_s: float, pause_s: float = 2
) -> list[str]:
    """Makes the pair the default where it came up well; else the kernel of before stays it. Returns why not.

    `also` are reasons that others found. Modules may load a little after the node answers, so it is looked at for
    timeout_s seconds.
    """
    until = time.monotonic() + timeout_s
    while (found := reasons(host.look(), driver, kernel)) and time.monotonic() < until:
        time.sleep(pause_s)
    found += also
    record = host.record()
    change = record.change or Change("booting", driver, kernel, (None, None))
    if not found:
        host.set_up_grub(kernel)
        record = replace(record, grub=True)
        host.write_record(driver_record.at_stage(record, replace(change, stage="good"), host.boot_id()))
        return []
    if change.before[1]:
        host.boot_always(change.before[1])
    failed = replace(change, stage="failed", reasons=tuple(found))
    host.write_record(driver_record.at_stage(record, failed, host.boot_id()))
    return found


def finish(host: Host) -> bool:
    """Forgets a change that was proved; True where there was one."""
    record = host.record()
    if record.change is None or record.change.stage != "good":
        return False
    host.write_record(replace(record, change=None))
    return True
