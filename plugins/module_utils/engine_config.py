# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile's flags as the engine reads them: one `engine.yaml` for the group, and the few words of each rank.

The file is what `vllm serve --config FILE` takes (two words: `--config=FILE` is silently ignored by
vLLM 0.32 and 0.33, which then starts a default model). Three more traps of that reader are kept out here:
`flag: false` is dropped without a word, so a switch that is off is written as `no-flag: true`; an empty value
becomes the text "None"; and an unquoted value may change its type, so every value is written as JSON, which is
YAML too. Measured on vLLM 0.32.0 and 0.33.0.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

FLAG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
# Each rank has its own, from the environment that `tandem fabric --env` writes at every start.
PER_RANK = frozenset(
    "model headless node-rank nnodes master-addr master-port host port config served-model-name api-key".split()
)


GATE = "tandem.api_gate.Gate"  # what asks for the key where vLLM does not
# Variables that no profile may set, and why.
FORBIDDEN = {
    "VLLM_SERVER_DEV_MODE": "lets everybody who reaches the API run what they like",
    "VLLM_API_KEY": "would be readable for all in a release: set tandem_api_key",
}


class EngineConfigError(Exception):
    """Every flag that cannot be rendered, one sentence each."""


def problems(flags: dict) -> list[str]:
    """What is wrong with a profile's flags, all of it; empty when they can be rendered."""
    found = []
    for name, value in flags.items():
        if not FLAG.match(name):
            found.append(
                f"flag {name!r} is not spelled as vLLM's long flags are (lower case, words joined by -)"
            )
        elif name.startswith("no-"):
            found.append(f"flag {name!r} is a negative: write {name[3:]}: false")
        elif name in PER_RANK:
            found.append(f"flag {name!r} is set by the collection for each rank: remove it from the profile")
        elif value is None or value == "" or value == []:
            found.append(f"flag {name!r} has no value: remove it, or give it one")
        elif not isinstance(value, (bool, int, float, str, dict, list)):
            found.append(f"flag {name!r} has a value of type {type(value).__name__}, which no flag takes")
    return found


def environment_problems(environment: dict) -> list[str]:
    """What a profile's variables get wrong; empty when they can be written."""
    found = []
    for name, value in environment.items():
        if value is None or value == "":
            found.append(f"variable {name} is empty, which is not its default: take it out")
        elif name in FORBIDDEN:
            found.append(f"variable {name} {FORBIDDEN[name]}: take it out")
        elif name == "CUDA_LAUNCH_BLOCKING":
            found.append(f"variable {name}={value} makes every launch wait, whatever its value: take it out")
        elif isinstance(value, (dict, list)):
            found.append(f"variable {name} is a {type(value).__name__}, wanted a text or a number")
    return found


def engine_yaml(flags: dict, model: str, served_model_name: str) -> str:
    """The text of `engine.yaml`: the same bytes for the same flags, whatever their order.

    Raises EngineConfigError with every problem.
    """
    found = problems(flags)
    if found:
        raise EngineConfigError("; ".join(found))
    entries = {"model": model, "served-model-name": served_model_name}
    for name, value in flags.items():
        if value is False:
            entries[f"no-{name}"] = True
        else:
            entries[name] = value
    return "".join(f"{name}: {json.dumps(entries[name], sort_keys=True)}\n" for name in sorted(entries))


def rank_arguments(
    rank: int, ranks: int, api_host: str, api_port: int, rendezvous: str | None = "nnodes"
) -> list[str]:
    """The words after `vllm serve --config FILE` that differ between ranks. With Ray only the head serves.

    `${TANDEM_…}` is filled in by systemd from /run/tandem/fabric.env, so that the release is the same on every rank.
    """
    head = ["--host", api_host, "--port", str(api_port), "--middleware", GATE]
    if rendezvous == "ray":
        return head if rank == 0 else []
    words = []
    if ranks > 1:
        words += ["--nnodes", str(ranks), "--node-rank", "${TANDEM_NODE_RANK}"]
        words += ["--master-addr", "${TANDEM_MASTER_ADDR}", "--master-port", "${TANDEM_MASTER_PORT}"]
    words += head if rank == 0 else ["--headless"]
    return words


def environment_file(environment: dict) -> str:
    """A systemd EnvironmentFile, sorted. Values are quoted; a value with a line break cannot be written."""
    lines = []
    for name in sorted(environment):
        value = str(environment[name])
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name) or "\n" in value:
            raise EngineConfigError(
                f"environment variable {name!r} = {value!r} cannot be written for systemd"
            )
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


def read_environment(path: Path) -> dict[str, str] | None:
    """The variables of a file that systemd reads; None where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and line[:1] not in "#;")
    return {name.strip(): _unquoted(value.strip()) for name, _equals, value in pairs}


def _unquoted(value: str) -> str:
    """What environment_file quoted, as systemd reads it."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value.strip('"')
