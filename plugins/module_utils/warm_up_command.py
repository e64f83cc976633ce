# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem warmup`: warm this group's engine up, on its head."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from . import own_endpoint
from .fabric_command import read_plan
from .fabric_env import FabricEnvError
from .warm_up import warm_up
from .warm_up_plan import plan_of

NAME = "warmup"
HELP = "run every shape of work once, so that no request waits for a compiler"


class WarmUpError(Exception):
    """What was found, what was wanted and what to do."""


ERRORS = (WarmUpError, own_endpoint.EndpointError, FabricEnvError)


def configure(parser: argparse.ArgumentParser) -> None:
    own_endpoint.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    plan = read_plan(arguments.plan)
    done = warm_up(
        own_endpoint.endpoint(plan, arguments), sizes(plan), say=lambda line: print(line, flush=True)
    )
    if done.trouble:
        raise WarmUpError(f"{done.trouble.summary}: {done.trouble.evidence}\n{done.trouble.remedy}")
    tokens, seconds = (sum(phase[key] for phase in done.phases) for key in ("tokens", "seconds"))
    print(f"warm: {tokens} tokens in {seconds:.1f} s")
    return 0


def sizes(plan: Mapping[str, Any]):
    """The profile's sizes, which the plan carries as `warm_up`; the defaults for what it does not say."""
    try:
        return plan_of(plan.get("warm_up", {}))
    except ValueError as error:
        raise WarmUpError(f"warm_up of the plan: {error}. Correct the profile and run site.yml.") from error
