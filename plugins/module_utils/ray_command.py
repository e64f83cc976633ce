# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem ray`: this rank's part of a cluster of Ray, and on the head the engine that computes over it.

All of a rank lives in one unit: whichever of its processes ends, the unit ends, and the guard sees one rank, as it does
without Ray.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import api_key, engine_state, ray_settings
from .engine_config import read_environment
from .ray_settings import RayError

NAME = "ray"
HELP = "take part in a cluster of Ray, and serve over it on the head (the unit does)"
ERRORS = (RayError, OSError)

RAY = f"{engine_state.CURRENT}/runtime/bin/ray"
START_S = 180.0
SAY_EVERY_S = 30.0
END_S = 10.0
# Of the agent alone, whose shell script sets the one and takes the other away.
_AGENTS_OWN = ("PYTHONPATH",)
_KEPT_BY_RELEASE = ("PYTHONPATH", "PYTHONPYCACHEPREFIX")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ray", default=RAY, help="Ray's program (%(default)s)")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the engine, on the head"
    )


def run(arguments: argparse.Namespace) -> int:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    release = read_environment(Path(engine_state.CURRENT, "env")) or {}
    variables = child_environment(os.environ, release)
    rank, address, head = ray_settings.own_address(variables)
    if bool(words) != (rank == 0):
        raise RayError(
            f"This is rank {rank}; wanted is a command for the engine on rank 0, and on no other one."
        )
    command = ray_settings.start_words(arguments.ray, rank, address, head)
    if rank:
        wait_for(head)
        os.execve(command[0], command, variables)
    return serve(command, words, {**variables, "RAY_ADDRESS": head})


def child_environment(own: Mapping[str, str], release: Mapping[str, str]) -> dict[str, str]:
    """What the unit was given, without what belongs to the agent."""
    kept = {name: release[name] for name in _KEPT_BY_RELEASE if name in release}
    return {**{name: value for name, value in own.items() if name not in _AGENTS_OWN}, **kept}


def wait_for(head: str, limit_s: float = float("inf")) -> None:
    """Until Ray of the head takes connections. Who waits too long is ended from outside, by the guard or a roll-out."""
    host, _colon, port = head.rpartition(":")
    began = time.monotonic()
    told = float("-inf")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError as error:
            now = time.monotonic()
            if now > began + limit_s:
                raise RayError(
                    f"Ray at {head} did not take a connection within {limit_s:.0f} s: {error}."
                ) from error
            if now >= told + SAY_EVERY_S:
                print(f"waiting for Ray at {head}: {error}", flush=True)
                told = now
            time.sleep(0.5)


class Told:
    """Hands on what a process prints, and knows when it said a certain thing."""

    def __init__(self, process: subprocess.Popen, text: str):
        self.heard = threading.Event()
        self._process, self._text = process, text
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if self._text in line:
                self.heard.set()


def serve(ray: Sequence[str], engine: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs Ray's head, then the engine, until one of them ends; what that one ended with. Raises RayError."""
    without_key = {name: value for name, value in variables.items() if name != api_key.VARIABLE}
    cluster = subprocess.Popen(
        list(ray), env=without_key, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    children = [cluster]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        told = Told(cluster, ray_settings.STARTED)
        end = time.monotonic() + START_S
        while not told.heard.wait(0.2):
            if cluster.poll() is not None:
                raise RayError(
                    f"Ray ended with {cluster.returncode} before it was up. Its last lines say why."
                )
            if time.monotonic() > end:
                raise RayError(
                    f"Ray was not up after {START_S:.0f} s. Look at its last lines, and at its port."
                )
        children.insert(0, subprocess.Popen(list(engine), env=dict(variables)))
        while all(each.poll() is None for each in children):
            time.sleep(0.2)
        ended = next(each for each in children if each.poll() is not None)
        name = "the engine" if ended is children[0] else "Ray"
        print(f"{name} ended with {ended.returncode}", flush=True)
        return ended.returncode if ended.returncode > 0 else 1
    finally:
        end_all(children)


def end_all(children: Sequence[subprocess.Popen]) -> None:
    """The engine first, since it has Ray end its workers; what stays is killed, with the unit at the latest."""
    for each in children:
        if each.poll() is None:
            each.terminate()
            try:
                each.wait(END_S)
            except subprocess.TimeoutExpired:
                each.kill()
