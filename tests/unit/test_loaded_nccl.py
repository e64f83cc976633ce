# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NCCL a process has in memory: a procfs written here, with files that hold what a library holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.filter.nccl import nccl_problems
from ansible_collections.tandem.spark.plugins.module_utils.loaded_nccl import (
    differences,
    judge,
    look,
    mapped_files,
    preload_problems,
    version_of,
)

SITE = "/opt/engine/lib/python3.12/site-packages"
OWN = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
NEWER = "/opt/tandem/nccl/abc/libnccl.so.2"
PLUGIN = "/opt/hpcx/lib/libnccl-net.so.0.0.0"


def elf(version: str | None) -> bytes:
    """The words stand in a library more than once, and only one of them is followed by a number."""
    words = b"built for NCCL version %s\x00on NCCL version info message\x00"
    number = f"NCCL version {version}+cuda13.2\x00".encode() if version else b""
    return b"\x7fELF" + bytes(4096) + words + number + bytes(64)


class Node:
    """A node's files under one folder; every process sees the same ones."""

    def __init__(self, root: Path):
        self.root = root
        (root / "proc").mkdir()

    def file(self, path: str, content: bytes = b"") -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def process(self, pid: int, *mapped: str, unit="tandem-head.service", preload: str | None = None) -> None:
        folder = self.root / "proc" / str(pid)
        folder.mkdir()
        (folder / "root").symlink_to(self.root)
        lines = ["55d0c0000000-55d0c0001000 r-xp 00000000 fd:01 12  /usr/bin/python3.12"]
        for number, path in enumerate(mapped):
            for part, rights in enumerate(("r--p", "r-xp", "rw-p")):
                lines.append(
                    f"7f{number:02d}0000{part}000-7f{number:02d}0000{part}fff {rights} 0 fd:01 99 {path}"
                )
        lines.append("7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]")
        (folder / "maps").write_text("\n".join(lines) + "\n")
        (folder / "comm").write_text("VLLM::Worker\n")
        (folder / "cgroup").write_text(f"0::/system.slice/{unit}\n")
        environ = ["PATH=/usr/bin", *([f"LD_PRELOAD={preload}"] if preload else [])]
        (folder / "environ").write_bytes("\0".join(environ).encode() + b"\0")

    def ids(self, **options) -> list[str]:
        minimum = options.pop("minimum", None)
        return sorted(note.id for note in judge(look(str(self.root), **options), minimum))


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    made.file(OWN, elf("2.28.9"))
    made.file(NEWER, elf("2.30.7"))
    return made


def test_what_is_mapped_counts_not_what_lies_there(node):
    node.process(10, OWN)
    node.process(11)
    seen = look(str(node.root))
    assert [process.pid for process in seen.processes] == [10]
    (library,) = seen.processes[0].libraries
    assert (library.path, library.version, library.size) == (OWN, "2.28.9", len(elf("2.28.9")))
    assert seen.versions == ["2.28.9"]


@pytest.mark.parametrize(
    ("mapped", "preload", "expected"),
    [
        ([NEWER], NEWER, []),
        ([OWN], None, ["nccl.version.old"]),
        ([OWN], "/opt/nowhere/libnccl.so.2", ["nccl.preload.missing", "nccl.version.old"]),
        ([OWN], NEWER, ["nccl.preload.unused", "nccl.version.old"]),
        ([], NEWER, ["nccl.preload.unused"]),
        ([NEWER], f"{NEWER} /usr/lib/libjemalloc.so.2", ["nccl.preload.missing"]),
        ([NEWER, "/usr/lib/libtcmalloc.so.4"], f"libtcmalloc.so.4:{NEWER}", []),
        ([NEWER], "libmimalloc.so", []),
        ([NEWER, OWN], NEWER, ["nccl.library.two", "nccl.version.old"]),
        ([NEWER + " (deleted)"], None, ["nccl.library.deleted"]),
        ([NEWER, PLUGIN], None, ["nccl.plugin.mapped"]),
        (["/usr/lib/libncclras.so", "/usr/lib/libnccl.so.2.old"], None, []),
        (["/opt/gone/libnccl.so.2"], None, ["nccl.library.unknown"]),
    ],
)
def test_findings(node, mapped, preload, expected):
    node.process(10, *mapped, preload=preload)
    assert node.ids(unit="tandem-head.service", minimum="2.30.4") == expected


def test_a_preload_through_a_link_is_the_file_behind_it(node):
    link = node.root / "opt/tandem/nccl/current.so"
    link.symlink_to("abc/libnccl.so.2")
    node.process(10, NEWER, preload="/opt/tandem/nccl/current.so")
    assert node.ids() == []


def test_only_the_unit_or_the_pids_asked_for(node):
    node.process(10, OWN, unit="tandem-head.service")
    node.process(11, NEWER, unit="other.service")
    node.process(12, unit="tandem-head.service")
    (node.root / "proc" / "13").mkdir()  # a kernel thread, or a process that just ended: no map

    def pids(**options):
        return [process.pid for process in look(str(node.root), **options).processes]

    assert pids() == [10, 11]
    assert pids(unit="tandem-head.service") == [10, 12]
    assert pids(pids=[11, 12, 13, 99]) == [11, 12]
    assert look(str(node.root), unit="tandem-head.service").unreadable == ()


def test_a_map_that_cannot_be_read_is_said(node):
    (node.root / "proc" / "14" / "maps").mkdir(parents=True)  # reading a folder fails, for root too
    assert node.ids(pids=[14]) == ["host.look.failed"]
    assert node.ids() == []


@pytest.mark.parametrize(
    ("path", "content", "version"),
    [
        ("/a/libnccl.so.2", elf("2.30.7"), "2.30.7"),
        ("/a/libnccl.so.2.30.4", elf(None), "2.30.4"),
        ("/a/libnccl.so.2.30.4", elf("2.30.5"), "2.30.5"),
        (OWN, elf(None), "2.29.3"),
        ("/a/libnccl.so.2", elf(None), None),
        ("/a/libnccl.so.2", b"", None),
    ],
)
def test_the_version_of_a_file(node, path, content, version):
    node.file(f"{SITE}/nvidia_nccl_cu13-2.29.3.dist-info/METADATA")
    node.file(path, content)
    assert version_of(str(node.root) + path) == (version, len(content))


def test_a_file_that_is_not_there_has_no_version(tmp_path):
    assert version_of(f"{tmp_path}/libnccl.so.2") == (None, None)


def test_lines_of_a_map():
    maps = "\n".join(
        [
            "7f00-7f01 r--p 0 fd:01 9 /opt/with space/libnccl.so.2",
            "7f01-7f02 r-xp 0 fd:01 9 /opt/with space/libnccl.so.2",
            "7f02-7f03 rw-p 00000000 00:00 0",
            "7f03-7f04 rw-p 00000000 00:00 0 [heap]",
            "garbage",
        ]
    )
    assert mapped_files(maps) == {"/opt/with space/libnccl.so.2": "7f00-7f01"}


def test_the_version_of_a_deleted_file_is_that_of_what_is_mapped(node):
    node.process(10, NEWER + " (deleted)")
    node.file("/proc/10/map_files/7f0000000000-7f0000000fff", elf("2.29.1"))
    (library,) = look(str(node.root)).processes[0].libraries
    assert (library.path, library.deleted, library.version) == (NEWER, True, "2.29.1")


def processes(*libraries: tuple[str | None, int]) -> list[dict]:
    return [
        {"libraries": [{"path": OWN, "version": version, "size": size} for version, size in libraries]},
        {"libraries": []},
    ]


@pytest.mark.parametrize(
    ("looks", "differs"),
    [
        ({"a": processes(("2.30.7", 9)), "b": processes(("2.30.7", 9))}, False),
        ({"a": processes(("2.30.7", 9)), "b": processes(("2.28.9", 9))}, True),
        ({"a": processes(("2.30.7", 9)), "b": processes(("2.30.7", 8))}, True),  # pip's and apt's build
        ({"a": processes(("2.30.7", 9)), "b": processes()}, True),
        ({"a": processes(("2.30.7", 9)), "b": processes((None, 9))}, True),
        ({"a": processes(), "b": processes()}, False),
        ({}, False),
    ],
)
def test_a_mixed_pair(looks, differs):
    notes = differences(looks)
    assert [note.id for note in notes] == (["nccl.version.mixed"] if differs else [])
    assert all(note.hosts == ("a", "b") for note in notes)


def result(node, pid: int, minimum: str | None = None) -> dict:
    """What nccl_info returns of one process."""
    seen = look(str(node.root), pids=[pid])
    return {
        "processes": [asdict(process) for process in seen.processes],
        "findings": [note.as_dict() for note in judge(seen, minimum)],
    }


def test_the_problems_of_a_group(node):
    node.process(10, OWN)
    node.process(11, NEWER)
    node.process(12)
    node.process(13, NEWER, PLUGIN)
    old, new, none, plugin = (result(node, pid, "2.30.4") for pid in (10, 11, 12, 13))
    assert nccl_problems({"a": new, "b": plugin}) == []
    assert [words.split(":")[0] for words in nccl_problems({"a": old, "b": new})] == [
        "a",
        "The ranks have different NCCL libraries",
    ]
    assert "b: no process has NCCL" in nccl_problems({"a": none, "b": none})[1]


def test_what_is_asked_before_a_rank_starts(node):
    node.process(10, NEWER, preload=NEWER)
    node.process(11, preload="/opt/nowhere/libnccl.so.2")
    node.process(12, preload=NEWER)
    node.process(13)
    said = {pid: preload_problems(str(node.root), pid) for pid in (10, 11, 12, 13)}
    assert said[10] == said[13] == []
    assert "/opt/nowhere/libnccl.so.2, which is not there" in said[11][0]
    assert "what is mapped is no NCCL at all" in said[12][0]
