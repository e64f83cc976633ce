# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll-out that is cut off, by its controller or by its cable, leaves nothing that the next run does not finish."""

from __future__ import annotations

import json
import re

import pytest
from running import Running, another_release, history, released

from conftest import NODES, UNITS, ask, lab, shell, site

RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")
# What is printed when a phase has begun.
PHASES = {
    "plan": "TASK [tandem.spark.profile : Make one plan",
    "stage": "TASK [tandem.spark.engine : Write the release",
    "stop": ": stopped (",
    "start": ": started (",
    "boot": "waiting for the other rank",
    "warm-up": ": burst: ",
    "proof": "TASK [Prove it]",
    "commit": "TASK [tandem.spark.engine : Remember it on every rank]",
}


@pytest.mark.long
@pytest.mark.parametrize("phase", PHASES)
def test_a_controller_that_dies_leaves_nothing_half_active(phase):
    wanted = another_release(f"killed in {phase}")
    run = Running(*wanted)
    run.read_until(PHASES[phase])
    run.kill()
    again = site(*wanted)
    assert again.code == 0, again.text
    assert "PROVEN" in again.text and "391" in ask()
    # Killed late enough, the first run has done all but say so, and nothing is down any more.
    if told := re.search(r"Down for .*", again.text):
        print(f"\n{told.group()}")
    assert told or phase == "commit"
    (digest,) = {digest for node in NODES for digest in released(node).values()}
    assert {history(node)[0] for node in NODES} == {("rollout", digest, "proven")}
    quiet = site(*wanted)
    assert quiet.code == 0 and quiet.changed == dict.fromkeys(NODES, 0), quiet.text


def plug(state: str) -> None:
    for rail in RAILS:
        lab("cable", NODES[1], rail, state)


@pytest.mark.long
def test_a_link_lost_in_the_middle_leaves_the_release_unproven_and_the_next_run_succeeds():
    # A stall is noticed by the warm-up; two minutes of patience would only make the test longer.
    wanted = another_release("link lost", warm_up={"stall_s": 20})
    run = Running(*wanted)
    try:
        run.read_until(": ramp: ")
        plug("down")
        lost = run.finish()
    finally:
        plug("up")
    assert lost.code != 0
    assert "is unproven: " in lost.text and "failed too: " in lost.text, lost.text
    assert "All ranks are stopped and nothing serves" in lost.text
    assert "start.yml brings back the one proven last" in " ".join(lost.text.split())
    for node in NODES:
        assert shell(node, f"systemctl is-active {UNITS[node]}", check=False) == "inactive"
    assert {history(node)[0][::2] for node in NODES} == {("rollout", "unproven")}
    again = site(*wanted)
    assert again.code == 0 and "391" in ask(), again.text
    assert {history(node)[0][::2] for node in NODES} == {("rollout", "proven")}


@pytest.mark.long
def test_a_first_install_of_a_bad_release_ends_stopped():
    remembered = "/var/lib/tandem/applied /var/lib/tandem/proofs"
    for node in NODES:
        shell(node, f"mkdir /root/aside && mv {remembered} /root/aside && mkdir /var/lib/tandem/proofs")
    try:
        run = site("-e", "tandem_checkpoint_path=/srv/models/lab-count")
        assert run.code != 0
        assert "No other release was proven on every rank. All ranks are stopped" in " ".join(
            run.text.split()
        )
        for node in NODES:
            assert shell(node, f"systemctl is-active {UNITS[node]}", check=False) == "inactive"
    finally:
        for node in NODES:
            shell(
                node, "rm -rf /var/lib/tandem/proofs && mv /root/aside/* /var/lib/tandem && rmdir /root/aside"
            )


@pytest.mark.long
def test_another_boot_wants_another_proof_and_one_that_fails_flips_nothing():
    """As after an upgrade of kernel or driver: the release is the same, what it runs on is not."""
    assert site().code == 0
    before = {node: released(node) for node in NODES}
    other = "sed 's/$/ tandem.rehearsal=1/' /proc/cmdline > /run/cmdline && mount --bind /run/cmdline /proc/cmdline"
    for node in NODES:
        shell(node, other)
    try:
        # What the proof asks for is not of the release's content, so this is the same release, with a draft too good.
        demanding = {"tandem_profile_overrides": {"proof": {"draft": {"min_acceptance": 0.99}}}}
        run = site("-e", json.dumps(demanding))
        said = " ".join(run.text.split())
        assert run.code != 0
        assert "What runs could not be proved" in said, run.text
        assert f"On {NODES[0]} this very release was proven with other boot options" in said, run.text
        assert "All ranks are stopped and nothing serves" in said
        assert {node: released(node) for node in NODES} == before
        refused = site("-e", json.dumps(demanding))
        assert refused.code != 0 and "was rejected before" in refused.text, refused.text
    finally:
        for node in NODES:
            shell(node, "umount /proc/cmdline")


@pytest.mark.long
def test_the_pair_is_brought_back_to_what_the_inventory_wants():
    run = site()
    assert run.code == 0 and "391" in ask(), run.text
