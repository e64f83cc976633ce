# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making the rails of a node true without ever cutting it off.

A change is staged where a reboot forgets it, under a timer that undoes it; confirmed when every peer answers;
and only then made persistent: `stage`, `confirm`, `persist`, or else `revert`. `look` changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from . import rails_netplan, rails_netplan_nm, rails_networkd, rails_nm, rails_peers, rails_record
from .findings import Finding, finding
from .rails_host import Host
from .rails_plan import (
    Difference,
    Link,
    Rail,
    RailsError,
    differences,
    extra_addresses,
    lost,
    refusals,
)

AGENT = "/opt/tandem/bin/tandem"
TIMER = "tandem-fabric-revert"
# Who may write a node's network. Each names its files (staged, persistent, own_files, foreign), has them read (load),
# has an interface configured anew (renew), and knows what to remember of it for the way back (in_use, restore).
BACKENDS: dict[str, ModuleType] = {
    backend.NAME: backend for backend in (rails_netplan, rails_netplan_nm, rails_networkd, rails_nm)
}

RECONFIGURE_S = 10
PAUSE_S = 0.2


@dataclass(frozen=True)
class Look:
    """Wanted against found.

    netdevs: the rails, and those that an earlier plan named; files: path and text as wanted (None: absent) of
    those that differ; refusals: why nothing may be touched.
    """

    links: dict[str, Link]
    netdevs: tuple[str, ...]
    differences: tuple[Difference, ...]
    files: dict[str, str | None]
    refusals: tuple[Finding, ...]
    notes: tuple[Finding, ...]

    @property
    def needed(self) -> bool:
        return bool(self.differences or self.files)


def backend_named(name: str, rails: Iterable[Rail]) -> ModuleType | Finding:
    """The backend of that name, or the finding that says that there is none."""
    netdevs = ", ".join(rail.netdev for rail in rails) or "the rails"
    return BACKENDS.get(name) or finding("fabric.backend.unsupported", backend=name, netdevs=netdevs)


def look(host: Host, backend: ModuleType, rails: Sequence[Rail], management: Iterable[str]) -> Look:
    """Compare the plan with the interfaces and with the files; changes nothing."""
    links = host.links()
    written = _written(host)
    abandoned = sorted(written - {rail.netdev for rail in rails})
    refused = [
        *refusals(rails, abandoned, links, host.routes(), management),
        *lost(rails, written, links, _own_files(host)),
    ]
    notes = [*backend.foreign(host, rails, links), *extra_addresses(rails, links)]
    return Look(
        links,
        (*(rail.netdev for rail in rails), *(netdev for netdev in abandoned if netdev in links)),
        tuple(differences(rails, links)),
        {path: text for path, text in _lasting(host, backend, rails).items() if host.read(path) != text},
        (*refused, *(note for note in notes if note.severity == "error")),
        tuple(note for note in notes if note.severity != "error"),
    )


def _own_files(host: Host) -> list[str]:
    return list(dict.fromkeys(path for backend in BACKENDS.values() for path in backend.own_files(host)))


def _written(host: Host) -> set[str]:
    """The interfaces that files of ours configure, whatever plan they come from."""
    return {
        netdev
        for backend in BACKENDS.values()
        for path in backend.own_files(host)
        for netdev in backend.netdevs_in(host.read(path) or "")
    }


def _lasting(host: Host, backend: ModuleType, rails: Sequence[Rail]) -> dict[str, str | None]:
    """Path and text of all files of ours once the rails are persistent; None for one that must go."""
    return {**dict.fromkeys(_own_files(host)), **backend.persistent(rails)}


def interrupted(host: Host) -> bool:
    """Is there a change that was staged and neither confirmed nor undone?"""
    record = rails_record.load(host)
    return record is not None and record.stage == rails_record.STAGED


def stage(host: Host, backend: ModuleType, rails: Sequence[Rail], seen: Look, revert_after_s: int) -> None:
    """Set the rails, for revert_after_s seconds. Where they do not take it: undone at once, RailsError."""
    _agent_or_fail(host)
    with host.lock():
        wanted = backend.staged(rails)
        paths = sorted({*wanted, *backend.persistent(rails), *_own_files(host)})
        kept = {path: host.read(path) for path in paths}
        record = rails_record.Record(
            rails_record.STAGED,
            backend.NAME,
            tuple(seen.links[netdev] for netdev in seen.netdevs),
            kept,
            tuple(rail.address for rail in rails),
            backend.in_use(host, seen.netdevs),
        )
        host.back_up([note.evidence for note in seen.notes if note.id == "fabric.rail.foreign_file"])
        rails_record.save(host, record)
        try:
            _arm(host, revert_after_s)
            _bring(host, backend, rails, record, wanted)
        except RailsError as error:
            raise _undone(host, record, error) from error


def _agent_or_fail(host: Host) -> None:
    """Nothing may be changed that the timer could not undo."""
    if host.read(AGENT) is None:
        raise RailsError(f"{AGENT} is missing, so nothing would undo a bad change: run the role node first")
    host.run([AGENT, "fabric", "--help"])


def confirm(host: Host, rails: Sequence[Rail], timeout_s: float) -> list[Finding]:
    """What keeps the rails from being good after at most timeout_s seconds; empty when they are."""
    return rails_peers.look(host, rails, timeout_s)


def persist(host: Host, backend: ModuleType, rails: Sequence[Rail]) -> None:
    """Keep what was staged over a reboot, and disarm the timer."""
    with host.lock():
        record = rails_record.load(host)
        if record is None or record.stage != rails_record.STAGED:
            raise RailsError(
                "nothing is staged any more: the timer undid the change before it was confirmed. Run again; "
                "if it comes again, raise tandem_fabric_revert_after_s"
            )
        # First the timer, then the file: broken off in between, a reboot still leads back.
        _disarm(host)
        try:
            _bring(host, backend, rails, record, _lasting(host, backend, rails))
        except RailsError as error:
            raise _undone(host, record, error) from error
        rails_record.mark_persistent(host, record)


def revert(host: Host | None = None, unconfirmed_only: bool = True) -> bool:
    """Undo the last change since boot; True if there was one. `tandem fabric --revert` is this function.

    unconfirmed_only: leave a change alone that was made persistent, as the timer must.
    """
    host = host or Host()
    with host.lock():
        record = rails_record.load(host)
        if record is None or (unconfirmed_only and record.stage != rails_record.STAGED):
            return False
        _undo(host, record)
        return True


def _undone(host: Host, record: rails_record.Record, error: RailsError) -> RailsError:
    """The error, after the change was undone; with the second error where that failed too."""
    try:
        _undo(host, record)
    except RailsError as second:
        return RailsError(f"{error}\nand undoing it failed: {second}")
    return error


def _undo(host: Host, record: rails_record.Record) -> None:
    _disarm(host)
    backend = BACKENDS[record.backend]
    failed = None
    patience_s = 0
    try:
        wrote = host.write_all(record.files, backend.MODE)
        loaded = backend.load(host, record.netdevs, wrote)
        backend.restore(host, record.profiles)
        if loaded and (any(record.files.values()) or record.profiles):
            patience_s = backend.PATIENCE_S
    except RailsError as error:
        failed = error  # the interfaces themselves can still be put right
    _walk_back(host, record, patience_s)
    if failed:
        raise failed
    rails_record.drop(host)


def _walk_back(host: Host, record: rails_record.Record, patience_s: float) -> None:
    """Put the interfaces back, and look again until their manager, which works on its own time, has let go too.

    patience_s: for so long the manager is left to do it from its files; two hands on one address make it fail.
    """
    start = host.now()
    quiet = 0
    while quiet < 3 and host.now() < start + patience_s + RECONFIGURE_S:
        links = host.links()
        commands = [
            command
            for before in record.links
            if before.name in links
            for command in rails_record.way_back(before, links[before.name], record.ours)
        ]
        for command in commands if host.now() >= start + patience_s else ():
            host.run(command, must=False)
        quiet = 0 if commands else quiet + 1
        host.pause(PAUSE_S)


def _bring(
    host: Host,
    backend: ModuleType,
    rails: Sequence[Rail],
    record: rails_record.Record,
    texts: Mapping[str, str | None],
) -> None:
    """Write files and have them used for these rails; RailsError for what they did not take.

    Only rails that are still wrong are configured anew, which their addresses would feel.
    """
    before = host.links()
    loaded = backend.load(host, record.netdevs, host.write_all(texts, backend.MODE))
    wrong = _settle(host, rails, backend.PATIENCE_S if loaded else 0)
    if wrong:
        backend.renew(host, list(dict.fromkeys(difference.netdev for difference in wrong)))
        wrong = _settle(host, rails, RECONFIGURE_S)
    if wrong:
        raise RailsError("\n".join(_say(item) for item in wrong))
    _put_back(host, before, record)


def _settle(host: Host, rails: Sequence[Rail], seconds: float) -> list[Difference]:
    deadline = host.now() + seconds
    while True:
        wrong = differences(rails, host.links())
        if not wrong or host.now() >= deadline:
            return wrong
        host.pause(PAUSE_S)


def _say(wrong: Difference) -> str:
    values = {"netdev": wrong.netdev, "subject": wrong.subject, "found": wrong.found, "wanted": wrong.wanted}
    told = finding("fabric.rail.not_applied", **values)
    return f"{told.summary}. {told.remedy}"


def _put_back(host: Host, before: Mapping[str, Link], record: rails_record.Record) -> None:
    """An interface that is configured anew loses unknown addresses; what others set by hand stays."""
    ours = {*rails_record.addresses_in(record.files), *record.ours}
    now = host.links()
    for netdev in record.netdevs:
        for address in before[netdev].addresses:
            if address.lasting and address.text not in {*ours, *now[netdev].texts}:
                host.run(["ip", "address", "replace", address.text, "dev", netdev])


def _arm(host: Host, seconds: int) -> None:
    """A transient timer: it outlives the ssh session and dies with a reboot, as the staged files do."""
    _disarm(host)
    host.run(
        [
            "systemd-run",
            "--quiet",
            "--collect",
            f"--unit={TIMER}",
            f"--on-active={seconds}s",
            "--timer-property=AccuracySec=100ms",
            "--description=Undo a change of the rails that was not confirmed",
            AGENT,
            "fabric",
            "--revert",
        ]
    )


def _disarm(host: Host) -> None:
    host.run(["systemctl", "stop", f"{TIMER}.timer"], must=False)
