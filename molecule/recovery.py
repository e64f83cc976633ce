# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens from a fault to the next right answer, seen by a user, a load balancer and the guard's own journal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from hands import API, INVENTORY, LAB_PROGRAM, NODES, shell, wait_for

HEAD, WORKER = NODES
UNITS = {HEAD: "tandem-head.service", WORKER: "tandem-worker.service"}
HEALTH = "http://192.168.50.11:25002/healthz"
RESULTS = INVENTORY.parents[1] / "recovery.json"  # outlives the nodes
# docs/recovery.md: interval + time-out + 5 s until a wedge is found, and what a recovery may add to the engine's start.
FOUND_S, OWN_S = 50.0, 30.0
COME_BACK_S = 600


@dataclass(frozen=True)
class Recovery:
    """Seconds; None where there was none. found, mended and answered count from the fault; own from the later of found
    and mended to the order to start; boot and warm_up are the engine's, to its first answer and to the guard's ready.
    lost and wrong are a user's requests; health is what a load balancer was told, and since when.
    """

    fault: str
    reason: str
    found_s: float | None
    mended_s: float | None
    own_s: float | None
    boot_s: float | None
    warm_up_s: float | None
    answered_s: float
    lost: int
    wrong: int
    health: str


class User:
    """See user.py."""

    def __init__(self, streams: int):
        self._file = tempfile.NamedTemporaryFile(prefix="tandem-user-", suffix=".jsonl")
        program = str(Path(__file__).with_name("user.py"))
        words = [
            sys.executable,
            str(LAB_PROGRAM),
            "client",
            "--",
            "python3",
            program,
            API,
            HEALTH,
            str(streams),
        ]
        self._process = subprocess.Popen(words, stdout=self._file, start_new_session=True)

    def _seen(self, what: str, since: float) -> list[dict]:
        lines = Path(self._file.name).read_text().splitlines(keepends=True)
        told = (json.loads(line) for line in lines if line.endswith("\n"))
        return [each for each in told if each["what"] == what and each["at"] >= since]

    def answers(self, since: float = 0) -> list[dict]:
        return self._seen("answer", since)

    def health(self, since: float = 0) -> list[dict]:
        return self._seen("health", since)

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait()
        self._file.close()


@contextmanager
def user(streams: int = 1) -> Iterator[User]:
    one = User(streams)
    try:
        yield one
    finally:
        one.end()


def guard() -> dict:
    """What the head's guard wrote last; empty while it is away."""
    text = shell(HEAD, "cat /run/tandem/guard.json", check=False)
    try:
        return json.loads(text)["snapshot"]
    except (ValueError, LookupError):
        return {}


def ready() -> bool:
    return guard().get("state") in ("ready", "busy")


def processes(node: str, name: str = "") -> list[int]:
    """Process ids of the rank on a node whose name begins so, the main process first."""
    group = f"/sys/fs/cgroup/system.slice/{UNITS[node]}/cgroup.procs"
    found = shell(node, f"for p in $(cat {group}); do echo $p $(cat /proc/$p/comm); done", check=False)
    pairs = [line.split(maxsplit=1) for line in found.splitlines()]
    return [int(pair[0]) for pair in pairs if len(pair) == 2 and pair[1].startswith(name)]


def send(node: str, name: str, number: str) -> None:
    pids = processes(node, name)
    assert pids, f"no {name} on {node}"
    shell(node, f"kill -{number} {pids[0]}")


def said(since: float) -> list[tuple[float, str]]:
    """(when, line) of the head's guard."""
    text = shell(
        HEAD, f"journalctl -u tandem-guard -o short-unix --no-pager --since @{since:.0f}", check=False
    )
    lines = re.findall(r"(?m)^(\d+\.\d+) \S+ \S+\[\d+\]: (.*)$", text)
    return [(float(at), line) for at, line in lines if float(at) >= since]


def _last_ready(lines: list[tuple[float, str]]) -> float | None:
    found = [at for at, line in lines if re.match(r"epoch \S+ ready", line)]
    return found[-1] if found else None


def _answers_again(one: User, began: float, since: float, epoch: str, restarts: bool | None) -> bool:
    known = guard()
    if known.get("state") not in ("ready", "busy"):
        return False
    if known.get("epoch") == epoch:
        # It may have survived: then it stays right for longer than a wedge takes to be found.
        right = [each for each in one.answers(since) if each["right"]]
        return not restarts and len(right) >= 3 and right[-1]["ended"] - since > FOUND_S
    at = _last_ready(said(began))
    return at is not None and any(each["right"] for each in one.answers(at))


def suffer(
    fault: str,
    begin: Callable[[], None],
    end: Callable[[], None] | None = None,
    outage_s: float = 0,
    restarts: bool | None = True,
) -> Recovery:
    """Does a fault to a pair that serves, mends it after its time, and waits for the next right answer."""
    wait_for("a pair that serves", ready, 300)
    epoch = guard()["epoch"]
    with user() as one:
        wait_for("an answer", lambda: any(each["right"] for each in one.answers()), 90, 0.5)
        began = time.time()
        begin()
        mended = None
        if end:
            time.sleep(max(0.0, began + outage_s - time.time()))
            end()
            mended = time.time()
        since = mended or began
        back = f"a right answer after: {fault}"
        wait_for(back, lambda: _answers_again(one, began, since, epoch, restarts), COME_BACK_S, 1)
        told = _recovery(fault, began, mended, one)
    print(f"\n{told}")
    _keep(told)
    return told


def _recovery(fault: str, began: float, mended: float | None, one: User) -> Recovery:
    lines = said(began)
    ends = [(at, line) for at, line in lines if re.search(r"-> (stopping|off|given-up): ", line)]
    starts = [at for at, line in lines if line.startswith("start tandem-head")]
    started = starts[-1] if starts else None
    warming = next((at for at, line in reversed(lines) if "is warmed up" in line), None)
    ready_at = _last_ready(lines) if starts else None
    found = ends[0][0] if ends else None
    after = [each for each in one.answers() if each["ended"] >= began]
    right = [each["ended"] for each in after if each["right"] and each["at"] >= (ready_at or mended or began)]

    def between(earlier: float | None, later: float | None) -> float | None:
        return None if later is None or earlier is None else round(later - earlier, 1)

    return Recovery(
        fault,
        ends[0][1].split(": ", 1)[1] if ends else "survived" if not starts else "another boot of the head",
        found_s=between(began, found),
        mended_s=between(began, mended),
        own_s=between(max(found or began, min(mended or began, started or began)), started),
        boot_s=between(started, warming),
        warm_up_s=between(warming, ready_at),
        answered_s=round(right[0] - began, 1),
        lost=sum(each["lost"] for each in after),
        wrong=sum(not each["right"] and not each["lost"] for each in after),
        health=_told(one.health(began), began),
    )


def _told(health: list[dict], began: float) -> str:
    """`200 ready, 503 stopping 3, ...`: with the second since the fault at which it was first said."""
    phases = groupby(health, lambda each: (each["status"], each["state"]))
    first = [(status, state, next(each)["at"] - began) for (status, state), each in phases]
    return ", ".join(f"{status or ''} {state} {at:.0f}".strip() for status, state, at in first)


def _keep(told: Recovery) -> None:
    """For docs/recovery.py, which makes the table of the operator's page."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**known, told.fault: asdict(told)}, indent=1))
