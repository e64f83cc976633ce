# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wanted driver and its kernel as one closure of package versions: all of them move, up or down, or none does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import driver_family as family
from .debian_packages import Available, Package, contradicted, version_key

PRIORITY = 1001  # from 1000 on apt also goes down to a pinned version (apt_preferences(5))
_BRANCH = re.compile(r"-(\d{3})(?=-|$)")
# The modules of a kernel do not carry the driver's version, but want its common files at that very version.
_WANTS = re.compile(r"nvidia-kernel-common\S* \(>= (\d+(?:\.\d+)+)")

Offer = Mapping[str, Sequence[Available]]


class PinError(Exception):
    """Everything that keeps the pair from being made, a sentence each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__(". ".join(self.problems) + ".")


@dataclass(frozen=True)
class Closure:
    """pins: the version of each package of the pair; leaves: packages that others replace or that want another driver.

    fallback: whether the kernel that runs keeps a module of the wanted driver, and so is a whole pair to go back to.
    """

    driver: str
    kernel: str
    pins: Mapping[str, str]
    leaves: frozenset[str]
    fallback: bool

    @property
    def preferences(self) -> str:
        """The text for /etc/apt/preferences.d."""
        head = f"# Driver {self.driver} with kernel {self.kernel}, written by tandem.spark (role driver, policy pin).\n"
        return head + "".join(
            f"\nPackage: {name}\nPin: version {version}\nPin-Priority: {PRIORITY}\n"
            for name, version in sorted(self.pins.items())
        )

    def words(self, packages: Mapping[str, Package]) -> list[str]:
        """The packages as apt-get install takes them; what leaves has a minus behind it."""
        wanted = [f"{name}={version}" for name, version in sorted(self.pins.items())]
        gone = (name for name in sorted(self.leaves) if name in packages and packages[name].installed)
        return wanted + [f"{name}-" for name in gone]

    def missing(self, packages: Mapping[str, Package]) -> dict[str, str]:
        """The pins that are not installed."""
        return {
            name: version
            for name, version in self.pins.items()
            if not (name in packages and packages[name].installed and packages[name].version == version)
        }


def closure(
    packages: Mapping[str, Package],
    offer: Offer,
    drivers: Sequence[str],
    running: str,
    driver: str,
    kernel: str = "",
) -> Closure:
    """The closure of `driver`; `kernel` is a release, or how it begins, and else the one that has its modules.

    `packages` are the installed ones, `offer` all versions that apt knows of driver and kernel, `drivers` the versions
    that the driver's packages have now. PinError with everything that is missing.
    """
    user_space, leaves, problems = _user_space(packages, offer, drivers, driver)
    if not user_space:
        raise PinError(problems)
    modules = _modules(packages, offer, driver)
    dkms = any(re.fullmatch(r"nvidia-(dkms-\S+|kernel-\S*dkms)", name) for name in user_space)
    try:
        release = _choose_kernel(modules, offer, packages, running, kernel, dkms)
    except PinError as error:
        raise PinError([*problems, *error.problems]) from None
    pins = dict(user_space)
    for each in {release, running} & set(modules):
        if each == release or modules[each].name in packages:
            pins[modules[each].name] = modules[each].version
    problems += _pin_kernel(pins, packages, offer, release, driver)
    if problems:
        raise PinError(problems)
    _pin_ota(pins, packages, offer)
    had_modules = any(
        family.flavour_of_modules(name) and family.release_of(name) == running
        for name, each in packages.items()
        if each.installed
    )
    # Named to apt, which lets a held package be in the way rather than take it away.
    others = {
        name
        for name, each in packages.items()
        if each.installed and family.in_family(name) and name not in pins and contradicted(each.depends, pins)
    }
    return Closure(driver, release, pins, leaves | others, running in modules or dkms or not had_modules)


def _user_space(
    packages: Mapping[str, Package], offer: Offer, drivers: Sequence[str], driver: str
) -> tuple[dict[str, str], frozenset[str], list[str]]:
    """Pins of what carries the driver's version, names that others replace, and what has no such version."""
    pins: dict[str, str] = {}
    leaves: set[str] = set()
    problems: list[str] = []
    known: set[str] = set()
    for name, each in packages.items():
        carries = each.upstream in drivers or each.upstream == driver
        if not (each.installed or each.broken) or not family.DRIVER.fullmatch(name) or not carries:
            continue
        known.update(one.upstream for one in offer.get(name, ()))
        for target in _names(name, each.upstream, driver):
            fits = [one.version for one in offer.get(target, ()) if one.upstream == driver]
            if fits:
                pins[target] = fits[0]
                leaves.update({name} - {target})
                break
        else:
            there = ", ".join(one.version for one in offer.get(name, ())) or "none"
            problems.append(f"{name} has no version of driver {driver}; apt knows {there}")
    if not pins:
        told = ", ".join(sorted(known, key=version_key)) or "none"
        problems = [f"apt knows no package of driver {driver}; it knows {told}. Run apt-get update"]
    return pins, frozenset(leaves - set(pins)), problems


def _names(name: str, present: str, wanted: str) -> Iterable[str]:
    """What the package may be called for the wanted driver.

    The version may be in the name (firmware), and so may the branch, which NVIDIA leaves out from 590 on.
    """
    branch = wanted.split(".")[0]
    renamed = name.replace(present, wanted)
    with_branch = _BRANCH.sub(f"-{branch}", renamed)
    yield from dict.fromkeys((renamed, with_branch, _BRANCH.sub("", renamed)))
    if not _BRANCH.search(name):
        yield re.sub(
            r"^((?:lib)?nvidia-[a-z-]+?|xserver-xorg-video-nvidia)(-open)?$", rf"\1-{branch}\2", name
        )


def driver_of(modules: Available | Package) -> str | None:
    """The driver that a package of prebuilt modules belongs to."""
    found = _WANTS.search(modules.depends)
    return found[1] if found else None


def _modules(packages: Mapping[str, Package], offer: Offer, driver: str) -> dict[str, Available]:
    """The newest package of modules of the driver for each kernel, of the flavour that is installed."""
    is_open = {
        flavour.endswith("-open")
        for name, each in packages.items()
        if each.installed and (flavour := family.flavour_of_modules(name) or _driver_flavour(name))
    }
    branch = driver.split(".")[0]
    found: dict[str, Available] = {}
    for name, versions in offer.items():
        flavour, release = family.flavour_of_modules(name), family.release_of(name)
        if not (flavour and release and flavour.split("-")[0] == branch):
            continue
        fits = [each for each in versions if driver_of(each) == driver]
        if fits and (not is_open or flavour.endswith("-open") in is_open):
            found[release] = fits[0]
    return found


def _driver_flavour(name: str) -> str | None:
    found = re.fullmatch(r"nvidia-driver-(\d+\S*)", name)
    return found[1] if found else None


def _choose_kernel(
    modules: Mapping[str, Available],
    offer: Offer,
    packages: Mapping[str, Package],
    running: str,
    wanted: str,
    dkms: bool,
) -> str:
    """The wanted kernel; without a wish the one that runs where the driver has modules for it, else the newest."""
    images = {
        name.removeprefix("linux-image-")
        for name in (*offer, *(name for name, each in packages.items() if each.installed))
        if name.startswith("linux-image-") and family.release_of(name)
    }
    fit = sorted((images if dkms else images & set(modules)), key=version_key)
    if wanted:
        fit = [each for each in fit if each == wanted or each.startswith(f"{wanted}-")]
    if not fit:
        known = ", ".join(sorted(images & set(modules), key=version_key)) or "no kernel at all"
        subject = f"kernel {wanted}" if wanted else "any kernel"
        raise PinError([f"apt has no modules of this driver for {subject}; it has them for {known}"])
    return running if running in fit else fit[-1]


def _pin_kernel(
    pins: dict[str, str], packages: Mapping[str, Package], offer: Offer, release: str, driver: str
) -> list[str]:
    """Pins the metapackages to the kernel, and its image; returns what has no version for it."""
    number = re.match(r"\d+\.\d+\.\d+-\d+", release)[0]
    problems = []
    for name, each in sorted(packages.items()):
        if not each.installed or not family.KERNEL_META.fullmatch(name):
            continue
        targets = _names(name, "\0", driver) if family.flavour_of_modules(name) else [name]
        for target in targets:
            fits = [
                one.version
                for one in offer.get(target, ())
                if re.match(rf"{re.escape(number)}(?!\d)", one.version)
                and not contradicted(one.depends, pins)
            ]
            if fits:
                pins[target] = each.version if target == name and each.version in fits else fits[0]
                break
        else:
            there = ", ".join(one.version for one in offer.get(name, ())) or "none"
            problems.append(f"{name} has no version for kernel {release}; apt knows {there}")
    image = f"linux-image-{release}"
    present = packages.get(image)
    if image in offer and not (present and present.installed):
        pins[image] = offer[image][0].version
    return problems


def _pin_ota(pins: dict[str, str], packages: Mapping[str, Package], offer: Offer) -> None:
    """The metapackage of DGX OS' updates goes along where it would ask for another driver or kernel."""
    for name, each in packages.items():
        if each.installed and family.OTA_META.fullmatch(name) and contradicted(each.depends, pins):
            fits = [one.version for one in offer.get(name, ()) if not contradicted(one.depends, pins)]
            if fits:
                pins[name] = fits[0]
