# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fingerprint of an OpenPGP public key (RFC 9580), so that a key is known before apt believes it.

A node has gpgv at most, which does not say it. Version 4 keys, armoured or not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

_ARMOUR = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:[^\r\n]+\r?\n)*\r?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)
PUBLIC_KEY = 6


class KeyFormatError(Exception):
    """What is not as a public key is."""


def fingerprint(content: bytes) -> str:
    """Forty digits in capitals, of the first key that is in it. Raises KeyFormatError."""
    armoured = _ARMOUR.search(content)
    if armoured:
        content = _plain(armoured[1])
    try:
        tag, body = _packet(content)
    except IndexError:
        raise KeyFormatError("it is cut off") from None
    if tag != PUBLIC_KEY:
        raise KeyFormatError(f"it begins with a packet of kind {tag}, wanted is a public key")
    if body[:1] != b"\x04":
        raise KeyFormatError("it is no key of version 4")
    return (
        hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
    )


def _plain(text: bytes) -> bytes:
    """The bytes of an armour; the checksum, a line that begins with =, says nothing that a fingerprint does not."""
    lines = [line for line in text.split() if not line.startswith(b"=")]
    try:
        return base64.b64decode(b"".join(lines), validate=True)
    except binascii.Error as error:
        raise KeyFormatError(f"its armour is damaged ({error})") from None


def _packet(content: bytes) -> tuple[int, bytes]:
    """(kind, body) of the first packet. IndexError where it is cut off."""
    head = content[0]
    if not head & 0x80:
        raise KeyFormatError("it is no OpenPGP key")
    if head & 0x40:
        kind, (length, start) = head & 0x3F, _new_length(content)
    else:
        kind, size = (head >> 2) & 0x0F, head & 0x03
        if size == 3:
            raise KeyFormatError("its first packet has no length")
        start = 1 + (1 << size)
        length = int.from_bytes(content[1:start], "big")
    body = content[start : start + length]
    if len(body) < max(length, 1):
        raise IndexError
    return kind, body


def _new_length(content: bytes) -> tuple[int, int]:
    first = content[1]
    if first < 192:
        return first, 2
    if first < 224:
        return ((first - 192) << 8) + content[2] + 192, 3
    if first < 255:
        raise KeyFormatError("its first packet comes in parts")
    return int.from_bytes(content[2:6], "big"), 6
