# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a node in one look, and how a part of the look answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from . import commands
from .fabric_wish import Wish
from .findings import Finding, finding
from .kernel_files import Tree

# Debian package -> what of it is used on every node.
PACKAGES = {"iproute2": "ip", "iputils-ping": "ping", "nftables": "nft"}


@dataclass(frozen=True)
class Question:
    """What to look at. controller_address and ansible_host tell how the node is reached; both may be None.

    kernel_log: that of this boot; a live node is asked for it. seconds: between two readings of what only moves.
    """

    root: str = "/"
    controller_address: str | None = None
    ansible_host: str | None = None
    packages: tuple[str, ...] = tuple(PACKAGES)
    wish: Wish = Wish()
    kernel_log: str | None = None
    seconds: float = 1.0

    @property
    def live(self) -> bool:
        return os.path.realpath(self.root) == "/"

    @property
    def tree(self) -> Tree:
        return Tree(self.root)

    def ask(self, *questions: list[str]) -> list[commands.Answer]:
        """The answers in order, of a live node; of a copy none."""
        if not self.live:
            return [commands.Answer(None, "")] * len(questions)
        return commands.ask_all(questions)


Part = tuple[dict[str, Any], list[Finding]]


def unknown(subject: str, command: str) -> Finding:
    return finding("host.look.failed", subject=subject, command=command)
