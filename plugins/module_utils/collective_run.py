# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run `tandem collective` on this rank as its engine would run: same user, limits, environment and rails.

A transient unit does it, so that it ends in time whatever becomes of the one who asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import collective, commands, container_run, engine_state, fabric_command, fabric_env, files, nccl_log
from .collective import CollectiveError
from .engine_config import EngineConfigError, environment_file
from .kernel_files import Tree

UNIT = "tandem-collective.service"
ENVIRONMENT = "/run/tandem/collective.env"
LOG = "/run/tandem/collective.log"
PYTHON = f"{engine_state.CURRENT}/runtime/bin/python"
LIBRARY = "/opt/tandem/lib"
# Then PYTHON runs the image's.
IN_CONTAINER = f"{engine_state.CURRENT}/{container_run.HOW}"
# NCCL's log is read from this unit's output, so nothing may send it elsewhere or cut it.
UNSET = "NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS"
LAST_LINES = 12


@dataclass(frozen=True)
class Wish:
    """What to measure, and with whom."""

    sizes: tuple[int, ...]
    ranks: int
    backend: str
    user: str
    join_timeout_s: int
    total_timeout_s: int


def prepared(plan: Mapping[str, Any], wish: Wish) -> dict[str, str]:
    """The rank's environment, from the live machine. CollectiveError has every reason why nothing is measured."""
    problems, variables = [], {}
    if up := engine_state.running():
        problems.append(
            f"{' and '.join(up)} runs here, and would be measured too, or run out of memory. "
            "Stop the group first (playbooks/stop.yml)."
        )
    if not Path(PYTHON).exists():
        problems.append(f"{PYTHON} is not there: the engine was never installed. Run site.yml first.")
    if shortage := collective.memory_problem(wish.sizes, available_memory()):
        problems.append(shortage)
    try:
        variables = fabric_env.environment(plan, fabric_env.look_at_machine("/sys"))[0]
    except fabric_env.FabricEnvError as error:
        problems.append(str(error))
    if problems:
        raise CollectiveError("\n".join(problems))
    return {**variables, "NCCL_DEBUG": "INFO"}


def available_memory(root: str = "/") -> int | None:
    """MemAvailable in bytes, None where it is not told."""
    match = re.search(r"(?m)^MemAvailable:\s+(\d{1,15}) kB", Tree(root).text("proc/meminfo") or "")
    return int(match[1]) * 1024 if match else None


def command(wish: Wish) -> list[str]:
    """The transient unit, as the engine's unit has it where it matters: user, locked memory, environment."""
    # In a container it is begun by root, who alone may ask for one.
    account = {} if os.path.exists(IN_CONTAINER) else {"User": wish.user, "Group": wish.user}
    properties = {
        **account,
        "WorkingDirectory": "/",
        "LimitMEMLOCK": "infinity",
        "LimitSTACK": "64M",
        "OOMScoreAdjust": "1000",
        "UnsetEnvironment": UNSET,
        "RuntimeMaxSec": str(wish.total_timeout_s),
        "StandardOutput": f"truncate:{LOG}",
        "StandardError": "inherit",
    }
    files_of = (f"-{engine_state.CURRENT}/env", ENVIRONMENT)
    return [
        *(
            "systemd-run",
            f"--unit={UNIT}",
            "--quiet",
            "--collect",
            "--wait",
            f"--setenv=PYTHONPATH={LIBRARY}",
        ),
        *(f"--property={name}={value}" for name, value in properties.items()),
        *(f"--property=EnvironmentFile={path}" for path in files_of),
        *(PYTHON, "-P", "-m", "tandem", "collective", f"--ranks={wish.ranks}", f"--backend={wish.backend}"),
        *(f"--sizes={','.join(map(str, wish.sizes))}", f"--join-timeout={wish.join_timeout_s}"),
    ]


def measure(plan: Mapping[str, Any], wish: Wish) -> tuple[dict[str, Any], nccl_log.NcclLog]:
    """What the program printed, and what NCCL said meanwhile. CollectiveError where it did not come to a result."""
    try:
        content = environment_file(prepared(plan, wish)).encode()
    except EngineConfigError as error:
        raise CollectiveError(str(error)) from error
    Path(ENVIRONMENT).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    wanted = files.Wanted(ENVIRONMENT, content=content, mode=0o644)
    files.apply(wanted, files.look(ENVIRONMENT, with_content=False))
    try:
        answer = commands.ask(command(wish), timeout_s=wish.total_timeout_s + 30)
        if answer.rc is None:
            commands.ask(["systemctl", "stop", UNIT], timeout_s=60)
        said = Path(LOG).read_bytes().decode("utf-8", "replace") if Path(LOG).exists() else ""
    finally:
        Path(ENVIRONMENT).unlink(missing_ok=True)
    result = collective.result_in(said)
    if result is None:
        raise CollectiveError(_why(answer, said, wish))
    return result, nccl_log.read_log(said.splitlines())


def _why(answer: commands.Answer, said: str, wish: Wish) -> str:
    own = [line for line in said.splitlines() if line.startswith("tandem collective: ")]
    if own:
        return "\n".join(line.removeprefix("tandem collective: ") for line in own)
    lines = "\n".join(said.splitlines()[-LAST_LINES:]) or "(nothing)"
    ended = "was not begun" if answer.rc is None else f"ended with {answer.rc}"
    return (
        f"{UNIT} {ended} and printed no result within {wish.total_timeout_s} s. Look at `journalctl -u {UNIT}`. "
        f"Its last lines:\n{lines}"
    )


def read_plan(path: str = fabric_command.PLAN) -> dict[str, Any]:
    """The node's plan, with what a measurement needs of it."""
    try:
        plan = fabric_command.read_plan(path)
        int(plan["ranks"]), int(plan["rank"]), plan["fabric"]["rails"]
    except fabric_env.FabricEnvError as error:
        raise CollectiveError(str(error)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise CollectiveError(
            f"{path} is no plan of a rank ({type(error).__name__}: {error}). Write it anew with site.yml."
        ) from error
    return plan


def wanted_transport(plan: Mapping[str, Any], backend: str) -> str | None:
    """RDMA where the plan has HCAs and NCCL speaks; None where nothing can be asked of it."""
    if backend != "nccl":
        return None
    return "ib" if any(rail.get("hca") for rail in plan["fabric"]["rails"]) else "socket"
