# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem …`, the node agent. Every command is a module with NAME, HELP, ERRORS, configure() and run().

Only the named one is loaded: a unit runs several at each start, and one of them for as long as the node is up.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

# {NAME: its module}
COMMANDS = {
    "status": "status_command",
    "probe": "probe_command",
    "warmup": "warm_up_command",
    "fabric": "fabric_command",
    "collective": "collective_command",
    "caches": "caches_command",
    "clear": "clear_command",
    "container": "container_command",
    "drop-caches": "page_cache",
    "guard": "guard_command",
    "build": "build_command",
    "ray": "ray_command",
    "key": "key_command",
}


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """words: what is to be understood; where it does not begin with a command, all are loaded to tell of them."""
    named = [words[0]] if words and words[0] in COMMANDS else list(COMMANDS)
    top = argparse.ArgumentParser(prog="tandem", description="The node agent of tandem.spark.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in (import_module(f".{COMMANDS[name]}", __package__) for name in named):
        part = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        part.set_defaults(command=command)
        command.configure(part)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command. 0: success; 1: the reason is on stderr; 2: words that cannot be understood; 130: ctrl-c."""
    words = sys.argv[1:] if words is None else words
    arguments = parser(words).parse_args(words)
    try:
        return arguments.command.run(arguments)
    except arguments.command.ERRORS as error:
        for line in str(error).splitlines():
            print(f"tandem {arguments.command.NAME}: {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tandem {arguments.command.NAME}: interrupted", file=sys.stderr)
        return 130
