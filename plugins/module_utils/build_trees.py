# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source trees of a build: unpacked as a whole or not at all, and made trustworthy again after a power cut.

A tree that was compiled in part is worth hours, so an interrupted build goes on in it. But a compiler that was killed
leaves half a file, which is newer than its sources: ninja does not count it, make and setuptools do. And after a power
cut there are files whose bytes never reached the disk. So what was written in the last seconds before the end is
removed and made again; and since the disk is told to write now and then, and the time is remembered, after another boot
all that is newer than that.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from .checkpoint_seals import save
from .patch_series import judge, write
from .unified_diff import PatchError, read_patch

MARK = "settled.json"
# ninja reads these itself up to where they are whole; without them it begins all anew.
NINJAS_OWN = (".ninja_log", ".ninja_deps")
# A file's time may lag behind the clock by a tick of the kernel.
TICK_S = 0.05
# Before the youngest file: what may have been in the making when a build was ended.
YOUNG_S = 3.0
_LIBC = ctypes.CDLL(None, use_errno=True)


class TreeError(Exception):
    """What was found, what was wanted and what to do."""


def unpack(archive: Path, target: Path) -> None:
    """Unpacks an archive whose only top folder becomes `target`; nothing is there where it fails."""
    if target.exists():
        return
    partial = target.with_name(f".{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = ["tar", "--extract", "--no-same-owner", "--strip-components=1", f"--directory={partial}"]
    command.append(f"--file={archive}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TreeError(f"{archive} cannot be unpacked: {error.filename}: {error.strerror}") from error
    if done.returncode or not any(partial.iterdir()):
        shutil.rmtree(partial, ignore_errors=True)
        raise TreeError(
            f"{archive} cannot be unpacked: {done.stderr.strip()[-500:] or 'there is nothing below its top folder'}"
        )
    os.replace(partial, target)


def patch(tree: Path, patches: list[dict[str, str]]) -> list[str]:
    """Puts patches on a tree, all or none; a sentence for each. TreeError where one does not fit."""
    try:
        judged = judge(str(tree), [read_patch(each["name"], each["text"]) for each in patches])
        if judged.misfits:
            raise TreeError(f"the patches do not fit {tree}:\n" + "\n".join(judged.misfits))
        write(str(tree), judged.edits)
    except PatchError as error:
        raise TreeError(str(error)) from error
    return [f"{each.name}: {each.outcome}" for each in judged.outcomes]


def settle(work: Path, boot_id: str | None) -> None:
    """Has the disk write all of this file system, and remembers until when that holds. OSError."""
    time.sleep(2 * TICK_S)  # so that what was written just now is told from what is written meanwhile
    now = time.time()
    descriptor = os.open(work, os.O_RDONLY)
    try:
        if _LIBC.syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(work))
    finally:
        os.close(descriptor)
    save(work / MARK, {"boot_id": boot_id, "at": now})


def doubtful(work: Path, boot_id: str | None) -> list[Path] | None:
    """Files that may not be whole since the build was ended; None where nothing of this work can be trusted.

    What was there when the disk last wrote all, the sources among it, is whole in any case.
    """
    try:
        mark = json.loads((work / MARK).read_text(encoding="utf-8"))
        at, boot = float(mark["at"]), mark["boot_id"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    newer = {}
    for root, _folders, files in os.walk(work):
        for name in files:
            path = Path(root, name)
            written = path.lstat().st_mtime
            if name not in NINJAS_OWN and path != work / MARK and written > at - TICK_S:
                newer[path] = written
    if boot_id is not None and boot == boot_id:
        end = max(newer.values(), default=0.0)
        newer = {path: written for path, written in newer.items() if written > end - YOUNG_S}
    return sorted(newer)


def mend(work: Path, boot_id: str | None) -> str | None:
    """Makes the work of an earlier run trustworthy; a sentence of what was done, None where there is none of it."""
    if not work.is_dir():
        return None
    found = doubtful(work, boot_id)
    if found is None:
        shutil.rmtree(work)
        return "what there was of it was never written to the disk for certain: it begins anew"
    for path in found:
        path.unlink(missing_ok=True)
    if found:
        return f"goes on where it was; {len(found)} files that were young when it ended are made again"
    return "goes on where it was"
