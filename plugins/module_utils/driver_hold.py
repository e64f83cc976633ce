# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holding driver and kernel: what is to be done so that nothing moves them unasked, and what undoes it.

dpkg's holds are taken, not a pin in apt's preferences: apt-get, apt, aptitude and unattended-upgrades all keep them,
`apt-mark showhold` and `dpkg --list` (hi) show them to whoever wonders, and a later pin does not fight with them.
A pin at 1001 would do the same for upgrades, but would pull a version that an administrator installed by hand back
down with the next upgrade. autoremove is another matter: it takes what is marked as automatically installed, so that
mark goes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from . import driver_family as family
from .debian_packages import Package
from .driver_record import Record


@dataclass(frozen=True)
class Steps:
    """Names of packages by what is to be done, in the words of apt-mark, and of units by those of systemctl."""

    hold: tuple[str, ...] = ()
    unhold: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    unmask: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != Steps()


def holding(
    packages: Mapping[str, Package],
    automatic: Collection[str],
    releases: Collection[str],
    unmasked: Collection[str],
    record: Record,
) -> Steps:
    """What keeps the present driver and the kernels `releases`; what was held for another one before is let go.

    `automatic` are the packages that apt may remove, `unmasked` the units that upgrade unasked.
    """
    held = family.to_hold(packages, family.versions(packages), releases)
    protected = family.to_protect(packages, automatic, held)
    kept = set(family.to_protect(packages, packages, held))
    return Steps(
        hold=tuple(name for name in held if not packages[name].held),
        unhold=tuple(name for name in _present(record.held, packages) if name not in held),
        manual=tuple(protected),
        auto=tuple(
            name for name in _present(record.manual, packages) if name not in kept and name not in automatic
        ),
        mask=tuple(unmasked),
    )


def releasing(packages: Mapping[str, Package], automatic: Collection[str], record: Record) -> Steps:
    """What undoes all that was done here, and nothing else."""
    return Steps(
        unhold=_present(record.held, packages),
        auto=tuple(name for name in _present(record.manual, packages) if name not in automatic),
        unmask=record.masked,
    )


def _present(names: Collection[str], packages: Mapping[str, Package]) -> tuple[str, ...]:
    return tuple(name for name in names if name in packages and packages[name].installed)


def remembered(record: Record, steps: Steps) -> Record:
    """The record after the steps."""
    return replace(
        record,
        held=_joined(record.held, steps.hold, steps.unhold),
        manual=_joined(record.manual, steps.manual, steps.auto),
        masked=_joined(record.masked, steps.mask, steps.unmask),
    )


def _joined(before: Collection[str], more: Collection[str], less: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted({*before, *more} - set(less)))


def picture(packages: Mapping[str, Package], automatic: Collection[str], steps: Steps | None = None) -> str:
    """What is held, may be removed, or is masked, a line each; with steps: as it is after them."""
    held = {name for name, each in packages.items() if each.held}
    removable = {
        name
        for name in automatic
        if name in packages and (family.in_family(name) or family.PLATFORM.fullmatch(name))
    }
    masked: set[str] = set()
    if steps:
        held = {*held, *steps.hold} - set(steps.unhold)
        removable = {*removable, *steps.auto} - set(steps.manual)
        masked = set(steps.mask)
    lines = [f"held {name}" for name in sorted(held)]
    lines += [f"automatically installed {name}" for name in sorted(removable)]
    return "".join(f"{line}\n" for line in lines + [f"masked {name}" for name in sorted(masked)])
