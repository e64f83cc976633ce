# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem status`: what this rank runs, what was proven of it, and whether that holds now."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from . import status, status_data, status_text
from .status_judgement import judge, proven

NAME = "status"
HELP = "say whether this rank runs the release that was proven for this very start, and why not"
ERRORS = (OSError,)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="everything, for machines")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the node is seen (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    seen = status.look(arguments.root)
    findings = judge(seen)
    told = status_data.as_dict(seen, findings)
    if arguments.json:
        print(json.dumps(told, indent=1))
    else:
        print("\n".join(status_text.lines(told)))
    return 0 if proven(findings) else 1
