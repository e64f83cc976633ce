# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem …`, the node agent. Every command is a module with NAME, HELP, ERRORS, configure() and run()."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import (
    caches_command,
    collective_command,
    fabric_command,
    page_cache,
    probe_command,
    status_command,
    warm_up_command,
)

COMMANDS = (
    status_command,
    probe_command,
    warm_up_command,
    fabric_command,
    collective_command,
    caches_command,
    page_cache,
)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="tandem", description="The node agent of tandem.spark.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        part = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        part.set_defaults(command=command)
        command.configure(part)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command. 0: success; 1: the reason is on stderr; 2: words that cannot be understood; 130: ctrl-c."""
    arguments = parser().parse_args(words)
    try:
        return arguments.command.run(arguments)
    except arguments.command.ERRORS as error:
        for line in str(error).splitlines():
            print(f"tandem {arguments.command.NAME}: {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tandem {arguments.command.NAME}: interrupted", file=sys.stderr)
        return 130
