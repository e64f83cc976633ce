# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem key`: the key of the API as a header, for `curl -H @-`, which does not have it among its arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import api_key

NAME = "key"
HELP = "print the key of the API as the header that asks with it: tandem key | curl -H @- URL"
ERRORS = (api_key.ApiKeyError,)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", default=f"/{api_key.FILE}", help="where it is kept (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    key = api_key.read(Path(arguments.file))
    if key is None:
        raise api_key.ApiKeyError(
            f"{arguments.file} holds no key: this node is not the head, or tandem_api_auth is open."
        )
    print(f"Authorization: Bearer {key}")
    return 0
