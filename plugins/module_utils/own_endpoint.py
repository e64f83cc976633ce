# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where this group's model is asked, for the commands of the agent that ask it: options, address, model and key."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import api_key
from .engine_state import CURRENT, PLAN
from .records import read_json

if TYPE_CHECKING:
    from .chat import Endpoint


class EndpointError(Exception):
    """What was found, what was wanted and what to do."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", default=PLAN, help="the node's plan (%(default)s)")
    parser.add_argument("--release", default=CURRENT, help="the release that runs (%(default)s)")
    parser.add_argument("--url", help="base address of the endpoint (the release's port on this node)")
    parser.add_argument("--model", help="name of the served model (the release's)")
    parser.add_argument(
        "--api-key-file",
        type=Path,
        help=f"file that holds the key of the API (/{api_key.FILE}, if that is there)",
    )


def serving(release: str | Path) -> dict[str, Any]:
    """How a release is asked, as its manifest says; empty where it does not.

    A release that was brought back may listen elsewhere than the plan says, which is that of the wanted one.
    """
    said = (read_json(Path(release) / "manifest.json") or {}).get("serving")
    return said if isinstance(said, dict) else {}


def api(plan: Mapping[str, Any], asked_how: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(base address on the head itself, model), each None where neither release nor plan names it."""
    planned = plan.get("api")
    planned = planned if isinstance(planned, dict) else {}
    port = asked_how.get("port") or planned.get("port")
    return (f"http://127.0.0.1:{port}" if port else None), asked_how.get("model") or planned.get("model")


def endpoint(plan: Mapping[str, Any], arguments: argparse.Namespace) -> Endpoint:
    """The head's own API, unless another one is named."""
    if not arguments.url and plan.get("rank", 0) != 0:
        raise EndpointError(
            f"This node is rank {plan['rank']}, which has no API. "
            f"Run it on {(plan.get('hosts') or ['rank 0'])[0]}, the head, or give --url."
        )
    url, model = api(plan, serving(arguments.release))
    url, model = arguments.url or url, arguments.model or model
    if not (model and url):
        raise EndpointError(
            f"{arguments.plan} names no API. Write it anew with site.yml, or give --url and --model."
        )
    from .chat import Endpoint  # not above: a guard that asks nothing does without HTTP

    return Endpoint(url, model, _api_key(arguments.api_key_file, foreign=bool(arguments.url)))


def _api_key(path: Path | None, foreign: bool) -> str | None:
    """This group's own key is for its own API: one that is named by its address gets only what is named for it."""
    if path is not None and not path.exists():
        raise EndpointError(f"{path} cannot be read (it is not there), wanted the API key.")
    try:
        return None if path is None and foreign else api_key.read(path or Path("/", api_key.FILE))
    except api_key.ApiKeyError as error:
        raise EndpointError(str(error)) from error
