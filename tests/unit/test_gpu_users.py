# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the GPU's memory: what is left of dead engines, and other programs."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import gpu_users
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from sysfs_tree import put


def write_process(
    proc, pid, comm, parent, title="", state="S (sleeping)", rss_kib=106_000_000, unit="x.service"
):
    put(proc / str(pid) / "comm", comm)
    put(proc / str(pid) / "cgroup", f"0::/system.slice/{unit}")
    put(proc / str(pid) / "cmdline", title)
    parts = [f"Name:\t{comm}", f"State:\t{state}", f"PPid:\t{parent}", f"VmRSS:\t{rss_kib:>9} kB"]
    put(proc / str(pid) / "status", "\n".join(parts))


CORE = {"comm": "VLLM::EngineCor", "title": "VLLM::EngineCore\0"}
WORKER = {"comm": "VLLM::Worker_TP", "title": "VLLM::Worker_TP0\0"}
SERVER = {"comm": "vllm", "title": "python\0vllm\0serve\0"}


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        # A healthy rank, on the host and in a container with an init of its own.
        ([(10, 1, SERVER), (11, 10, CORE), (12, 11, WORKER)], []),
        ([(9, 8, {"comm": "tini"}), (10, 9, SERVER), (11, 10, CORE), (12, 11, WORKER)], []),
        # The server was killed: init, a user's systemd or the container's init took the rest over.
        ([(11, 1, CORE)], [11]),
        ([(11, 1, CORE), (12, 11, WORKER)], [11, 12]),
        ([(900, 1, {"comm": "systemd"}), (11, 900, CORE)], [11]),
        ([(9, 8, {"comm": "tini"}), (11, 9, CORE)], [11]),
        ([(9, 8, {"comm": "containerd-shim"}), (11, 9, CORE)], [11]),
        ([(11, 10, CORE)], [11]),
        ([(10, 1, {**SERVER, "state": "Z (zombie)"}), (11, 10, CORE)], [11]),
        # Dead already, or no engine at all.
        ([(11, 1, {**CORE, "state": "Z (zombie)"})], []),
        ([(11, 1, {"comm": "python3", "title": "grep\0VLLM::EngineCore\0"})], []),
        # The title is cut where only comm can be read.
        ([(11, 1, {"comm": "VLLM::EngineCor"})], [11]),
        # A ring of parents cannot be; it ends all the same.
        ([(11, 12, CORE), (12, 11, WORKER)], []),
    ],
)
def test_orphans(tmp_path, processes, expected):
    for pid, parent, rest in processes:
        write_process(tmp_path, pid, parent=parent, **rest)
    assert [each.pid for each in gpu_users.orphans(Tree(str(tmp_path)))] == expected


def test_an_orphan_says_what_it_holds(tmp_path):
    write_process(tmp_path, 4711, parent=1, unit="docker-0.scope", rss_kib=3 << 20, **CORE)
    (found,) = gpu_users.orphans(Tree(str(tmp_path)))
    assert found == gpu_users.Orphan(4711, "VLLM::EngineCore", "docker-0.scope", 3.0)
    on_gpu = {"pid": 4711, "name": "VLLM::EngineCore", "memory_mib": 104277, "unit": "x", "user": "root"}
    (note,) = gpu_users.gpu_findings([on_gpu], [found])
    assert (note.id, note.severity) == ("memory.gpu.orphan", "error")
    assert "pid 4711" in note.summary and "104277 MiB" in note.summary and "kill 4711" in note.remedy
    (note,) = gpu_users.gpu_findings([], [found])
    assert "3.0 GiB" in note.summary


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        ({"pid": 5, "name": "VLLM::EngineCore", "memory_mib": 9, "unit": "tandem-head.service"}, None),
        (
            {"pid": 5, "name": "ollama", "memory_mib": 900, "unit": "ollama.service", "user": "o"},
            "ollama.service",
        ),
        (
            {"pid": 5, "name": "python3", "memory_mib": None, "unit": None, "user": "ann"},
            "of ann",
        ),
        ({"pid": 5, "name": "python3"}, "an unknown owner"),
    ],
)
def test_foreign_users_of_the_gpu(process, expected):
    notes = gpu_users.gpu_findings([process])
    assert [each.id for each in notes] == (["plan.gpu.taken"] if expected else [])
    assert all(expected in each.summary and "pid 5" in each.summary for each in notes)


@pytest.mark.parametrize("status", ["", "\0\x01", "PPid:\tx", "State:\tS\nPPid:\t", "PPid:\t99999999999999"])
def test_a_broken_procfs_accuses_nobody(tmp_path, status):
    put(tmp_path / "11/comm", "VLLM::EngineCor")
    put(tmp_path / "11/status", status)
    put(tmp_path / "12", "no folder")
    (tmp_path / "13").mkdir()
    assert gpu_users.orphans(Tree(str(tmp_path))) == ()
    assert gpu_users.orphans(Tree(str(tmp_path / "absent"))) == ()
