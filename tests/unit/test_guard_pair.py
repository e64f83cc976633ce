# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two real guards as processes, with a stand-in for systemctl and a server that answers right."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import chat_server as s
import pytest
from ansible_collections.tandem.spark.plugins.module_utils.arithmetic import product_asked
from ansible_collections.tandem.spark.plugins.module_utils.http_exchange import exchange

COLLECTIONS = Path(__file__).parents[2] / "collections"
LIBRARY = "ansible_collections.tandem.spark.plugins.module_utils"
RELEASE = "0123456789abcdef"
LAUNCH = f"""
import sys
from {LIBRARY} import commands, cli
commands.PATH = sys.argv[1] + ":" + commands.PATH
sys.exit(cli.main(sys.argv[2:]))
"""
# A unit is a folder: `state`, and `invocation` while it runs.
SYSTEMCTL = """#!/bin/sh
cd "$UNIT" || exit 1
state=$(cat state 2>/dev/null || echo inactive)
case "$1" in
show)
    printf 'ActiveState=%s\\nSubState=\\nJob=0\\nControlGroup=\\n' "$state"
    printf 'InvocationID=%s\\n' "$(cat invocation 2>/dev/null)" ;;
start) echo active > state; cat /proc/sys/kernel/random/uuid > invocation ;;
stop) echo inactive > state; rm -f invocation ;;
esac
"""
SMALL = {"ramp_tokens": [16], "burst": {"streams": 1}, "long": {"streams": 1, "prompt_tokens": 16}}


def engine(request, stop):
    if not request:
        return s.response(b"vllm:generation_tokens_total 5\nvllm:prompt_tokens_total 5\n", kind="text/plain")
    if request.get("ignore_eos"):
        usage = {"prompt_tokens": 16, "completion_tokens": request["max_tokens"]}
        return s.response(s.stream(s.chunk(content="word"), s.end("length"), {"choices": [], "usage": usage}))
    return s.says(f"It is {product_asked(request['messages'][0]['content'])}.")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Pair:
    def __init__(self, folder: Path, url: str):
        self.folder, self.processes = folder, {}
        self.http = [free_port(), free_port()]
        port = free_port()
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(SYSTEMCTL)
        (folder / "bin/systemctl").chmod(0o755)
        for rank in (0, 1):
            root = folder / str(rank)
            for name in ("unit", "proc", "var/lib/tandem", f"opt/tandem/releases/{RELEASE}"):
                (root / name).mkdir(parents=True)
            (root / "opt/tandem/current").symlink_to(f"releases/{RELEASE}")
            serving = {"port": int(url.rpartition(":")[2]), "model": "lab", "proof": {"operands": [10, 99]}}
            manifest = root / "opt/tandem/current/manifest.json"
            manifest.write_text(json.dumps({"fingerprint": "0" * 64, "serving": serving}))
            (root / "proc/meminfo").write_text("MemAvailable: 20000000 kB\n")
            (root / "var/lib/tandem/applied").write_text(f"{RELEASE}\n")
            (root / "secret").write_text("s" * 64)
            (root / "secret").chmod(0o600)
            guard = {"port": port, "http_port": self.http[rank], "http_host": "127.0.0.1"}
            guard["limits"] = {"probe_interval_s": 2, "probe_timeout_s": 20}
            plan = {
                "group": "tandem",
                "rank": rank,
                "hosts": ["spark-a", "spark-b"],
                "master_addr": "127.0.0.1",
            }
            (root / "plan.json").write_text(json.dumps({**plan, "warm_up": SMALL, "guard": guard}))
            self.start(rank)

    def command(self, rank: int, *words: str) -> list[str]:
        root = self.folder / str(rank)
        where = [
            "--root",
            str(root),
            "--plan",
            str(root / "plan.json"),
            "--release",
            str(root / "opt/tandem/current"),
        ]
        secret = ["--secret-file", str(root / "secret")]
        return [sys.executable, "-c", LAUNCH, str(self.folder / "bin"), "guard", *where, *secret, *words]

    def environment(self, rank: int) -> dict[str, str]:
        unit = str(self.folder / str(rank) / "unit")
        return {**os.environ, "PYTHONPATH": str(COLLECTIONS), "UNIT": unit, "MALLOC_ARENA_MAX": "1"}

    def start(self, rank: int) -> None:
        with open(self.folder / f"log{rank}", "ab") as log:
            self.processes[rank] = subprocess.Popen(
                self.command(rank), env=self.environment(rank), stdout=log, stderr=subprocess.STDOUT
            )

    def tell(self, rank: int, *words: str) -> None:
        subprocess.run(
            self.command(rank, *words), env=self.environment(rank), check=True, capture_output=True
        )

    def kill(self, rank: int) -> None:
        self.processes[rank].kill()
        self.processes[rank].wait()

    def get(self, path: str) -> tuple[int, str]:
        with exchange("GET", f"http://127.0.0.1:{self.http[0]}{path}", timeout=5) as response:
            return response.status, response.read().decode()

    def state(self) -> str:
        try:
            return json.loads(self.get("/healthz")[1])["state"]
        except Exception:
            return "silent"

    def until(self, *states: str) -> None:
        deadline = time.monotonic() + 120
        while self.state() not in states:
            if time.monotonic() > deadline:
                logs = [(self.folder / f"log{rank}").read_text() for rank in (0, 1)]
                raise AssertionError(f"{states} not reached: {self.state()}\n" + "\n--- rank 1\n".join(logs))
            time.sleep(0.1)

    def invocations(self) -> list[str]:
        return [(self.folder / str(rank) / "unit/invocation").read_text() for rank in (0, 1)]

    def resident_mib(self, rank: int) -> float:
        status = Path(f"/proc/{self.processes[rank].pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.fixture
def pair(tmp_path):
    with s.ChatServer(engine) as server:
        pair = Pair(tmp_path, server.url)
        try:
            yield pair
        finally:
            for process in pair.processes.values():
                process.kill()
                process.wait()


@pytest.mark.long
def test_two_guards_start_recover_adopt_and_hold(pair):
    pair.until("ready")
    first = pair.invocations()
    # A rank dies: both are started anew.
    (pair.folder / "1/unit/invocation").write_text("another")
    pair.until("stopping", "waiting", "starting", "warming")
    pair.until("ready")
    second = pair.invocations()
    assert not set(first) & set(second)
    # Both guards die, and adopt what runs.
    pair.kill(0), pair.kill(1)
    pair.start(0), pair.start(1)
    pair.until("ready")
    assert pair.invocations() == second
    # Another rank's hold holds the group.
    pair.tell(1, "--hold", "operator")
    pair.until("held")
    (pair.folder / "0/unit/invocation").write_text("by hand")
    pair.tell(1, "--drop", "operator")
    pair.until("ready")
    assert pair.invocations() == ["by hand", second[1]]
    # An operator's stop is respected, and the other rank follows.
    (pair.folder / "1/unit/state").write_text("inactive")
    pair.until("off")
    history = (pair.folder / "0/var/lib/tandem/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in history] == ["began", "recovered"]
    assert "tandem_guard_healthy 0" in pair.get("/metrics")[1] and "spark-b" in pair.get("/")[1]
    sizes = [pair.resident_mib(rank) for rank in (0, 1)]
    print(f"resident at most: {sizes[0]:.1f} MiB on the head, {sizes[1]:.1f} on the worker")
    assert max(sizes) <= 30, "25 with the nodes' Python, see docs/design.md; others are larger"
    pair.processes[0].send_signal(signal.SIGTERM)
    assert pair.processes[0].wait(20) == 0
