# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem warmup`: warm this group's engine up, on its head."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .chat import Endpoint
from .fabric_command import PLAN, read_plan
from .fabric_env import FabricEnvError
from .warm_up import warm_up
from .warm_up_plan import plan_of

NAME = "warmup"
HELP = "run every shape of work once, so that no request waits for a compiler"


class WarmUpError(Exception):
    """What was found, what was wanted and what to do."""


ERRORS = (WarmUpError, FabricEnvError)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", default=PLAN, help="the node's plan (%(default)s)")
    parser.add_argument("--url", help="base address of the endpoint (the plan's port on this node)")
    parser.add_argument("--model", help="name of the served model (the plan's)")
    parser.add_argument(
        "--api-key-file", type=Path, help="file that holds the bearer token, if the endpoint wants one"
    )


def run(arguments: argparse.Namespace) -> int:
    plan = read_plan(arguments.plan)
    done = warm_up(endpoint(plan, arguments), sizes(plan), say=lambda line: print(line, flush=True))
    if done.trouble:
        raise WarmUpError(f"{done.trouble.summary}: {done.trouble.evidence}\n{done.trouble.remedy}")
    tokens, seconds = (sum(phase[key] for phase in done.phases) for key in ("tokens", "seconds"))
    print(f"warm: {tokens} tokens in {seconds:.1f} s")
    return 0


def endpoint(plan: Mapping[str, Any], arguments: argparse.Namespace) -> Endpoint:
    """The head's own API, unless another one is named."""
    api = plan.get("api", {})
    if not arguments.url and plan.get("rank", 0) != 0:
        raise WarmUpError(
            f"This node is rank {plan['rank']}, which has no API. "
            f"Run it on {plan['hosts'][0]}, the head, or give --url."
        )
    model = arguments.model or api.get("model")
    url = arguments.url or (f"http://127.0.0.1:{api['port']}" if "port" in api else None)
    if not (model and url):
        raise WarmUpError(
            f"{arguments.plan} names no API. Write it anew with site.yml, or give --url and --model."
        )
    return Endpoint(url, model, _api_key(arguments.api_key_file))


def sizes(plan: Mapping[str, Any]):
    """The profile's sizes, which the plan carries as `warm_up`; the defaults for what it does not say."""
    try:
        return plan_of(plan.get("warm_up", {}))
    except ValueError as error:
        raise WarmUpError(f"warm_up of the plan: {error}. Correct the profile and run site.yml.") from error


def _api_key(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WarmUpError(f"{path} cannot be read ({error}), wanted the API key.") from error
