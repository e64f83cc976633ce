# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank runs, what was proved of it, and the three steps that a roll-out takes on one rank."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from . import records, run_settings
from .kernel_files import is_number

UNITS = ("tandem-head.service", "tandem-worker.service")
PROPERTIES = "Id LoadState ActiveState SubState Result InvocationID MainPID ActiveEnterTimestamp".split()
PLAN = "/etc/tandem/plan.json"
RELEASES = "/opt/tandem/releases"
CURRENT = "/opt/tandem/current"
SYSTEM_UNITS = "/etc/systemd/system"
JOURNAL_LINES = 20


class EngineStateError(Exception):
    """What was found, what was wanted and what to do."""


def _pid(text: str) -> int | None:
    """A process number; None where there is none (systemd writes 0) or the text is no number."""
    return int(text) or None if is_number(text) else None


def parse_units(shown: str) -> dict[str, dict]:
    """`systemctl show` of several units, by unit name."""
    units = {}
    for block in shown.strip().split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("Id"):
            units[values["Id"]] = {
                "load": values.get("LoadState"),
                "active": values.get("ActiveState"),
                "sub": values.get("SubState"),
                "result": values.get("Result"),
                "invocation_id": values.get("InvocationID") or None,
                "main_pid": _pid(values.get("MainPID") or ""),
                "since": values.get("ActiveEnterTimestamp") or None,
            }
    return units


def units(names: tuple[str, ...] = UNITS) -> dict[str, dict]:
    """The units as systemd has them now; empty where there is no systemd to ask."""
    command = ["systemctl", "show", f"--property={','.join(PROPERTIES)}", *names]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_units(shown.stdout) if shown.returncode == 0 else {}


def text(path: Path) -> str | None:
    """The text of a short file; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def driver_version(root: Path) -> str | None:
    """The version of the loaded NVIDIA module; None where none is loaded."""
    found = re.search(
        r"Kernel Module(?:\s+for \S+)?\s+(\d[\d.]+)", text(root / "proc/driver/nvidia/version") or ""
    )
    return found.group(1) if found else None


def runs_as(root: Path, known: Mapping[str, Mapping]) -> dict:
    """What a proof holds for besides the release: driver, kernel, boot options, this boot and this start."""
    running = next((unit for unit in known.values() if unit["active"] == "active"), None)
    return {
        "driver": driver_version(root),
        "kernel": text(root / "proc/sys/kernel/osrelease"),
        "boot_options": text(root / "proc/cmdline"),
        "boot_id": text(root / "proc/sys/kernel/random/boot_id"),
        "invocation_id": running["invocation_id"] if running else None,
    }


def current(root: Path) -> str | None:
    """The release that is linked in; None where there is none."""
    link = root / CURRENT[1:]
    return os.path.basename(os.readlink(link)) if link.is_symlink() else None


def manifest(root: Path, release: str | None) -> dict | None:
    """What a release that lies on this node is made of and how it is asked; None where it does not."""
    return records.read_json(root / RELEASES[1:] / release / "manifest.json") if release else None


def _proven(root: Path, now: Mapping) -> list[dict]:
    """{digest, at, serving} of every release that was proven here and still lies here, the newest first."""
    found = [(digest, at, manifest(root, digest)) for digest, at in records.proven(root, now).items()]
    return [
        {"digest": digest, "at": at, "serving": known["serving"]}
        for digest, at, known in found
        if known and "serving" in known
    ]


def look(root: Path = Path("/"), shown: dict[str, dict] | None = None) -> dict:
    """node_info's `engine`: {current, settings, applied, applied_manifest, proof, proven, proven_as, rejected,
    runs_as, units}.

    `proof`, `proven` and `rejected` hold under the driver, kernel and boot options of now; `proven_as` is what the
    current release ran as where it was proven under others. `root` is read in place of /; systemd is asked only where
    `shown` does not carry its answer.
    """
    known = units() if shown is None else shown
    now = runs_as(root, known)
    release = current(root)
    applied = text(root / "var/lib/tandem/applied")
    return {
        "current": release,
        "settings": run_settings.read(root / RELEASES[1:] / release) if release else None,
        "applied": applied,
        "applied_manifest": manifest(root, applied),
        "proof": records.read_proof(root, release, now),
        "proven": _proven(root, now),
        "proven_as": records.proven_elsewhere(root, release, now),
        "rejected": records.rejected(root, now),
        "runs_as": now,
        "units": known,
    }


def journal(unit: str) -> str:
    """The last lines of the unit's journal, for an operator to read."""
    command = ["journalctl", "--no-pager", "--output=cat", f"--lines={JOURNAL_LINES}", f"--unit={unit}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _systemctl(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        last = journal(words[-1]) if words[-1].endswith(".service") else ""
        raise EngineStateError(
            f"`systemctl {' '.join(words)}` ended with {done.returncode}: {done.stderr.strip()}"
            + (f"\nThe last lines of its journal:\n{last}" if last else "")
        )


def running() -> list[str]:
    """The units of ranks that run here, or wait for their restart."""
    return [name for name, unit in units().items() if unit["active"] not in ("inactive", "failed")]


def stop() -> bool:
    """Stops whatever rank runs here; True when there was one."""
    up = running()
    if up:
        _systemctl("stop", *up)
    return bool(up)


def links(unit: str, release: str) -> dict[str, str]:
    """{path: target} of the links that make a release the one that starts here. At boot the guard starts it."""
    return {CURRENT: f"releases/{release}", f"{SYSTEM_UNITS}/{unit}": f"{CURRENT}/units/{unit}"}


def not_wanted(unit: str) -> list[str]:
    """The links that must not be there for this rank: another rank's unit, and a start at boot beside the guard's."""
    others = [f"{SYSTEM_UNITS}/{name}" for name in UNITS if name != unit]
    return others + [f"{SYSTEM_UNITS}/multi-user.target.wants/{name}" for name in UNITS]


def reload() -> None:
    """Makes systemd read the units of the release that `current` names now."""
    _systemctl("daemon-reload")


def start(unit: str) -> None:
    """Starts a rank; EngineStateError with the reason where it did not even begin."""
    if (units((unit,)).get(unit) or {}).get(
        "active"
    ) == "failed":  # one that is not loaded has nothing to reset
        _systemctl("reset-failed", unit)
    _systemctl("start", unit)
