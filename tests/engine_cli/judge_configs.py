# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the vLLM on sys.path make the whole engine configuration of command lines, on a pretended GB10.

Runs in the engine's own Python, beside the plugin `pretend_gb10`. stdin: a JSON list of argument lists, each beginning
with ``serve``.
stdout: JSON, a verdict each: ``code`` (0 taken, 2 refused by the parser, 1 refused later), ``reason`` and, where taken,
``config``: what vLLM makes of it. One process for all, because importing vLLM takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
# The runner that DSpark needs is the default only where Triton works.
os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"

from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: E402 - after what it needs is set
from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: E402 - after what it needs is set
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402 - after what it needs is set

COMMAND, PARSER = ServeSubcommand(), FlexibleArgumentParser(prog="vllm")
COMMAND.subparser_init(PARSER.add_subparsers(required=True, dest="subparser"))


def configured(words: list[str]) -> dict:
    """Return what vLLM makes of one command line; whatever it raises comes through."""
    arguments = PARSER.parse_args(words)
    COMMAND.validate(arguments)
    arguments.model = arguments.model_tag or arguments.model
    engine = AsyncEngineArgs.from_cli_args(arguments)
    made = engine.create_engine_config(headless=bool(arguments.headless))
    draft = made.speculative_config
    return {
        "kv_cache_dtype": str(made.cache_config.cache_dtype),
        "block_size": made.cache_config.block_size,
        "tensor_parallel_size": made.parallel_config.tensor_parallel_size,
        "nnodes": made.parallel_config.nnodes,
        "node_rank": made.parallel_config.node_rank,
        "max_num_seqs": made.scheduler_config.max_num_seqs,
        "max_model_len": made.model_config.max_model_len,
        "cudagraph_mode": made.compilation_config.cudagraph_mode.name,
        "method": draft and draft.method,
        "k": draft and draft.num_speculative_tokens,
        "draft": draft and draft.draft_model_config.architectures,
    }


def judge(words: list[str]) -> dict:
    """Return the verdict on one command line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return {"code": 0, "reason": "", "config": configured(words)}
    except SystemExit as stop:
        return {"code": stop.code, "reason": said.getvalue().strip()}
    except Exception as error:  # whatever vLLM raises is its verdict
        return {"code": 1, "reason": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # vLLM logs to stdout
        verdicts = [judge(words) for words in json.load(sys.stdin)]
    json.dump(verdicts, sys.stdout, default=str)
