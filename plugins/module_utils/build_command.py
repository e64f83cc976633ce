# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem build`: builds what a job names. The unit tandem-build.service runs it; nobody else needs to."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .build_run import Builder, read_job, speaker

NAME = "build"
HELP = "Build the wheels of a job from source; run by the unit tandem-build"


class JobError(Exception):
    """What was found, what was wanted and what to do."""


ERRORS = (JobError, OSError)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, help="the job that site.yml wrote")
    parser.add_argument("--state", type=Path, required=True, help="folder for what is shown of the run")


def run(arguments: argparse.Namespace) -> int:
    try:
        job = read_job(json.loads(arguments.job.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise JobError(f"{arguments.job} is no job of a build ({error!r}). Run site.yml again.") from error
    return Builder(job, arguments.state, speaker(arguments.state)).run()
