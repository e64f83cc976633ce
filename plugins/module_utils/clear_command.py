# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem clear`: take away what an earlier start of this rank left, whatever kind of release it was."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import container_run, engine_state, leftovers
from .containers import OURS, PROGRAMS

NAME = "clear"
HELP = "remove the container and the shared memory that an earlier start left (a unit does before each start)"
ERRORS = (leftovers.LeftoversError, OSError)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rank", choices=OURS, metavar="NAME", help=" or ".join(OURS))


def run(arguments: argparse.Namespace) -> int:
    return clear(arguments.rank, in_container=os.path.exists(f"{engine_state.CURRENT}/{container_run.HOW}"))


def clear(name: str, in_container: bool) -> int:
    """in_container: the release runs in one, so a program that does not answer keeps it from its start."""
    cleared = leftovers.Cleared()
    try:
        leftovers.containers(PROGRAMS, [name], cleared)
    except leftovers.LeftoversError as error:
        if in_container:
            raise
        print(f"warning: {error}", file=sys.stderr)
    for path in (container_run.CID_FILE, container_run.ENV_FILE):
        Path(path.format(name=name)).unlink(missing_ok=True)
    leftovers.shared_memory(Path("/"), cleared)
    if text := str(cleared):
        print(f"removed {text} of an earlier start")
    return 0
