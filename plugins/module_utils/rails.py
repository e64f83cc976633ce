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
        rails_record.remember(host, record.links, _written(host), record)
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


@dataclass(frozen=True)
class Leaving:
    """What makes the rails again what they were before this collection.

    record: the rails as they were, without a file of ours; put_back: files of others that are missing; commands: what
    the interfaces lack; kept: files of others that somebody changed since they were backed up; refusals: why nothing
    may be touched; known: whether how they were found is remembered.
    """

    record: rails_record.Record
    put_back: dict[str, str]
    commands: tuple[tuple[str, ...], ...]
    kept: tuple[str, ...]
    refusals: tuple[Finding, ...]
    known: bool

    @property
    def needed(self) -> bool:
        return bool(self.files or self.commands or self.known)

    @property
    def files(self) -> dict[str, str | None]:
        """Path and text of what differs; None for what goes."""
        return {**self.record.files, **self.put_back}


def leaving(host: Host, backend: ModuleType, management: Iterable[str]) -> Leaving:
    """Compare the rails with how they were found; changes nothing."""
    links, known, own = host.links(), rails_record.found(host), _own_files(host)
    netdevs = [netdev for netdev in sorted(_written(host) | set(known)) if netdev in links]
    set_here = rails_record.addresses_in({path: host.read(path) for path in own})
    ours = sorted(set_here.union(*(each.ours for each in known.values())))
    before = [
        known[netdev].link if netdev in known else rails_record.factory(links[netdev], ours)
        for netdev in netdevs
    ]
    copies = {path: (host.read(path), host.read(copy)) for path, copy in host.backups().items()}
    record = rails_record.Record(
        rails_record.PERSISTENT,
        backend.NAME,
        tuple(before),
        dict.fromkeys(own),
        tuple(ours),
        {netdev: each.profile for netdev, each in known.items() if each.profile and netdev in links},
    )
    ways = [rails_record.way_back(each, links[each.name], ours) for each in before]
    commands = [tuple(command) for way in ways for command in way]
    put_back = {path: copy or "" for path, (now, copy) in copies.items() if now is None}
    touches = bool(own or put_back or commands)
    return Leaving(
        record,
        put_back,
        tuple(commands),
        tuple(path for path, (now, copy) in copies.items() if now not in (None, copy)),
        tuple(refusals([], netdevs, links, host.routes(), management)) if touches else (),
        bool(known),
    )


def leave(host: Host, seen: Leaving) -> None:
    """Make the rails what they were. No timer: nobody comes to the node by a rail, or it is refused."""
    with host.lock():
        copies = host.backups()
        for path, text in seen.put_back.items():
            host.write(path, text, mode=host.mode(copies[path]))
        _undo(host, seen.record, put_back=bool(seen.put_back))
        rails_record.forget(host)


def leaving_backend(host: Host, name: str) -> ModuleType | None:
    """Who wrote the rails, where the node's network is another one's by now; None where nothing was written."""
    return BACKENDS.get(name) or next((each for each in BACKENDS.values() if each.own_files(host)), None)


def _undone(host: Host, record: rails_record.Record, error: RailsError) -> RailsError:
    """The error, after the change was undone; with the second error where that failed too."""
    try:
        _undo(host, record)
    except RailsError as second:
        return RailsError(f"{error}\nand undoing it failed: {second}")
    return error


def _undo(host: Host, record: rails_record.Record, put_back: bool = False) -> None:
    """put_back: files of others were, and must be read."""
    _disarm(host)
    backend = BACKENDS[record.backend]
    failed = None
    patience_s = 0
    try:
        wrote = host.write_all(record.files, backend.MODE)
        loaded = backend.load(host, record.netdevs, wrote or put_back)
        backend.restore(host, record.profiles)
        if loaded and (any(record.files.values()) or record.profiles or put_back):
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
