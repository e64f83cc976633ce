# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever breaks in a pair that serves, it answers right again without an operator; what is no fault restarts nothing.

A scenario takes these tests over: `from faults_tests import *`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from hands import LAB_PROGRAM, lab, shell, wait_for
from recovery import API, FOUND_S, HEAD, OWN_S, UNITS, WORKER, guard, processes, ready, send, suffer, user

SOAK_S = int(os.environ.get("TANDEM_SOAK_S", "600"))
RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")


def came_back(told) -> None:
    assert told.wrong == 0, told
    assert told.own_s is None or told.own_s <= OWN_S, told


def cables(state: str) -> None:
    for rail in RAILS:
        lab("cable", WORKER, rail, state)


def test_a_worker_that_is_killed():
    came_back(suffer("worker killed (main process, SIGKILL)", lambda: send(WORKER, "vllm", "KILL")))


def test_a_worker_that_stands_still():
    told = suffer("worker stopped (rank process, SIGSTOP)", lambda: send(WORKER, "VLLM::Worker", "STOP"))
    came_back(told)
    assert "wedged" in told.reason and told.found_s <= FOUND_S, told


def test_a_cable_that_is_out_for_20_seconds():
    came_back(suffer("cable out for 20 s", lambda: cables("down"), lambda: cables("up"), 20, restarts=None))


def test_a_head_that_is_rebooted():
    came_back(suffer("head rebooted", lambda: lab("reboot", HEAD)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("node", "name", "what"),
    [
        (HEAD, "vllm", "head killed (API server, SIGKILL)"),
        (HEAD, "VLLM::EngineCor", "EngineCore killed (SIGKILL)"),
        (HEAD, "VLLM::Worker", "rank process of the head killed (SIGKILL)"),
        (WORKER, "VLLM::Worker", "rank process of the worker killed (SIGKILL)"),
    ],
)
def test_any_process_that_is_killed(node, name, what):
    came_back(suffer(what, lambda: send(node, name, "KILL")))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("VLLM::Worker", "rank process of the head stopped (SIGSTOP)"),
        ("VLLM::EngineCor", "EngineCore stopped (SIGSTOP)"),
    ],
)
def test_a_head_that_stands_still(name, what):
    told = suffer(what, lambda: send(HEAD, name, "STOP"))
    came_back(told)
    assert told.found_s <= FOUND_S, told


@pytest.mark.long
@pytest.mark.parametrize("node", [HEAD, WORKER])
def test_a_unit_that_an_operator_stops_and_starts(node):
    def stop() -> None:
        shell(node, f"systemctl stop {UNITS[node]}")
        wait_for("the other rank, which is stopped too", lambda: guard().get("state") == "off", 30, 1)

    def start() -> None:
        shell(node, f"systemctl start {UNITS[node]}")

    came_back(suffer(f"unit stopped by hand for 15 s ({UNITS[node]})", stop, start, 15))


@pytest.mark.long
@pytest.mark.parametrize(
    ("node", "what", "seconds"), [(HEAD, "head", 10), (WORKER, "worker", 10), (WORKER, "worker", 60)]
)
def test_a_node_that_loses_power(node, what, seconds):
    off, on = (lambda: lab("off", node)), (lambda: lab("on", node))
    came_back(suffer(f"power of the {what}'s node out for {seconds} s", off, on, seconds))


@pytest.mark.long
def test_both_nodes_lose_power():
    def power(state: str) -> None:
        for node in (HEAD, WORKER):
            lab(state, node)

    came_back(suffer("power of both nodes out for 10 s", lambda: power("off"), lambda: power("on"), 10))


@pytest.mark.long
def test_a_cable_that_is_out_for_longer_than_every_time_out():
    came_back(suffer("cable out for 150 s", lambda: cables("down"), lambda: cables("up"), 150))


FULL = """mkdir -p /run/full && cp -a /var/lib/tandem/. /run/full
mount -t tmpfs -o size=2m,mode=755 full /var/lib/tandem && cp -a /run/full/. /var/lib/tandem && rm -r /run/full
dd if=/dev/zero of=/var/lib/tandem/filler bs=4k 2>/dev/null || true"""


@pytest.mark.long
def test_a_disk_that_is_full():
    def begin() -> None:
        shell(HEAD, FULL)
        send(WORKER, "vllm", "KILL")

    try:
        came_back(suffer("disk full at the head, worker killed", begin))
    finally:
        shell(HEAD, "umount --lazy /var/lib/tandem; systemctl restart tandem-guard")


DROP_IN = "/run/systemd/system/tandem-guard.service.d"
# The wall clock of one process, moved while it runs. libfaketime cannot leave the monotonic one alone: its sleep fails.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int ended = real(id, now);
    FILE *file = id == CLOCK_REALTIME ? fopen("/run/clock-offset", "r") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
        fclose(file);
    }
    return ended;
}
"""
MOVED = f"""echo 0 > /run/clock-offset
printf '%s' "$0" > /opt/clock.c && gcc -shared -fPIC -o /opt/clock.so /opt/clock.c -ldl
mkdir -p {DROP_IN} && printf '[Service]\\nEnvironment=LD_PRELOAD=/opt/clock.so\\n' > {DROP_IN}/clock.conf
systemctl daemon-reload; systemctl restart tandem-guard"""


@pytest.mark.long
@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_jumps(hours):
    """The nodes share one clock, so the guard of the head alone is given another one."""
    wait_for("a pair that serves", ready, 300)
    epoch = guard()["epoch"]
    lab("exec", HEAD, "--", "sh", "-ec", MOVED, CLOCK)
    try:
        wait_for("the guard under its own clock", ready, 30, 1)
        before = guard()["at"]
        shell(HEAD, f"echo {hours * 3600} > /run/clock-offset")
        time.sleep(20)
        jumped = guard()
        assert (jumped["at"] > before) == (hours > 0) and jumped["at"][:13] != before[:13]
        assert jumped["epoch"] == epoch and ready()
        what = f"clock of the head's guard moved by {hours:+} hours, worker killed"
        came_back(suffer(what, lambda: send(WORKER, "vllm", "KILL")))
    finally:
        shell(HEAD, f"rm -r {DROP_IN}; systemctl daemon-reload; systemctl restart tandem-guard")


@pytest.mark.long
def test_an_environment_that_cannot_be_written():
    """The rank refuses to start, and says why, until it can."""

    def begin() -> None:
        shell(WORKER, "rm -f /run/tandem/fabric.env; mkdir -p /run/tandem/fabric.env/taken")
        send(WORKER, "vllm", "KILL")

    def end() -> None:
        shell(WORKER, "rm -r /run/tandem/fabric.env")

    came_back(suffer("fabric.env not writable for 40 s, worker killed", begin, end, 40))


@pytest.mark.long
def test_a_rank_and_a_guard_at_once():
    def begin() -> None:
        shell(HEAD, "systemctl kill --signal=SIGKILL tandem-guard")
        send(WORKER, "vllm", "KILL")

    came_back(suffer("worker and the head's guard killed", begin))


@pytest.mark.long
def test_two_ranks_at_once():
    def begin() -> None:
        send(WORKER, "VLLM::Worker", "STOP")
        send(HEAD, "vllm", "KILL")

    came_back(suffer("worker stopped (SIGSTOP) and head killed", begin))


@pytest.mark.long
def test_guards_that_are_killed_take_what_runs():
    wait_for("a pair that serves", ready, 300)
    epoch = guard()["epoch"]
    for node in (HEAD, WORKER):
        shell(node, "systemctl kill --signal=SIGKILL tandem-guard")
    time.sleep(15)
    assert guard()["epoch"] == epoch and ready()


@pytest.mark.long
def test_more_requests_than_seats_are_no_fault():
    """For ten minutes, or as long as a soak is wanted."""
    wait_for("a pair that serves", ready, 300)
    epoch = guard()["epoch"]
    with user(streams=8) as many:
        time.sleep(SOAK_S)
        health, answers = many.health(), many.answers()
    assert guard()["epoch"] == epoch
    assert len(answers) > 50 and not [each for each in answers if not each["right"]]
    assert {each["status"] for each in health} == {200}, {each["state"] for each in health}


PREFILL = """
import json, sys, urllib.request
api = sys.argv[1]
longest = json.load(urllib.request.urlopen(f"{api}/v1/models"))["data"][0]["max_model_len"]
body = {"model": "deepseek-v4-flash", "prompt": [5] * (longest - 8), "max_tokens": 4, "temperature": 0}
kind = {"Content-Type": "application/json"}
request = urllib.request.Request(f"{api}/v1/completions", json.dumps(body).encode(), kind)
print(json.load(urllib.request.urlopen(request, timeout=900))["usage"]["prompt_tokens"], longest)
"""


@pytest.mark.long
def test_the_longest_prefills_are_no_fault():
    """As long as the model's context, and as many at once as there are seats."""
    wait_for("a pair that serves", ready, 300)
    epoch, began = guard()["epoch"], time.time()
    words = [sys.executable, str(LAB_PROGRAM), "client", "--", "python3", "-c", PREFILL, API]
    many = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _seat in range(4)]
    told = [one.communicate()[0].split() for one in many]
    print(f"\n{len(many)} prefills of {told[0][0]} tokens in {time.time() - began:.0f} s")
    assert all(int(prompt) == int(longest) - 8 for prompt, longest in told)
    wait_for("a right answer", ready, 60)
    assert guard()["epoch"] == epoch


SPENT = "cd /proc/$(systemctl show -p MainPID --value tandem-guard) && grep VmRSS status && cut -d' ' -f14,15 stat"


def spent(node: str) -> tuple[float, int]:
    """(MiB resident, ticks of a core so far) of a guard."""
    words = shell(node, SPENT).split()
    return int(words[1]) / 1024, sum(map(int, words[3:]))


def test_a_guard_is_small():
    """In a minute in which nothing happens.

    A core that others use as well takes longer for the same, so the best of three minutes counts.
    """
    wait_for("a pair that serves", ready, 300)
    small: set[str] = set()
    for _minute in range(3):
        before = {node: spent(node) for node in (HEAD, WORKER)}
        time.sleep(60)
        for node, (_mib, ticks_before) in before.items():
            rss_mib, ticks = spent(node)
            share = (ticks - ticks_before) / os.sysconf("SC_CLK_TCK") / 60
            print(f"\nguard on {node}: {rss_mib:.1f} MiB resident, {share:.2%} of a core")
            if rss_mib <= 25 and share <= 0.005:
                small.add(node)
        if small == {HEAD, WORKER}:
            return
    assert small == {HEAD, WORKER}


@pytest.mark.long
def test_a_cold_compile_on_one_rank_is_no_fault():
    """A rank that stands still while a compiler runs beside it, for longer than a wedge takes to be found."""
    wait_for("a pair that serves", ready, 300)
    epoch = guard()["epoch"]
    pid = processes(WORKER, "VLLM::Worker")[0]
    shell(WORKER, "cp /bin/sleep /opt/cicc && systemd-run --unit=compiler /opt/cicc 100")
    shell(WORKER, f"kill -STOP {pid}")
    try:
        time.sleep(90)
    finally:
        shell(WORKER, f"kill -CONT {pid}; systemctl stop compiler; rm /opt/cicc", check=False)
    wait_for("a right answer", ready, 60)
    assert guard()["epoch"] == epoch
