# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A table of the packet filter that names only what this collection opens, and how it is put in force without cutting
anybody off.

Everything else passes it (policy accept), so a listener of others, and tables of others, work as before. What it keeps
out: the ports of the engine and of the guards that ask nobody for a name, from everywhere but the other ranks; the
addresses of the rails, by any other way than the rails; and on the rails whoever is no rank. A new table is in force
for a while first, under a timer of the node that goes back; it lasts only after the controller was there once more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import collapse_addresses, ip_network
from pathlib import Path
from typing import Any

from . import commands, files

TABLE = ("inet", "tandem")
NFT = "/usr/sbin/nft"
RULES = "etc/tandem/firewall.nft"
STAGED = "run/tandem/firewall.nft"
UNIT = "tandem-firewall.service"
TIMER = "tandem-firewall-revert"
_MARK = "made_of_"
# Our connections are opened by a packet with SYN and without ACK: told apart without the kernel's list of connections,
# which every packet of a node would then go through.
_OPENS = "tcp flags & (syn | ack) == syn"


class FirewallError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class Wish:
    """What one node opens. rails: interfaces; addresses: the node's own on them; peers: those of the other ranks.

    internal: ports and ranges of them for ranks alone. opened: {port: networks that may come besides the ranks}, where
    None is everybody. rails_from: networks beside the ranks that may open connections over the rails.
    """

    rails: tuple[str, ...]
    addresses: tuple[str, ...]
    peers: tuple[str, ...]
    internal: tuple[int | str, ...]
    opened: Mapping[int, Sequence[str] | None]
    rails_from: tuple[str, ...] = ()


def wish_of(
    plan: Mapping[str, Any],
    guard_from: Iterable[str],
    api_from: Iterable[str],
    rails_from: Iterable[str],
    engine: Iterable[str] = (),
) -> Wish:
    """What the plan of one node opens. engine: ranges that its engine listens on, on every address of every rank.

    No network for the API is everybody, none for the guard's page is the ranks. A worker opens the guard's page alone:
    on the head's ports somebody else may listen there.
    """
    rails, guard = plan["fabric"]["rails"], plan["guard"]
    opened: dict[int, Sequence[str] | None] = {guard["http_port"]: tuple(guard_from)}
    internal: tuple[int | str, ...] = tuple(engine)
    if plan["rank"] == 0:
        opened[plan["api"]["port"]] = tuple(api_from) or None
        internal = (plan["master_port"], guard["port"], *internal)
    return Wish(
        tuple(rail["netdev"] for rail in rails),
        tuple(rail["address"].partition("/")[0] for rail in rails),
        tuple(dict.fromkeys(peer for rail in rails for peer in rail["peers"])),
        internal,
        opened,
        tuple(rails_from),
    )


def _set(words: Iterable[object]) -> str:
    return f"{{ {', '.join(map(str, words))} }}"


def _names(words: Iterable[str]) -> str:
    return _set(f'"{word}"' for word in words)


def _from(networks: Sequence[str], what: str) -> list[str]:
    """Rules that accept from these networks; each family has a word of its own."""
    made = []
    for family, version in (("ip", 4), ("ip6", 6)):
        of_it = [
            each for each in (ip_network(text, strict=False) for text in networks) if each.version == version
        ]
        joined = list(collapse_addresses(of_it))  # nft refuses networks that overlap
        if any(each.prefixlen == 0 for each in joined):
            made.append(f"meta nfproto ipv{version} {what} accept")
        elif joined:
            made.append(f"{family} saddr {_set(joined)} {what} accept")
    return made


def rules(wish: Wish) -> list[str]:
    """The rules in their order, a line each."""
    limited = [port for port, networks in wish.opened.items() if networks is not None]
    named = sorted({*wish.internal, *limited}, key=lambda each: int(str(each).partition("-")[0]))
    ports = f"tcp dport {_set(named)}"
    made = ['iifname "lo" accept']
    if wish.rails and wish.peers:
        made.append(f"iifname {_names(wish.rails)} ip saddr {_set(wish.peers)} {ports} accept")
    for port in limited:
        made += _from(wish.opened[port] or (), f"tcp dport {port}")
    made.append(f"{ports} drop")
    if wish.rails and wish.addresses:
        made.append(f"iifname != {_names(wish.rails)} ip daddr {_set(wish.addresses)} drop")
    if wish.rails and wish.peers:
        rail = f"iifname {_names(wish.rails)}"
        made += [f"{rail} {rule}" for rule in _from((*wish.peers, *wish.rails_from), _OPENS)]
        made.append(f"{rail} ip daddr {_set(wish.addresses)} {_OPENS} drop")
    return made


def text(wish: Wish) -> str:
    """What nft reads: the whole table in one transaction, whatever was there of it. It carries a mark of its rules."""
    lines = rules(wish)
    name = " ".join(TABLE)
    mark = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    chain = "\n".join(f"        {line}" for line in lines)
    return f"""# Written by tandem.spark (role access); changes made here are overwritten.
table {name}
delete table {name}
table {name} {{
    chain {_MARK}{mark} {{
    }}
    chain input {{
        type filter hook input priority filter; policy accept;
{chain}
    }}
}}
"""


def mark(content: str | None) -> str | None:
    """Of which rules a file or a listing of nft is, and of how many: the first for what was wanted, the second for what
    somebody took out by hand since. None where it is none of ours."""
    found = re.search(rf"\b{_MARK}([0-9a-f]{{16}})\b", content or "")
    count = len(re.findall(r"(?m)^\s+(?!type ).*\b(?:accept|drop)\s*$", content or ""))
    return f"{found[1]}/{count}" if found else None


UNIT_TEXT = f"""# Written by tandem.spark (role access). The table names what this collection opens and no more.
[Unit]
Description=tandem packet filter: who may come to the engine's ports
# Whatever loads the rules of others and flushes all tables before.
After=nftables.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service
Before=tandem-guard.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={NFT} -f /{RULES}
ExecReload={NFT} -f /{RULES}
ExecStop=-{NFT} delete table {" ".join(TABLE)}

[Install]
WantedBy=multi-user.target
"""


class Host:
    """One node, looked at below `root`. live: commands run, and tell of the node itself."""

    def __init__(self, root: Path = Path("/"), live: bool = True) -> None:
        self.root, self.live = root, live

    def ask(self, argv: Sequence[str]) -> commands.Answer:
        return commands.ask(argv, 30, with_errors=True) if self.live else commands.Answer(None, "")

    def read(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def write(self, path: str, content: str | None, target: str | None = None) -> None:
        """Makes a file hold this, a link lead there, or either be absent."""
        place = str(self.root / path)
        wanted = files.Wanted(place, "absent")
        if content is not None:
            wanted = files.Wanted(place, content=content.encode(), mode=0o644)
        elif target is not None:
            wanted = files.Wanted(place, "link", target=target)
        found = files.look(place, with_content=True)
        if files.differences(wanted, found):
            files.apply(wanted, found)

    def must(self, argv: Sequence[str]) -> None:
        answer = self.ask(argv)
        if not answer.ok:
            said = " ".join(answer.out.split()) or "it says nothing"
            raise FirewallError(f"`{' '.join(argv)}` failed: {said}")


_SYSTEM = "etc/systemd/system"
_WANTED = f"{_SYSTEM}/multi-user.target.wants/{UNIT}"


def in_force(host: Host) -> str | None:
    """The mark of the table that the kernel has now."""
    answer = host.ask([NFT, "list", "table", *TABLE])
    return mark(answer.out) if answer.ok else None


def look(host: Host) -> dict[str, Any]:
    """{in_force, kept, unit}: marks of what is in force and of what the next boot loads, None where there is none, and
    whether the unit that loads it is as it is to be."""
    linked = (host.root / _WANTED).is_symlink()
    return {
        "in_force": in_force(host),
        "kept": mark(host.read(RULES)),
        "unit": host.read(f"{_SYSTEM}/{UNIT}") == UNIT_TEXT and linked,
    }


def as_wanted(seen: Mapping[str, Any], content: str | None) -> bool:
    """Whether a node has just this table; content: None where it is to have none."""
    wanted = mark(content)
    return seen["in_force"] == seen["kept"] == wanted and bool(seen["unit"]) == (content is not None)


def stage(host: Host, content: str, revert_after_s: int) -> None:
    """Puts the table in force, until a timer of the node goes back. FirewallError where nft does not take it."""
    host.write(STAGED, content)
    host.must([NFT, "--check", "--file", f"/{STAGED}"])
    _disarm(host)
    back = [NFT, "-f", f"/{RULES}"] if mark(host.read(RULES)) else [NFT, "delete", "table", *TABLE]
    after = [f"--on-active={revert_after_s}s", "--timer-property=AccuracySec=100ms"]
    why = "--description=Undo a change of the packet filter that was not confirmed"
    host.must(["systemd-run", "--quiet", "--collect", f"--unit={TIMER}", *after, why, *back])
    host.must([NFT, "-f", f"/{STAGED}"])


def persist(host: Host, content: str) -> None:
    """Keeps over a reboot what is in force. FirewallError where the timer has gone back already."""
    if in_force(host) != mark(content):
        raise FirewallError(
            "The table that was put in force is not there any more: its timer undid it before it was confirmed. Run "
            "again; if it comes again, raise tandem_access_revert_after_s"
        )
    # First the timer, then the file: broken off in between, a reboot leads back.
    _disarm(host)
    host.write(RULES, content)
    host.write(f"{_SYSTEM}/{UNIT}", UNIT_TEXT)
    host.write(_WANTED, None, f"/{_SYSTEM}/{UNIT}")
    host.write(STAGED, None)
    host.must(["systemctl", "daemon-reload"])
    host.must(["systemctl", "restart", UNIT])


def leave(host: Host) -> None:
    """No table, no unit."""
    _disarm(host)
    host.ask(["systemctl", "stop", UNIT])
    for path in (_WANTED, f"{_SYSTEM}/{UNIT}", RULES, STAGED):
        host.write(path, None)
    host.ask(["systemctl", "daemon-reload"])
    if in_force(host):
        host.must([NFT, "delete", "table", *TABLE])


def _disarm(host: Host) -> None:
    host.ask(["systemctl", "stop", f"{TIMER}.timer"])
