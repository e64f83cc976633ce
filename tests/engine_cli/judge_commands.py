# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the vLLM on sys.path judge command lines as `vllm serve` would, up to its parallel configuration.

Runs in the engine's own Python. stdin: a JSON list of argument lists, each beginning with ``serve``.
stdout: JSON with ``vllm`` (its version), ``flags`` (what its parser knows) and ``verdicts``, one each: ``code``
(0 accepted, 2 refused by the parser, 1 refused later), ``reason`` and, where accepted, ``arguments``: every value.
One process for all, because importing vLLM takes seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import os
import sys

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from vllm.config import ParallelConfig  # noqa: E402 - after the path to it
from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402 - after the path to it
from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: E402 - after the path to it
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402 - after the path to it


def judge(words: list[str]) -> dict:
    """Return the verdict on one command line."""
    parser = FlexibleArgumentParser(prog="vllm")
    command = ServeSubcommand()
    command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments = parser.parse_args(words)
            command.validate(arguments)
            engine = AsyncEngineArgs.from_cli_args(arguments)
            # The whole engine configuration needs the checkpoint and a GPU; the ranks are judged without.
            ParallelConfig(
                tensor_parallel_size=engine.tensor_parallel_size,
                distributed_executor_backend=engine.distributed_executor_backend,
                nnodes=engine.nnodes,
                node_rank=engine.node_rank,
            )
    except SystemExit as stop:
        return {"code": stop.code, "reason": said.getvalue().strip()}
    except Exception as error:  # whatever vLLM raises is its verdict
        return {"code": 1, "reason": f"{type(error).__name__}: {error}"}
    model = arguments.model_tag or arguments.model
    return {"code": 0, "reason": "", "arguments": {**vars(arguments), "model": model}}


def flags() -> dict[str, str]:
    """Return what `vllm serve` knows: value, either (a value or none), switch, or on (one that cannot be switched off).

    Negatives are not named: a profile says `false`, and the collection writes `no-…`.
    """
    parser = FlexibleArgumentParser(prog="vllm")
    serve = ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    known = serve._option_string_actions

    def kind(name: str, action: argparse.Action) -> str:
        if action.nargs == 0:
            return "switch" if f"--no-{name}" in known else "on"
        return "either" if action.nargs == "?" else "value"

    names = sorted(word[2:] for word in known if word.startswith("--") and not word.startswith("--no-"))
    return {name: kind(name, known[f"--{name}"]) for name in names if name != "help"}


if __name__ == "__main__":
    verdicts = [judge(words) for words in json.load(sys.stdin)]
    answer = {"vllm": importlib.metadata.version("vllm"), "flags": flags(), "verdicts": verdicts}
    json.dump(answer, sys.stdout, default=str)
