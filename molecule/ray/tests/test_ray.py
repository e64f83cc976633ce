# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pair from its own start to a cluster of Ray and back, with real Ray processes on two nodes. The order counts.

vLLM's build for CPUs runs over no Ray. Two words of it are changed on the nodes from the third test on: it says a
device of Ray's, and its ranks do not take each other for processes of one node.
"""

from __future__ import annotations

import re

from hands import NODES, Run, ask, play, shell
from machine import OWN
from recovery import HEAD, UNITS, WORKER, processes, suffer

OVER_RAY = ("-e", "tandem_profile=lab-ray")
PYTHON = "/opt/tandem/current/runtime/bin/python"
# Whatever is left of a cluster: processes, what listens besides ours, shared memory of the engine's account.
LEFT = r"""
ps -eo user:12,comm | awk '$2 ~ /^(ray|raylet|gcs_server|ray::|dashboard|runtime_env|log_monitor)/'
find /dev/shm -user tandem -name '*plasma*'
"""
VLLM_LINE = re.compile(r"(?m)\b(INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d")
# In platforms/cpu.py and v1/worker/cpu_worker.py of vLLM 0.32.0.
WORDS = r"""set -e
cd /opt/tandem/runtime/*/lib/python3.11/site-packages/vllm
sed -i 's/^    device_type: str = "cpu"$/&\n    ray_device_key: str = "GPU"/' platforms/cpu.py
sed -i 's/else init_method.split(":")\[-1\]$/& + os.uname().nodename/' v1/worker/cpu_worker.py
grep -c 'ray_device_key: str = "GPU"' platforms/cpu.py
grep -c 'os.uname().nodename' v1/worker/cpu_worker.py
"""
# What the head would give every rank of its own variables, asked of vLLM itself.
CARRIED = """from vllm.v1.executor.ray_env_utils import get_driver_env_vars
print('CARRIED', ' '.join(get_driver_env_vars(worker_specific_vars=set())))"""
PER_NODE = "NCCL_IB_GID_INDEX=3 NCCL_IB_HCA=one NCCL_SOCKET_IFNAME=two GLOO_SOCKET_IFNAME=two"


def site(*words: str) -> Run:
    return play("site.yml", "-i", str(OWN), *words)


def current(node: str) -> str:
    return shell(node, "basename $(readlink /opt/tandem/current)")


def rank(node: str) -> list[int]:
    """The process that computes: Ray's name for it, or vLLM's once it is up."""
    return [*processes(node, "ray::RayWorker"), *processes(node, "VLLM::Worker")]


def nothing_is_left_of_ray() -> None:
    assert {node: shell(node, LEFT, check=False) for node in NODES} == dict.fromkeys(NODES, "")


def test_a_build_that_runs_over_no_ray_says_so_and_the_pair_is_as_before():
    before = {node: current(node) for node in NODES}
    run = site(*OVER_RAY)
    assert run.code != 0 and "engine.ray.platform" in run.text, run.text
    assert "is back and proved again" in run.text, run.text
    assert {node: current(node) for node in NODES} == before
    assert "391" in ask()
    nothing_is_left_of_ray()


def test_ray_itself_was_up_on_both_nodes_when_it_was_refused():
    """Both units held their Ray, and what it printed is in their journals."""
    for node in NODES:
        said = shell(node, f"journalctl --no-pager -o cat -u {UNITS[node]}")
        assert "Ray runtime started" in said, said[-3000:]


def test_the_pair_serves_over_ray_with_two_words_changed():
    for node in NODES:
        assert shell(node, WORDS).split() == ["1", "1"]
    run = site(*OVER_RAY, "-e", "tandem_retry_rejected=true")
    assert run.code == 0 and "PROVEN" in run.text, run.text
    assert "391" in ask()
    for node in NODES:
        assert "/opt/tandem/bin/tandem ray" in shell(node, f"systemctl cat {UNITS[node]}")
        # All of a rank is in its unit, and nowhere else.
        assert processes(node, "raylet") and rank(node)
        assert shell(node, "pgrep -c -x raylet") == "1"
    assert shell(WORKER, "pgrep -c -x gcs_server || true") == "0"
    again = site(*OVER_RAY)
    assert again.code == 0 and again.changed == dict.fromkeys(NODES, 0), again.text


def test_a_worker_s_lines_are_in_its_own_journal():
    since = shell(WORKER, f"systemctl show -P ActiveEnterTimestamp {UNITS[WORKER]}")
    said = shell(WORKER, f"journalctl --no-pager -o cat -u {UNITS[WORKER]} --since '{since}'")
    assert VLLM_LINE.search(said), said[-3000:]


def test_the_cluster_is_on_the_rails_and_has_two_nodes():
    head = shell(HEAD, ". /run/tandem/fabric.env; echo $TANDEM_MASTER_ADDR:$TANDEM_MASTER_PORT")
    told = shell(HEAD, f"RAY_ADDRESS={head} /opt/tandem/current/runtime/bin/ray status 2>&1")
    assert told.count("node_") == 2 and "2.0/2.0 GPU" in told, told
    assert head.startswith("192.168.177."), head


def test_variables_of_one_node_are_not_handed_to_the_others():
    """Asked of vLLM with the release's folder, and with none, where it would hand them on."""

    def carried(root: str) -> set[str]:
        script = f'cd / && {PER_NODE} VLLM_CONFIG_ROOT={root} {PYTHON} -c "{CARRIED}" 2>/dev/null'
        (line,) = [each for each in shell(HEAD, script).splitlines() if each.startswith("CARRIED ")]
        return set(line.split()[1:])

    names = {pair.partition("=")[0] for pair in PER_NODE.split()}
    assert not names & carried("/opt/tandem/current/vllm")
    assert names <= carried("/nonexistent")


def test_a_ray_that_is_killed_on_the_worker():
    told = suffer("Ray: raylet of the worker killed (SIGKILL)", lambda: kill(processes(WORKER, "raylet")))
    assert told.wrong == 0, told


def test_a_rank_that_is_killed_on_the_worker():
    told = suffer("Ray: rank process of the worker killed (SIGKILL)", lambda: kill(rank(WORKER)))
    assert told.wrong == 0, told


def kill(pids: list[int]) -> None:
    assert pids
    shell(WORKER, f"kill -KILL {pids[0]}")


def test_back_to_the_start_without_ray_and_nothing_of_it_is_left():
    run = site()
    assert run.code == 0 and "PROVEN" in run.text, run.text
    assert "391" in ask()
    nothing_is_left_of_ray()
