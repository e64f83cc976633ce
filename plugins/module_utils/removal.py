# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection left on a node, and taking it away; whatever is missing already is no trouble.

Driver holds and rails have a way back of their own, which goes before: what must be known for it lies in
/var/lib/tandem, so that folder is the last to go, and stays where something of it was not undone.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import (
    apt_transaction,
    build_unit,
    commands,
    container_image,
    cuda_repository,
    driver_record,
    engine_state,
    files,
    firewall,
    guard_look,
    rails_record,
    records,
)
from .debian_packages import read_status
from .jit_caches import mounts_below
from .kernel_files import Tree

# In the order in which they are stopped: the guard would start what is stopped before it.
UNITS = (
    guard_look.UNIT,
    "tandem-fabric-revert.timer",
    *engine_state.UNITS,
    "tandem-clock-cap.service",
    "tandem-swap-off.service",
    build_unit.UNIT,
    f"{firewall.TIMER}.timer",
    firewall.UNIT,
)
APT_UNIT = "tandem-driver.service"
SYSTEM = "etc/systemd/system"
DROP_IN = "90-tandem.conf"
LOGIND = f"etc/systemd/logind.conf.d/{DROP_IN}"
PROGRAM, PROGRAM_TARGET = "usr/local/bin/tandem", "/opt/tandem/bin/tandem"
CUDA = (cuda_repository.SOURCES, cuda_repository.KEYRING, cuda_repository.PREFERENCES)
SINGLE_FILES = (LOGIND, "run/tandem-telemetry.stop", *(path[1:] for path in CUDA))
STATE = "var/lib/tandem"
FOLDERS = ("opt/tandem", "etc/tandem", "var/cache/tandem", "run/tandem", STATE)
# An empty file for each package that a role installed because it was missing.
PACKAGES = f"{STATE}/packages"
RUNTIMES = "opt/tandem/runtime"
HOME = "/var/cache/tandem"
FIRST_PERSON = 1000  # the lowest number of an account of people
# Of the first access, which this very run may come by.
BOOTSTRAP = "etc/sudoers.d/90-tandem"
APT = ("apt-get", "--yes", "--option=DPkg::Lock::Timeout=600")


class RemovalError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Trace:
    """kind: unit, file, table, package, account, image, folder or weights. name: a path where it is one."""

    kind: str
    name: str


@dataclass
class Found:
    """traces: what goes. kept: what stays, a sentence each, and why. places: the weights that stay, by their path."""

    traces: list[Trace] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def named(self, kind: str) -> list[str]:
        return [trace.name for trace in self.traces if trace.kind == kind]


class Host:
    """One node, looked at below `root`; commands always run on the node itself."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def units(self) -> dict[str, dict]:
        return engine_state.units((*UNITS, APT_UNIT))

    def ask(self, argv: Sequence[str], timeout_s: float = 60) -> commands.Answer:
        return commands.ask(argv, timeout_s, with_errors=True)

    def table(self) -> bool:
        """Whether the packet filter has our table; stopping its unit takes it away, where that is there."""
        return firewall.in_force(firewall.Host(self.root)) is not None

    def mounted(self) -> str:
        return Tree("/proc/self").text("mountinfo") or ""


# Looks


def look(host: Host, user: str, path: str, weights: bool) -> Found:
    """What would go. user: the engine's account; path: where the inventory has the weights; weights: they go too."""
    found = Found()
    found.traces += [Trace("unit", name) for name in _up(host.units(), UNITS)]
    found.traces += [Trace("file", name) for name in _files(host.root)]
    found.traces += [Trace("table", " ".join(firewall.TABLE))] if host.table() else []
    _packages(host, found)
    _images(host, found)
    _weights(host, found, path, weights)
    _account(host, found, user)
    for folder in FOLDERS:
        if os.path.lexists(host.root / folder):
            found.traces.append(Trace("folder", f"/{folder}"))
    if (host.root / BOOTSTRAP).exists():
        found.kept.append(
            f"/{BOOTSTRAP}, since it may be how this run comes to the node; take it and the key in authorized_keys "
            "away by hand when nobody needs them"
        )
    return found


def _up(units: Mapping[str, Mapping], names: Iterable[str]) -> list[str]:
    return [
        name for name in names if (units.get(name) or {}).get("active") not in ("inactive", "failed", None)
    ]


def _files(root: Path) -> list[str]:
    """Units, their links and drop-ins, and single files; paths as the node names them."""
    system, program = root / SYSTEM, root / PROGRAM
    paths = [system / unit for unit in UNITS]
    paths += [folder / unit for folder in sorted(system.glob("*.wants")) for unit in UNITS]
    paths += [folder / DROP_IN for folder in sorted(system.glob("*.service.d"))]
    paths += [root / name for name in SINGLE_FILES]
    if program.is_symlink() and os.readlink(program) == PROGRAM_TARGET:
        paths.append(program)
    # A link whose target is gone counts: a unit's is one where its release was deleted by hand.
    return [f"/{path.relative_to(root)}" for path in paths if os.path.lexists(path)]


def _packages(host: Host, found: Found) -> None:
    """Those that a role installed and that nothing else needs by now."""
    wanted = sorted(path.name for path in (host.root / PACKAGES).glob("*"))
    if not wanted:
        return
    installed = {
        name
        for name, each in read_status(Tree(str(host.root)).text("var/lib/dpkg/status") or "").items()
        if each.installed
    }
    ours = [name for name in wanted if name in installed]
    answer = host.ask([*APT, "--simulate", "purge", *ours], 300) if ours else None
    if answer is None:
        return
    going = {step.name for step in apt_transaction.read_simulation(answer.out)}
    if answer.ok and going == set(ours):
        found.traces += [Trace("package", name) for name in ours]
    else:
        more = ", ".join(sorted(going - set(ours)))
        why = f"{more} would go with them" if more else "apt would not take them away"
        found.kept.append(f"the packages {', '.join(ours)}, which this collection installed: {why}")


def _images(host: Host, found: Found) -> None:
    """Those that a role pulled, built or loaded; one that was there before stays, as the program that keeps it does."""
    for folder in sorted((host.root / RUNTIMES).glob("*/")):
        record = container_image.read_record(folder)
        if not record:
            continue
        ours = record.get("ours") or []
        found.traces += [Trace("image", f"{record['program']} {name}") for name in ours]
        if not ours:
            found.kept.append(f"the image {record.get('name')}, which was there before this collection")


def _weights(host: Host, found: Found, path: str, wanted: bool) -> None:
    manifests = sorted((host.root / engine_state.RELEASES[1:]).glob("*/manifest.json"))
    told = [(records.read_json(manifest) or {}).get("checkpoint") for manifest in manifests]
    places = dict.fromkeys(
        os.path.normpath(each) for each in [path, *told] if isinstance(each, str) and each[:1] == "/"
    )
    for place in places:
        here = host.root / place[1:]
        if not os.path.lexists(here):
            continue
        if not wanted:
            found.places.append(place)
            found.kept.append(f"the weights in {place}; -e tandem_uninstall_weights=true takes them too")
        elif not here.is_symlink() and not _is_checkpoint(here):
            found.kept.append(
                f"{place}, which holds no checkpoint that could be told as one: look at it yourself"
            )
        else:
            found.traces.append(Trace("weights", place))


def _is_checkpoint(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors*"))


def _account(host: Host, found: Found, user: str) -> None:
    """The engine's account goes only where a role made it: an account of the system, at home in the caches."""
    for line in (Tree(str(host.root)).text("etc/passwd") or "").splitlines():
        name, *fields = line.split(":")
        if name != user or len(fields) < 5:
            continue
        if fields[4] == HOME and fields[1].isdigit() and int(fields[1]) < FIRST_PERSON:
            found.traces.append(Trace("account", name))
        else:
            found.kept.append(f"the account {name}, which was not made by this collection")


# Steps


def stop(host: Host) -> list[str]:
    """Stops every unit; the names of those that were up. RemovalError where apt is at work or one does not stop."""
    units = host.units()
    if _up(units, [APT_UNIT]):
        raise RemovalError(
            f"{APT_UNIT} works on the packages of the driver. Nothing was removed: wait for it "
            f"(journalctl -u {APT_UNIT}) and run again."
        )
    up = _up(units, UNITS)
    wrong = []
    for name in up:
        answer = host.ask(["systemctl", "stop", name], 120)
        if not answer.ok:
            wrong.append(f"{name} could not be stopped: {_last(answer.out)}")
    if wrong:
        raise RemovalError(
            f"{'; '.join(wrong)}. Nothing was removed. Read `journalctl -u UNIT`, and run again."
        )
    return up


def remove(host: Host, found: Found) -> list[str]:
    """Takes away what was found; what could not be, a sentence each."""
    troubles: list[str] = []
    _remove_files(host, found.named("file"), troubles)
    if host.table():
        answer = host.ask([firewall.NFT, "delete", "table", *firewall.TABLE])
        if not answer.ok:
            troubles.append(f"the packet filter's table could not be removed: {_last(answer.out)}")
    if packages := found.named("package"):
        answer = host.ask([*APT, "purge", *packages], 600)
        if not answer.ok:
            troubles.append(f"{', '.join(packages)} could not be removed: {_last(answer.out)}")
    for image in found.named("image"):
        program, _space, name = image.partition(" ")
        answer = host.ask([program, "image", "rm", name], 600)
        if not answer.ok and host.ask([program, "image", "inspect", name]).ok:
            troubles.append(f"the image {name} could not be removed: {_last(answer.out)}")
    for place in found.named("weights"):
        _remove_tree(host, place, [], troubles)
    for name in found.named("account"):
        _remove_account(host, name, troubles)
    for folder in found.named("folder"):
        if folder != f"/{STATE}":
            _remove_tree(host, folder, found.places, troubles)
        elif left := _not_undone(host):
            troubles.append(
                f"{folder} stays, since it tells how to undo what is not undone yet: {', '.join(left)}"
            )
        elif not troubles:
            _remove_tree(host, folder, found.places, troubles)
    return troubles


def _remove_files(host: Host, paths: Sequence[str], troubles: list[str]) -> None:
    for path in paths:
        try:
            files.remove(str(host.root / path[1:]))
        except OSError as error:
            troubles.append(f"{path} could not be removed: {error.strerror or error}")
    for folder in dict.fromkeys(
        os.path.dirname(path) for path in paths if re.search(r"\.(d|wants)/[^/]+$", path)
    ):
        try:
            os.rmdir(host.root / folder[1:])
        except OSError:
            pass  # something of others is in it, or it is gone
    if any(path.startswith(f"/{SYSTEM}/") for path in paths):
        host.ask(["systemctl", "daemon-reload"])
        host.ask(["systemctl", "reset-failed", *UNITS])
    if f"/{LOGIND}" in paths:
        host.ask(["systemctl", "kill", "--signal=HUP", "systemd-logind.service"])
    for path in paths:
        # What was kept from starting runs again where it starts at boot.
        if (match := re.fullmatch(rf"/{SYSTEM}/(\S+\.service)\.d/{DROP_IN}", path)) and host.ask(
            ["systemctl", "is-enabled", "--quiet", match[1]]
        ).ok:
            host.ask(["systemctl", "start", match[1]], 120)


def _remove_account(host: Host, name: str, troubles: list[str]) -> None:
    answer = host.ask(["userdel", name])
    if not answer.ok:
        troubles.append(f"the account {name} could not be removed: {_last(answer.out)}")
    elif re.search(rf"(?m)^{re.escape(name)}:", Tree(str(host.root)).text("etc/group") or ""):
        host.ask(["groupdel", name])


def _not_undone(host: Host) -> list[str]:
    told = {driver_record.PATH: "the driver's holds", rails_record.FOUND: "the rails"}
    return [f"{what} ({path})" for path, what in told.items() if (host.root / path[1:]).exists()]


def _remove_tree(host: Host, path: str, kept: Sequence[str], troubles: list[str]) -> None:
    """A folder with all that is in it, but for the paths `kept` and for what somebody mounted there."""
    place = str(host.root / path[1:])
    mounts = mounts_below(os.path.dirname(place), host.mounted())
    mounted = [point for point in mounts if f"{point}/".startswith(f"{place}/")]
    if mounted:
        troubles.append(f"{path} stays: {', '.join(mounted)} is mounted. Unmount it, and run again")
        return
    inside = [each for each in kept if f"{each}/".startswith(f"{path.rstrip('/')}/")]
    try:
        if inside:
            _empty(host, path, inside)
        else:
            files.remove(place)
    except OSError as error:
        troubles.append(f"{error.filename or path} could not be removed: {error.strerror or error}")


def _empty(host: Host, path: str, kept: Iterable[str]) -> None:
    if path in kept:
        return
    for entry in os.scandir(host.root / path[1:]):
        below = f"{path}/{entry.name}"
        inside = [each for each in kept if f"{each}/".startswith(f"{below}/")]
        if inside and stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
            _empty(host, below, inside)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines or ["it says nothing"])[-1].rstrip(".")
