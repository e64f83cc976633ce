# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem guard`: the unit that ties this rank to the others, and what an operator tells it."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from . import guard_hold, guard_http, guard_speech, own_endpoint, records
from .files import FilesError
from .guard_look import SECRET
from .guard_node import Guard, remembered
from .guard_setup import GuardError, Setup, read_setup

if TYPE_CHECKING:
    from .chat import Endpoint

NAME = "guard"
HELP = "keep the ranks of this group alive together; or hold it back, while it is served by hand"
ERRORS = (
    GuardError,
    guard_hold.HoldError,
    guard_speech.SpeechError,
    own_endpoint.EndpointError,
    FilesError,
    OSError,
)

AGAIN = "run/tandem/guard.again"
TICK_S = 1.0
ROOT = Path("/")


def configure(parser: argparse.ArgumentParser) -> None:
    own_endpoint.configure(parser)
    parser.add_argument(
        "--secret-file", default=f"/{SECRET}", help="what all guards of the group share (%(default)s)"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="where the node is seen (%(default)s)")
    told = parser.add_mutually_exclusive_group()
    told.add_argument("--hold", metavar="OWNER", help="from now on the guard of this group does nothing")
    told.add_argument("--drop", metavar="OWNER", help="end a hold")
    told.add_argument("--again", action="store_true", help="try again after it has given up")
    parser.add_argument(
        "--for", dest="seconds", type=float, help="seconds that a hold lasts (until it is dropped)"
    )


def run(arguments: argparse.Namespace) -> int:
    root = arguments.root
    if arguments.hold:
        guard_hold.take(root, arguments.hold, arguments.seconds)
        print(f"held by {arguments.hold}")
    elif arguments.drop:
        print("dropped" if guard_hold.drop(root, arguments.drop) else "there was no such hold")
    elif arguments.again:
        (root / AGAIN).touch()
        print("the guard tries again, if it has given up")
    else:
        serve(arguments)
    return 0


def serve(arguments: argparse.Namespace) -> None:
    """Guards until SIGTERM. The engine's units go on without it; the others stop theirs where it stays away."""
    setup = read_setup(records.read_json(Path(arguments.plan)), arguments.plan)
    secret = guard_speech.read_secret(arguments.secret_file) if setup.ranks > 1 else None
    head = None
    if setup.rank == 0:
        # Only the head asks: HTTP and the judge take 7 MiB. TLS would take another, for an engine on loopback.
        sys.modules.setdefault("ssl", None)
        from .guard_head import Head
        from .guard_probe import Prober, WarmUp

        prober = Prober(lambda: _asked(setup, arguments), setup.limits.busy_s)
        head = Head(setup, remembered(arguments.root).get("group"), prober, WarmUp(_words(arguments)))
        if secret:
            guard_speech.Ear(setup.speech, secret, head.hear, _say).listener.start()
    guard = Guard(setup, secret, _say, arguments.root, head)
    notify = Notifier(os.environ.pop("NOTIFY_SOCKET", ""))  # no child shall speak for the guard
    guard_http.Window(setup.http, guard.snapshot).listener.start()
    signal.signal(signal.SIGTERM, _end)
    again = arguments.root / AGAIN
    notify("READY=1")
    try:
        while True:
            began = time.monotonic()
            if head and again.exists():
                again.unlink(missing_ok=True)
                head.again()
            guard.tick()
            notify("WATCHDOG=1")
            time.sleep(max(0.05, TICK_S - (time.monotonic() - began)))
    finally:
        if head:
            head.end()


def _asked(setup: Setup, arguments: argparse.Namespace) -> tuple[Endpoint, tuple[int, int]]:
    """Where and with which operands the release of now is asked."""
    from .guard_probe import OPERANDS

    endpoint = own_endpoint.endpoint(setup.plan, arguments)
    proof = own_endpoint.serving(arguments.release).get("proof")
    operands = proof.get("operands") if isinstance(proof, dict) else None
    if isinstance(operands, list) and len(operands) == 2 and all(isinstance(each, int) for each in operands):
        return endpoint, (operands[0], operands[1])
    return endpoint, OPERANDS


def _words(arguments: argparse.Namespace) -> list[str]:
    """The same endpoint, for another command of the agent."""
    words = ["--plan", str(arguments.plan), "--release", str(arguments.release)]
    for option, value in (("--url", arguments.url), ("--model", arguments.model)):
        words += [option, value] if value else []
    return words + (["--api-key-file", str(arguments.api_key_file)] if arguments.api_key_file else [])


def _say(line: str) -> None:
    print(line, flush=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


class Notifier:
    """Tells systemd (sd_notify); nothing where nobody listens."""

    def __init__(self, address: str):
        self._address = address.replace("@", "\0", 1) if address.startswith("@") else address

    def __call__(self, line: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            try:
                channel.sendto(line.encode(), self._address)
            except OSError:
                pass  # systemd is being restarted: the next tick tells again
