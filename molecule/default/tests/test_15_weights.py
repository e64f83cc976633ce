# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights that no rank has: downloaded to the head from a hub, copied over the rails, served; damage mends itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import LAB_PROGRAM, NODES, PROJECT, ask, shell, site

HEAD, WORKER = NODES
REPOSITORY, REVISION = "lab/arithmetic", "5" * 40
PORT = 8899
URL = f"http://192.168.50.1:{PORT}"  # the client's place in the management network
FOLDER = "/srv/models/fetched"
WANTED = {
    "tandem_checkpoint_path": FOLDER,
    "tandem_checkpoint_source": "hub",
    "tandem_checkpoint_endpoint": URL,
    "tandem_profile_overrides": {"checkpoint": {"repository": REPOSITORY, "revision": REVISION}},
}
SHARD = "model.safetensors"


pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def hub(tmp_path_factory):
    """The lab's own checkpoint, given as the hub gives one. Afterwards the pair serves what it served before."""
    folder = tmp_path_factory.mktemp("hub") / "lab"
    subprocess.run([sys.executable, str(PROJECT / "molecule/lab/make_lab_model.py"), str(folder)], check=True)
    program = [
        str(PROJECT / "tests/unit/pretend_hub.py"),
        str(folder),
        REPOSITORY,
        REVISION,
        "192.168.50.1",
        str(PORT),
    ]
    server = subprocess.Popen(
        [sys.executable, str(LAB_PROGRAM), "client", "--", sys.executable, *program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stdout.readline().strip() == URL
    yield folder
    os.killpg(server.pid, signal.SIGTERM)
    server.wait()
    back = site()
    for node in NODES:
        shell(node, f"rm -rf {FOLDER}")
    assert back.code == 0, back.text


def wanted(**more) -> tuple[str, str]:
    return "-e", json.dumps({**WANTED, **more})


def sums(node: str) -> str:
    return shell(
        node,
        f"cd {FOLDER} && find . -type f ! -path './.tandem-incoming/*' ! -name .tandem-verified.json"
        " -exec sha256sum {} + | sort",
    )


def test_nothing_is_downloaded_unasked():
    run = site(*wanted(tandem_checkpoint_source=""))
    assert run.code != 0 and f"{FOLDER} holds no config.json" in " ".join(run.text.split()), run.text
    for node in NODES:
        assert shell(node, f"ls -A {FOLDER} 2>/dev/null", check=False) == ""


def test_the_head_downloads_and_the_other_rank_takes_them_over_the_rails(hub):
    begun = time.monotonic()
    run = site(*wanted())
    assert run.code == 0 and "PROVEN" in run.text and "391" in ask(), run.text
    assert f"{HEAD}: asking {URL} what belongs to the weights" in run.text
    assert f"{WORKER}: asking {HEAD} what belongs to the weights" in run.text
    print(f"\nfrom nothing to an answer in {time.monotonic() - begun:.0f} s")
    assert sums(HEAD) == sums(WORKER) and f"./{SHARD}" in sums(HEAD)
    manifest = json.loads(shell(WORKER, f"cat {FOLDER}/.tandem-manifest.json"))
    assert (manifest["repository"], manifest["revision"]) == (REPOSITORY, REVISION)
    for node in NODES:
        assert shell(node, "pgrep -f tandem.hub_client", check=False) == ""
    quiet = site(*wanted())
    assert quiet.code == 0 and quiet.changed == dict.fromkeys(NODES, 0), quiet.text


def test_a_damaged_file_comes_from_the_other_rank_and_nothing_is_restarted():
    before = sums(HEAD)
    started = shell(WORKER, "systemctl show -p InvocationID tandem-worker")
    shell(WORKER, f"printf x | dd of={FOLDER}/{SHARD} bs=1 seek=100000 conv=notrunc status=none")
    assert sums(WORKER) != before
    run = site(*wanted(tandem_checkpoint_verify="sha256"))
    assert run.code == 0 and run.changed == {HEAD: 0, WORKER: 1}, run.text
    assert sums(WORKER) == before == sums(HEAD)
    assert shell(WORKER, "systemctl show -p InvocationID tandem-worker") == started and "391" in ask()


def test_a_giver_ends_by_itself():
    until = time.monotonic() + 150
    while time.monotonic() < until:
        if all(not shell(node, "pgrep -f tandem.checkpoint_giver", check=False) for node in NODES):
            return
        time.sleep(5)
    raise AssertionError("a process still offers weights")
