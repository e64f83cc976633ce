# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem fabric`: write the rank's fabric environment, or undo a change of the rails."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import fabric_env, files, loaded_nccl, rails
from .engine_config import EngineConfigError, environment_file
from .engine_state import PLAN
from .rails_plan import RailsError

NAME = "fabric"
HELP = "write the rank's fabric environment, or undo a change of the rails"
ERRORS = (fabric_env.FabricEnvError, files.FilesError, EngineConfigError, RailsError, OSError)

OUTPUT = "/run/tandem/fabric.env"


def configure(parser: argparse.ArgumentParser) -> None:
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--env", action="store_true", help="check the rails and write the environment file")
    action.add_argument("--revert", action="store_true", help="undo a change of the rails that is staged")
    parser.add_argument("--plan", default=PLAN, help="the node's plan (%(default)s)")
    parser.add_argument("--sysfs-root", default="/sys", help="where sysfs is seen (%(default)s)")
    parser.add_argument("--output", default=OUTPUT, help="file to write (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.revert:
        print("undone" if rails.revert() else "nothing to undo")
        return 0
    return write_environment(arguments.plan, arguments.sysfs_root, arguments.output)


def write_environment(plan_path: str, sysfs_root: str, output: str) -> int:
    """Remove the file of the last start, and write a new one only if the rank may start."""
    Path(output).unlink(missing_ok=True)
    # The unit's environment is this process's too: what is not loaded here would not be in the engine.
    if problems := loaded_nccl.preload_problems():
        raise fabric_env.FabricEnvError("\n".join(problems))
    machine = fabric_env.look_at_machine(sysfs_root)
    variables, how, warnings = fabric_env.environment(read_plan(plan_path), machine)
    wanted = files.Wanted(output, content=environment_file(variables).encode(), mode=0o644)
    files.apply(wanted, files.look(output, with_content=False))
    for warning in warnings:
        print(f"warning: {warning.summary}. {warning.remedy}.", file=sys.stderr)
    print(how)
    return 0


def read_plan(path: str) -> dict:
    try:
        plan = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise fabric_env.FabricEnvError(
            f"There is no plan to read at {path} ({error.strerror}). Run site.yml, which writes it."
        ) from error
    except (ValueError, RecursionError) as error:
        raise fabric_env.FabricEnvError(
            f"{path} is not JSON ({error}). Write it anew with site.yml."
        ) from error
    if not isinstance(plan, dict):
        raise fabric_env.FabricEnvError(f"{path} holds no plan. Write it anew with site.yml.")
    return plan
