# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Debian's real Docker client makes of our command lines: what it would have its daemon do. There is no daemon."""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from ansible_collections.tandem.spark.plugins.module_utils import container_run  # noqa: E402 - after the path to it
from test_container_run import HERE, HOW  # noqa: E402 - after the path to it

CLIENT = Path(__file__).parents[2] / "build" / "tools" / "usr" / "bin" / "docker"
IMAGE = f"sha256:{'1' * 64}"
VARIABLES = {"NCCL_IB_HCA": "=rocep1s0f0:1,rocep1s0f1:1", "SAID": 'a "b" $HOME #c', "EMPTY": ""}


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Takes one request to make something, and refuses it. made: [(path, what was asked)]."""

    daemon_threads = True

    def __init__(self, path: Path):
        self.made: list[tuple[str, dict]] = []
        super().__init__(str(path), Asked)


class Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words) -> None:
        pass

    def address_string(self) -> str:
        return "a client"  # it has no address

    def answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        for name, value in (("Api-Version", "1.41"), ("OSType", "linux"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.answer(200, b"OK")

    def do_GET(self) -> None:
        self.answer(200, b"{}" if "_ping" not in self.path else b"OK")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.made.append((self.path, json.loads(content or b"null")))
        self.answer(500, b'{"message": "this is no daemon"}')


@pytest.fixture
def asked(tmp_path):
    """Calls the client; what it asked for."""
    with Daemon(tmp_path / "socket") as daemon:
        threading.Thread(target=daemon.serve_forever, args=(0.02,), daemon=True).start()

        def call(words: list[str], **environment: str) -> tuple[str, dict]:
            client = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}
            done = subprocess.run(
                [CLIENT, "-H", f"unix://{tmp_path}/socket", *words[1:]],
                env={**client, **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert "this is no daemon" in done.stderr, done.stderr
            (made,) = daemon.made
            return made

        yield call
        daemon.shutdown()


@pytest.fixture
def rank(tmp_path, monkeypatch):
    """The words of a rank, whose files lie where a test may write."""
    monkeypatch.setattr(container_run, "ENV_FILE", f"{tmp_path}/{{name}}.env")
    monkeypatch.setattr(container_run, "CID_FILE", f"{tmp_path}/{{name}}.cid")

    def words(baked=(), **more) -> list[str]:
        (tmp_path / "tandem-head.env").write_text(container_run.env_file(VARIABLES))
        how, here = (
            replace(HOW, gpu=True, rdma=True, **more),
            replace(HERE, gpu=("--runtime=nvidia", "--gpus=all")),
        )
        engine = ["serve", "--config", "/opt/tandem/current/engine.yaml"]
        return container_run.words(how, here, IMAGE, baked, VARIABLES, "tandem-head", engine)

    return words


def test_a_rank_is_made_as_it_is_meant(asked, rank):
    path, wish = asked(rank())
    host = wish["HostConfig"]
    assert path.endswith("/containers/create?name=tandem-head")
    assert (wish["Image"], wish["Entrypoint"], wish["Cmd"][0]) == (IMAGE, [HOW.command], "serve")
    assert (wish["User"], wish["StopSignal"], wish["StopTimeout"]) == (
        f"{HERE.uid}:{HERE.gid}",
        "SIGTERM",
        20,
    )
    assert (
        wish["Tty"] is False and wish["OpenStdin"] is False and wish["AttachStdout"] and wish["AttachStderr"]
    )
    assert (host["NetworkMode"], host["IpcMode"], host["Init"], host["AutoRemove"]) == (
        "host",
        "host",
        True,
        True,
    )
    assert host["RestartPolicy"]["Name"] == "no" and host["LogConfig"]["Type"] == "none"
    assert {each["Name"]: each["Hard"] for each in host["Ulimits"]} == {"memlock": -1, "stack": 64 << 20}
    assert host["Devices"][0]["PathOnHost"] == "/dev/infiniband"
    assert host["Runtime"] == "nvidia" and host["DeviceRequests"][0]["Count"] == -1
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["IPC_LOCK"])
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["OomScoreAdj"] == container_run.OOM_SCORE
    written = {each["Target"] for each in host["Mounts"] if not each.get("ReadOnly")}
    assert written == {HOW.cache, f"/tmp/torchinductor_{HOW.user}"}


def test_variables_arrive_as_they_are_and_an_author_s_are_taken_out(asked, rank):
    """To the daemon a name without a value is one that it takes out of the image's."""
    _path, wish = asked(rank(baked=["NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "PATH"]))
    assert sorted(wish["Env"]) == sorted(
        [*(f"{name}={VARIABLES[name]}" for name in VARIABLES), "NCCL_IB_GID_INDEX"]
    )


def test_the_python_of_an_image_gets_the_values_of_its_client(asked):
    given = {"HF_TOKEN": "secret", "LD_PRELOAD": "/opt/tandem/nccl/lib"}
    words = container_run.python_words(HOW, HERE, IMAGE, "python3", ["/srv/models"], given, ["-c", "pass"])
    assert not any("secret" in word for word in words)
    _path, wish = asked(words, HF_TOKEN="secret")
    assert sorted(wish["Env"]) == ["HF_TOKEN=secret", "LD_PRELOAD=/opt/tandem/nccl/lib"]
    assert wish["User"] == "0:0" and wish["OpenStdin"] is True and wish["Cmd"] == ["-c", "pass"]
