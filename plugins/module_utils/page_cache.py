# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem drop-caches`: give the page cache back before an engine measures how much memory is free.

Where CPU and GPU share the memory, cached file pages count as used when the engine plans its cache.
"""

from __future__ import annotations

import argparse
import os

NAME = "drop-caches"
HELP = "write dirty pages out and drop the page cache (needs root)"

DROP_CACHES = "/proc/sys/vm/drop_caches"
PAGES_AND_SLAB = "3"


class DropCachesError(Exception):
    """Why the cache is as it was."""


ERRORS = (DropCachesError,)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", default=DROP_CACHES, help="the kernel's file (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    drop(arguments.file)
    return 0


def drop(path: str = DROP_CACHES) -> None:
    os.sync()
    try:
        with open(path, "w", encoding="ascii") as stream:
            stream.write(f"{PAGES_AND_SLAB}\n")
    except OSError as error:
        raise DropCachesError(
            f"{path} cannot be written ({error.strerror}), so the page cache stays. "
            "Run this as root, outside a container (the unit does so by ExecStartPre=+)."
        ) from error
