# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt would do (`apt-get --simulate`), and whether that is what a change of driver and kernel may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import driver_family as family
from .debian_packages import Package, compare
from .driver_pin import Closure

_INST = re.compile(r"Inst (\S+)(?: \[([^]\s]*)\])? \((\S+)[^)]*\)")
_REMV = re.compile(r"(?:Remv|Purg) (\S+)(?: \[([^]\s]*)\])?")


@dataclass(frozen=True)
class Step:
    """before is empty for a package that is new, after for one that goes."""

    name: str
    before: str
    after: str

    @property
    def action(self) -> str:
        if not self.after:
            return "remove"
        if not self.before:
            return "install"
        sign = compare(self.before, self.after)
        return "upgrade" if sign < 0 else "downgrade" if sign > 0 else "reinstall"


def read_simulation(text: str) -> list[Step]:
    """The steps that apt-get prints with --simulate; the order is apt's own."""
    steps = []
    for line in text.splitlines():
        if found := _INST.match(line):
            steps.append(Step(found[1].partition(":")[0], found[2] or "", found[3]))
        elif found := _REMV.match(line):
            steps.append(Step(found[1].partition(":")[0], found[2] or "", ""))
    return steps


def table(steps: Sequence[Step]) -> str:
    """The steps for people, those that take something away first, and their number by kind."""
    order = ("remove", "downgrade", "upgrade", "install", "reinstall")
    lines = [
        f"{each.action:10} {each.name} {' -> '.join(filter(None, (each.before, each.after)))}"
        for each in sorted(steps, key=lambda each: (order.index(each.action), each.name))
    ]
    counts = {action: sum(each.action == action for each in steps) for action in order}
    return "\n".join([*lines, ", ".join(f"{count} {action}" for action, count in counts.items() if count)])


def problems(
    steps: Sequence[Step],
    closure: Closure,
    packages: Mapping[str, Package],
    running: str,
    whole_fallback: bool = True,
) -> list[str]:
    """Why the transaction must not be done, a sentence each; empty where it is what was wanted and no more."""
    found = []
    for step in steps:
        if step.action == "remove":
            found += _removal(step.name, closure, running, whole_fallback)
        elif step.name in packages and packages[step.name].held and not family.in_family(step.name):
            found.append(
                f"apt would change {step.name}, which somebody holds and which is neither driver nor kernel: "
                f"apt-mark unhold {step.name} if it may"
            )
    after = {name: each.version for name, each in packages.items() if each.installed}
    after.update({step.name: step.after for step in steps})
    found += [
        f"apt would leave {name} at {after.get(name) or 'not installed'}, wanted is {version}: "
        f"look for another pin with `apt-cache policy {name}`"
        for name, version in closure.pins.items()
        if after.get(name) != version
    ]
    return found


def _removal(name: str, closure: Closure, running: str, whole_fallback: bool) -> Iterator[str]:
    release, modules = family.release_of(name), family.flavour_of_modules(name)
    if release in (running, closure.kernel) and not modules:
        yield f"apt would remove {name}, by which this node boots: it must stay"
    elif release == running and modules and whole_fallback:
        yield (
            f"apt would remove {name}: the kernel that runs would boot without a GPU, and apt has no build of its "
            f"modules for driver {closure.driver}. Allow it with -e tandem_driver_fallback=kernel"
        )
    elif not modules and name not in closure.leaves:
        yield f"apt would remove {name}, which the change does not replace: see `apt-cache rdepends {name}`"
