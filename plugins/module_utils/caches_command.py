# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem caches`: what engines compiled on this node, who uses it, and removing what nobody does."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from . import jit_caches
from .jit_caches import GIB, Cache

NAME = "caches"
HELP = "list what engines compiled on this node; --prune removes what was unused for longest"
ERRORS = (jit_caches.CachesError,)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prune", action="store_true", help="remove folders until the rest fits (needs root)"
    )
    parser.add_argument("--max-gib", type=float, metavar="N", help="the bound for all of them (the plan's)")
    parser.add_argument("--dry-run", action="store_true", help="with --prune: say what would go")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the node is seen (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    root = arguments.root
    bound = jit_caches.max_gib(root) if arguments.max_gib is None else arguments.max_gib
    if not bound >= 0:
        raise jit_caches.CachesError(f"--max-gib is {bound:g}, wanted 0 or more.")
    if not arguments.prune:
        _list(jit_caches.look(root), bound)
        return 0
    if arguments.dry_run:
        jit_caches.refuse_unknown(root)
        caches = jit_caches.look(root)
        going = jit_caches.choose(caches, bound * GIB)
        _tell("would be removed", going, [cache for cache in caches if cache not in going], bound)
        return 0
    done = jit_caches.prune(root, bound * GIB)
    _tell("removed", done.removed, done.left, bound)
    if done.troubles:
        raise jit_caches.CachesError("\n".join(done.troubles))
    return 0


def _list(caches: list[Cache], bound: float) -> None:
    now = time.time()
    for cache in caches:
        print(f"{cache.name}  {_gib(cache):>10}  used {_age(now - cache.used):>10} ago  {_whose(cache)}")
    print(f"{_total(caches)} of at most {bound:g} GiB")


def _tell(what: str, gone, left, bound: float) -> None:
    now = time.time()
    for cache in gone:
        print(f"{what}: {cache.name}, {_gib(cache)}, used {_age(now - cache.used)} ago")
    print(f"{'' if gone else f'nothing {what}; '}{_total(left)} stay, at most {bound:g} GiB")
    if sum(cache.bytes for cache in left) > bound * GIB:
        print(
            "warning: what stays is in use and larger than the bound. Raise tandem_cache_max_gib, or run site.yml "
            "with a release whose caches fit."
        )


def _gib(cache: Cache) -> str:
    return f"{'' if cache.whole else 'over '}{cache.bytes / GIB:.2f} GiB"


def _total(caches) -> str:
    count = len(caches)
    return f"{sum(c.bytes for c in caches) / GIB:.2f} GiB in {count} stack{'' if count == 1 else 's'}"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "a moment"


def _whose(cache: Cache) -> str:
    """Why it stays, or which releases name it."""
    if cache.kept_for:
        return "; ".join(cache.kept_for)
    named = ", ".join(cache.releases)
    return f"may go; of release {named}" if named else "may go; of no release"
