# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens, who computes, and what one look at a node gives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import commands, gpu, listeners, node, processes
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from sysfs_tree import put, write_tree

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def word(address: str) -> str:
    """One 32-bit word as the kernel of this machine prints it."""
    return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"


def line(address: str, port: int, state: str, inode: int, uid: int = 0) -> str:
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 0:0 00:0 0 {uid:5d} 0 {inode} 1 0 100 0\n"


def write_process(proc: Path, pid: int, comm: str, cgroup: str, inodes=(), environ="", parent=1) -> None:
    put(proc / str(pid) / "comm", comm)
    put(proc / str(pid) / "cgroup", cgroup)
    put(proc / str(pid) / "environ", environ)
    put(proc / str(pid) / "status", f"Name:\t{comm}\nPid:\t{pid}\nPPid:\t{parent}")
    (proc / str(pid) / "fd").mkdir()
    for number, inode in enumerate(inodes):
        (proc / str(pid) / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


def test_listeners_with_their_owners(tmp_path):
    tcp = HEADER + line(word("0.0.0.0"), 8888, "0A", 11) + line(word("127.0.0.1"), 25000, "01", 12)
    put(
        tmp_path / "net/tcp",
        tcp
        + "junk\n"
        + line("XYZ", 1, "0A", 13)
        + line(word("10.0.0.1"), 22, "0A", 14)
        + line("-0000001", 1, "0A", 16),
    )
    put(tmp_path / "net/tcp6", HEADER + line("0" * 32, 8888, "0A", 15))
    write_process(tmp_path, 4242, "python3", "0::/system.slice/tandem-head.service", [99, 11, 15])
    found = listeners.read_listeners(str(tmp_path))
    assert [
        (each.protocol, each.address, each.port, each.pid, each.process, each.unit) for each in found
    ] == [
        ("tcp", "10.0.0.1", 22, None, None, None),
        ("tcp", "0.0.0.0", 8888, 4242, "python3", "tandem-head.service"),
        ("tcp6", "::", 8888, 4242, "python3", "tandem-head.service"),
    ]
    assert {each.user for each in found} == {"root"}


def test_a_live_socket_is_found():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        port = own.getsockname()[1]
        mine = [each for each in listeners.read_listeners() if each.port == port]
    assert [(each.address, each.pid) for each in mine] == [("127.0.0.1", os.getpid())]


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/tandem-head.service", "tandem-head.service"),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/x.scope/y", "x.scope"),
        ("12:cpu:/\n1:name=systemd:/system.slice/ssh.service\n0::/\n", "ssh.service"),
        ("9:memory:/system.slice/other.service\n0::/\n", None),
        ("0::/../../init.scope", "init.scope"),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_unit_of_a_cgroup(cgroup, unit):
    assert processes.unit_of(cgroup) == unit


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("A=1\0SSH_CONNECTION=192.168.50.1 4711 192.168.50.11 22\0B=2", ("192.168.50.1", "192.168.50.11")),
        ("SSH_CONNECTION=fe80::1%eth0 4711 fe80::2%eth0 22", ("fe80::1", "fe80::2")),
        ("XSSH_CONNECTION=1 2 3 4", None),
        ("SSH_CONNECTION=", None),
    ],
)
def test_the_ssh_session_is_found_above_sudo(tmp_path, environ, expected):
    write_process(tmp_path, 10, "sshd", "", environ=environ)
    write_process(tmp_path, 11, "sudo", "", parent=10)
    write_process(tmp_path, 12, "python3", "", parent=11)
    assert processes.ssh_connection(Tree(str(tmp_path)), 12) == expected
    assert processes.ssh_connection(Tree(str(tmp_path)), 99) is None


SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.173.02             Driver Version: 580.173.02     CUDA Version: 13.0     |
|=========================================+========================+======================|
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   42C    P0             12W /  N/A  | Not Supported          |     96%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            2211      G   /usr/lib/xorg/Xorg                       43MiB |
|    0   N/A  N/A            4242      C   VLLM::EngineCore                     104277MiB |
|    0   N/A  N/A            4300    C+G   /usr/bin/python3 -m thing                 N/A |
+-----------------------------------------------------------------------------------------+
"""


def test_nvidia_smi():
    found = gpu.read_nvidia_smi(SMI)
    assert (found.driver, found.cuda) == ("580.173.02", "13.0")
    assert found.devices == (gpu.Device(0, "NVIDIA GB10", "0000000F:01:00.0", 42, "P0", 12, 96),)
    assert found.processes == (
        gpu.Process(4242, "VLLM::EngineCore", 104277),
        gpu.Process(4300, "/usr/bin/python3 -m thing", None),
    )


def test_a_card_with_memory_of_its_own():
    text = SMI.replace("| Not Supported          |", "|   1024MiB /  81559MiB  |").replace(
        "12W /  N/A", "72W / 350W"
    )
    device = gpu.read_nvidia_smi(text).devices[0]
    assert (device.power_w, device.memory_used_mib, device.memory_total_mib) == (72, 1024, 81559)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "NVIDIA-SMI has failed because it couldn't communicate\n",
        "\0\xff|" * 50,
    ],
)
def test_no_gpu(text):
    assert gpu.read_nvidia_smi(text) == gpu.Gpus(None, None, (), ())


STATUS = """\
Package: iproute2
Status: install ok installed
Version: 1

Package: linux-image-6.17
Status: hold ok installed

Package: iputils-ping
Status: deinstall ok config-files

Package: bash
Essential: yes
Status: install ok installed
"""


def copy_of_a_node(root: Path) -> str:
    write_tree(root / "sys", "rocep1s0f0 enp1s0f0np0\n  3 10.9.0.1 v2\n")
    put(root / "etc/hostname", "spark-a")
    put(root / "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"\njunk "\n')
    put(root / "proc/meminfo", "MemTotal:       127600000 kB\nMemAvailable:   117440512 kB")
    put(root / "proc/sys/kernel/osrelease", "6.17.0-1026-nvidia")
    put(root / "proc/net/tcp", HEADER + line(word("0.0.0.0"), 8888, "0A", 11))
    put(root / "var/lib/dpkg/status", STATUS)
    put(root / "etc/netplan/50.yaml", "network:\n  renderer: networkd\n")
    put(root / "usr/sbin/netplan", "")
    return str(root)


def test_a_copy_of_a_node_is_read_without_commands(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "ask", lambda *_: pytest.fail("a command ran"))
    question = node.Question(
        root=copy_of_a_node(tmp_path), packages=("iproute2", "iputils-ping", "linux-image-6.17", "bash")
    )
    found, notes = node.look(question)
    assert (found["hostname"], found["kernel"]) == ("spark-a", "6.17.0-1026-nvidia")
    assert found["os"] == {"id": "ubuntu", "version_id": "24.04", "pretty": "Ubuntu 24.04 LTS"}
    assert found["memory"] == {"total_gib": 121.69, "available_gib": 112.0}
    assert found["network"]["backend"] == "netplan-networkd"
    assert [link["name"] for link in found["network"]["links"]] == ["enp1s0f0np0"]
    assert found["ibv"]["selection"]["per_hca"] == {"rocep1s0f0": 3}
    assert [each["port"] for each in found["listeners"]] == [8888]
    assert found["gpu"] == {
        "present": False,
        "driver": None,
        "devices": [],
        "processes": [],
        "orphans": [],
    }
    assert found["engine"]["current"] is None and found["engine"]["units"] == {}
    assert found["packages"] == {"missing": ["iputils-ping"]}
    ids = {note.id for note in notes}
    assert {"host.look.failed", "host.management.unknown", "host.packages.missing"} <= ids


def test_an_empty_root_is_unknown_not_good(tmp_path):
    found, notes = node.look(node.Question(root=str(tmp_path)))
    assert found["memory"] == {"total_gib": None, "available_gib": None}
    subjects = [note.summary for note in notes if note.id == "host.look.failed"]
    assert len(subjects) > 3 and all("unknown" in subject for subject in subjects)
    assert found["pressure"]["state"] == "unknown" and found["driver"]["verdict"] == "unknown"


@pytest.mark.parametrize("name", list(node.SUBSETS))
def test_one_subset_of_the_live_machine(name):
    found, _ = node.look(node.Question(), [name])
    assert found


def test_a_gpu_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setattr(
        commands, "ask", lambda argv, *_: commands.Answer(9, "NVIDIA-SMI has failed because of a mismatch.\n")
    )
    _, notes = node.look(node.Question(), ["gpu"])
    assert [note.summary for note in notes] == [
        "No GPU is visible: NVIDIA-SMI has failed because of a mismatch"
    ]


@pytest.mark.parametrize(
    ("argv", "rc", "out"),
    [
        (["sh", "-c", "echo $LC_ALL; exit 3"], 3, "C\n"),
        (["no-such-command"], None, ""),
        (["printf", "\\377"], 0, "�"),
    ],
)
def test_commands(argv, rc, out):
    assert commands.ask(argv) == commands.Answer(rc, out)


def test_a_command_that_runs_out_of_time_is_unknown(monkeypatch):
    def late(argv, **_):
        raise subprocess.TimeoutExpired(argv, 5)

    monkeypatch.setattr(commands.subprocess, "run", late)
    assert commands.ask(["nvidia-smi"]) == commands.Answer(None, "")


def test_who_may_come_to_a_node_is_seen_of_a_copy_too(tmp_path):
    put(tmp_path / "etc/tandem/api.env", "VLLM_API_KEY=0123456789abcdef\n")
    (tmp_path / "etc/tandem/api.env").chmod(0o600)
    found, notes = node.look(node.Question(root=str(tmp_path)), ["access"])
    assert found["access"] == {
        "firewall": {"in_force": None, "kept": None, "unit": False},
        "api_key": {"file": True, "kept": True, "running": None},
    }
    assert notes == [] and "0123456789abcdef" not in repr(found)
