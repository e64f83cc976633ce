# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes out of a report what tells whose machines it is about (controller only).

The same word is replaced by the same word throughout one bundle, so what belongs together still does: two addresses
of one /24 stay in one, a mapped GID stays that of its address. Versions stay whole. Where a text may be either, it is
replaced: what was taken out too much can be asked for, what was sent cannot be taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE

# Names that everybody has: they tell nothing, and versions and packages are made of them.
PUBLIC = frozenset(
    "root tandem nvidia ubuntu debian nobody daemon localhost all ungrouped messagebus syslog unknown none ray vllm "
    "linux".split()
)
CHANGES = 0.35  # of neighbours: 0.6 where chance wrote them, 0.3 in the name of a model
SHORT = 3  # a shorter name is replaced only where it is the whole text
SECRET_KEY = re.compile(
    r"(?i)(?:^|[_-])(?:api_?key|key|token|passw(?:or)?d|pass|secret|credentials?|cookie|auth\w*)$"
)
SERIAL_KEY = re.compile(r"(?i)serial|uuid|machine_id")
VERSION_KEYS = frozenset(
    "version driver kernel loaded userspace installed next_boot running system nccl cuda python collection".split()
)
VERSION = re.compile(r"\d[\w.+~:-]*")
ADDRESS_KEYS = frozenset("address addresses ipv4 gid peers ansible_host subnet master_addr".split())
_KEPT = ("id", "severity", "scope", "fixed_by", "source")  # of a finding: from the catalogue as they are
_UNIT = r"(?:service|scope|socket|timer|target|slice|mount|path|device|swap)"
_SECRET_WORD = r"(?:api[-_]?key|token|passw(?:or)?d|passphrase|secret|credentials?|private[-_]?key)"
_DOMAIN = r"(?:\.[A-Za-z][A-Za-z0-9-]*)+"
_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}"

# In this order: the first that fits at a place counts.
_PATTERNS = {
    "pem": r"-----BEGIN [^-\n]{1,60}-----(?:.|\n)*?(?:-----END [^-\n]{1,60}-----|\Z)",
    "ssh": r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-[\w-]+)\s+[A-Za-z0-9+/=]{16,}",
    "userinfo": r"(?<=://)[^\s/@]+(?=@)",
    "header": r"(?i:(?:proxy-)?authorization|(?:set-)?cookie)[\"']?\s*[=:]\s*[\"']?[^\n\"']+",
    "bearer": r"\b(?i:bearer|basic)\s+[\w.~+/=-]{6,}",
    "assigned": rf"(?i:[\w-]*{_SECRET_WORD})[\"']?(?:\s*[=:]\s*|\s+(?=[^\s]*\d))[\"']?[^\s\"',;}}\]]+",
    "prefixed": r"\b(?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|nvapi-|xox[a-z]-|AKIA|ASIA|pypi-|npm_|dckr_pat_)[\w-]{6,}",
    "jwt": r"\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?",
    "mail": rf"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.(?!{_UNIT}\b)[A-Za-z]{{2,}}(?![\w.-]*\.{_UNIT}\b)",
    "serial": r"(?i:serial(?:[ _-]?(?:number|no\.?))?|S/N)[\"']?\s*[:=#]\s*[\"']?(?=[^\s\"',]*\d)[\w-]{4,}",
    "uuid": r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])",
    "mac": (
        r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}(?![\w:])"
        r"|(?<![\w-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w-])"
    ),
    "nic": r"(?<=enx)[0-9a-f]{12}(?![0-9a-f])",
    "guid": r"(?<![\w:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![\w:])|\b0x[0-9a-fA-F]{16}\b",
    "ipv6": r"(?<![\w:])(?=[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:)[0-9A-Fa-f:.]{2,60}",
    "ipv4": rf"(?<![\d.])(?<!ubuntu){_IPV4}(?!\d)(?!\.\d)",
    "home": r"(?<=/home/)[^/\s\"':,]+|(?<=/Users/)[^/\s\"':,]+",
    "hex": r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])",
}

DENSE = r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{20,}(?![A-Za-z0-9_-])"


@dataclass(frozen=True)
class Names:
    """What is known to be told: words of an inventory, of its nodes and of this controller; secrets as they are."""

    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def names_in(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(kind, word) of what a report itself tells by its keys: host names, users, addresses."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from names_in(each, str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from names_in(each, key)
    elif isinstance(value, str) and value:
        if key == "hostname":
            yield "hosts", value
        elif key == "user":
            yield "users", value
        elif key in ADDRESS_KEYS:
            yield "addresses", value.partition("/")[0].partition("%")[0]


@dataclass
class Anonymiser:
    """Replaces by one pass over each text, so that nothing that was put in is replaced again."""

    names: Names
    made: dict[tuple[str, str], str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        hosts = {
            part
            for name in self.names.hosts
            for part in (name, name.partition(".")[0])
            if not _is_address(name)
        }
        self._kinds: dict[str, str] = {}
        for kind, words in (("user", self.names.users), ("group", self.names.groups), ("host", hosts)):
            self._kinds.update({word.lower(): kind for word in words if word and word.lower() not in PUBLIC})
        self._secrets = {word for word in self.names.secrets if len(word) >= SHORT}
        long = [word for word in self._kinds if len(word) >= SHORT]
        patterns = {
            **({"known_secret": _any_of(self._secrets)} if self._secrets else {}),
            **_PATTERNS,
            # With the domain that follows a host; a hyphen or underline does not hide a name.
            **(
                {"name": rf"(?<![A-Za-z0-9])(?i:{_any_of(long)})(?:{_DOMAIN}|(?![A-Za-z0-9]))"}
                if long
                else {}
            ),
            "dense": DENSE,
        }
        self._all = _joined(patterns)
        # What looked like one kind and is none may still hold another.
        self._not_ipv6 = _joined(_without(patterns, "ipv6"))
        self._not_dense = _joined(_without(patterns, "dense"))
        self._in_version = _joined(_without(patterns, "ipv4", "dense"))
        self._addresses = {word for word in self.names.addresses if _is_address(word)}

    def tree(self, value: Any, key: str = "") -> Any:
        """A report of maps, lists, texts and numbers; keys are texts too."""
        if isinstance(value, Mapping):
            kept = self._catalogue_part(value)
            return {
                self.text(str(name)): each if name in kept else self.tree(each, str(name))
                for name, each in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.tree(each, key) for each in value]
        return self._value(value, key) if isinstance(value, str) else value

    @staticmethod
    def _catalogue_part(value: Mapping) -> tuple[str, ...]:
        entry = CATALOGUE.get(value["id"]) if isinstance(value.get("id"), str) else None
        same = entry and all(
            value.get(name) == told
            for name, told in (
                ("severity", entry.severity),
                ("scope", entry.scope),
                ("fixed_by", entry.fixed_by),
                ("source", entry.source),
            )
        )
        return _KEPT if same else ()

    def _value(self, text: str, key: str) -> str:
        if not text:
            return text
        if SECRET_KEY.search(key):
            return self._word("secret", text)
        if SERIAL_KEY.search(key):
            return self._word("serial", text)
        if key in VERSION_KEYS and VERSION.fullmatch(text) and text not in self._addresses:
            return self.text(text, self._in_version)
        return self.text(text)

    def text(self, text: str, pattern: re.Pattern[str] | None = None) -> str:
        whole = self._kinds.get(text.lower())
        if whole:
            return self._word(whole, text.lower())
        return (pattern or self._all).sub(self._replace, text)

    def leaks(self, text: str) -> list[str]:
        """Kinds of known words that are still in a finished text."""
        found = ["secret" for word in self._secrets if word in text]
        for word, kind in self._kinds.items():
            if len(word) >= SHORT and re.search(
                rf"(?<![A-Za-z0-9])(?i:{re.escape(word)})(?![A-Za-z0-9])", text
            ):
                found.append(kind)
        return sorted(set(found))

    def _word(self, kind: str, word: str) -> str:
        if (kind, word) not in self.made:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.made[kind, word] = f"{kind}-{self.counts[kind]}"
        return self.made[kind, word]

    def _replace(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup or "", match[0]
        if kind == "name":
            word = max((each for each in self._kinds if found.lower().startswith(each)), key=len)
            return self._word(self._kinds[word], word)
        if kind in ("mac", "nic", "guid", "uuid", "hex"):
            return self._hardware(kind, found)
        if kind == "ipv4":
            return self._ipv4(found)
        if kind == "ipv6":
            return self._ipv6(found)
        if kind == "home":
            return found if found.lower() in PUBLIC else self._word("user", found.lower())
        if kind == "dense":
            return (
                self._word("secret", found) if _is_dense(found) else self._not_dense.sub(self._replace, found)
            )
        if kind in ("assigned", "header", "serial"):
            return self._assigned(kind, found)
        return self._word("mail" if kind == "mail" else "user" if kind == "userinfo" else "secret", found)

    def _assigned(self, kind: str, found: str) -> str:
        """Only the value of NAME=VALUE, NAME: VALUE or --NAME VALUE; the name says what was there."""
        between = r"[=:#]\s*" if kind == "serial" else r"(?:\s*[=:]\s*|\s+)"
        parts = re.match(rf"(.*?{between}[\"']?)((?:.|\n)+)$", found)
        name, value = (parts[1], parts[2]) if parts else ("", found)
        if kind == "assigned" and re.search(r"(?i)per[-_]token", name):
            return found  # bytes of a KV cache
        return name + self._word("serial" if kind == "serial" else "secret", value)

    def _hardware(self, kind: str, found: str) -> str:
        if kind == "guid" and found.startswith("0x") and int(found, 16) < 1 << 16:
            return found  # a mask of a few bits
        plain = re.sub(r"[:-]|^0x", "", found.lower())
        if set(plain) <= {"0"} or set(plain) <= {"f"}:
            return found
        return self._word({"nic": "mac"}.get(kind, kind), plain)

    def _ipv4(self, found: str) -> str:
        try:
            address = IPv4Address(found)
        except ValueError:
            return found  # with a leading zero, or too large: a version
        if (
            address.is_loopback
            or address.is_unspecified
            or address.is_multicast
            or str(address).startswith("255.")
        ):
            return found
        return str(self._mapped(address))

    def _mapped(self, address: IPv4Address) -> IPv4Address:
        """The third and fourth byte are counted: addresses of one /24 stay in one, in the range for benchmarks."""
        net, base = int(address) >> 8, 0xA9FE if address.is_link_local else 0xC612
        number = self._count(f"net {base}", str(net))
        host = self._count(f"of {net}", str(address))
        if number >= 256 and base == 0xC612:
            return IPv4Address((0xF0000000 + (number << 8)) | host)
        return IPv4Address((base << 16) | ((number % 256) << 8) | host)

    def _count(self, kind: str, word: str) -> int:
        """0, 1, 2 ... in the order in which words of a kind come."""
        if (kind, word) not in self.made:
            self.made[kind, word] = str(self.counts.get(kind, 0))
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return int(self.made[kind, word])

    def _ipv6(self, found: str) -> str:
        plain = found.rstrip(".")
        for candidate in (plain, plain.removesuffix(":")):
            try:
                address = IPv6Address(candidate)
            except ValueError:
                continue
            return self._told(address, candidate) + found[len(candidate) :]
        return self._not_ipv6.sub(self._replace, found)

    def _told(self, address: IPv6Address, found: str) -> str:
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return found
        if address.ipv4_mapped:
            new = IPv6Address(0xFFFF00000000 | int(self._mapped(address.ipv4_mapped)))
            if "." in found:
                return f"::ffff:{self._mapped(address.ipv4_mapped)}"
        else:
            base = 0xFE80 << 112 if address.is_link_local else 0x20010DB8 << 96
            new = IPv6Address(base | (self._count("ipv6", str(address)) + 1))
        return new.exploded if len(found) == 39 else new.compressed


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


def _joined(patterns: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items()))


def _without(patterns: Mapping[str, str], *kinds: str) -> dict[str, str]:
    return {kind: pattern for kind, pattern in patterns.items() if kind not in kinds}


def _is_address(word: str) -> bool:
    try:
        ip_address(word)
    except ValueError:
        return False
    return True


def _is_dense(text: str) -> bool:
    """Does it change between small letters, capitals and digits as often as chance does, and words do not?"""
    kinds = {"lower" if c.islower() else "upper" if c.isupper() else "digit" for c in text if c.isalnum()}
    if len(kinds) < 2 or not any(c.isdigit() for c in text):
        return False
    pairs = [(a, b) for a, b in zip(text, text[1:], strict=False) if a.isalnum() and b.isalnum()]
    changes = sum(_kind(a) != _kind(b) for a, b in pairs)
    return bool(pairs) and changes >= CHANGES * len(pairs)


def _kind(character: str) -> int:
    return 0 if character.islower() else 1 if character.isupper() else 2
