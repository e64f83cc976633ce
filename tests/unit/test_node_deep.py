# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one look says of a node: of a healthy one, and in each case of driver, memory and power that the field met."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    clock_caps,
    firmware,
    node,
    node_deep,
    node_question,
)
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pretend_driver import KERNEL
from pretend_look import GONE, HEALTHY_ANSWERS, SMI, TIGHT, healthy, look
from sysfs_tree import put


def test_a_healthy_node_has_no_finding(tmp_path, monkeypatch):
    healthy(tmp_path)
    found, notes = look(monkeypatch, tmp_path)
    assert notes == {}
    assert found["driver"]["verdict"] == "good" and found["pressure"]["state"] == "roomy"
    assert [each["verdict"] for each in found["power"]["gpus"]] == ["not_loaded"]
    assert found["status"] is None and found["nccl"]["processes"] == []


@pytest.mark.parametrize(
    ("meminfo", "vmstat", "state", "expected"),
    [
        (TIGHT, "pswpin 1000000", "healthy-tight", set()),
        (GONE, "pswpin 1", "exhausted", {"memory.host.exhausted"}),
        ("\0\xff", "", "unknown", {"host.look.failed"}),
        (TIGHT, "pswpin x", "healthy-tight", set()),
    ],
    ids=["086-swap-in-use", "082-exhausted", "binary", "vmstat-that-says-nothing"],
)
def test_memory_now(tmp_path, monkeypatch, meminfo, vmstat, state, expected):
    healthy(tmp_path)
    put(tmp_path / "proc/meminfo", meminfo)
    put(tmp_path / "proc/vmstat", vmstat)
    found, notes = look(monkeypatch, tmp_path)
    assert (found["pressure"]["state"], set(notes)) == (state, expected)


@pytest.mark.parametrize(("loads", "expected"), [(False, {"memory.host.swapping"}), (True, set())])
def test_pages_that_come_back_from_swap(tmp_path, monkeypatch, loads, expected):
    """While weights are loaded (case 081) that is no failure; later it is."""
    healthy(tmp_path)
    pages = iter((0, 10**6))
    monkeypatch.setattr(node_deep.host_memory, "pages_in", lambda _text: next(pages))
    monkeypatch.setattr(node_deep, "_loads", lambda _question: loads)
    found, notes = look(monkeypatch, tmp_path)
    assert set(notes) == expected and found["pressure"]["state"] == ("loading" if loads else "swapping")


def on_gpu(program: str, mib: int) -> dict[str, str]:
    return {"nvidia-smi": f"{SMI}|    0   N/A  N/A             811      C   {program:<40}{mib}MiB |\n"}


def test_an_engine_that_outlived_its_server(tmp_path, monkeypatch):
    """Case 079: the text of the failed start speaks of the utilization; the process is the cause."""
    healthy(tmp_path)
    put(tmp_path / "proc/811/comm", "VLLM::EngineCor")
    put(tmp_path / "proc/811/cmdline", "VLLM::EngineCore\0")
    put(tmp_path / "proc/811/status", "State:\tS (sleeping)\nPPid:\t1\nVmRSS:\t 1000 kB")
    found, notes = look(monkeypatch, tmp_path, on_gpu("VLLM::EngineCore", 104277))
    assert set(notes) == {"memory.gpu.orphan"} and "104277 MiB" in notes["memory.gpu.orphan"].summary
    assert [each["pid"] for each in found["gpu"]["orphans"]] == [811]


def test_another_program_on_the_gpu_has_one_name(tmp_path, monkeypatch):
    healthy(tmp_path)
    _found, notes = look(monkeypatch, tmp_path, on_gpu("/usr/bin/ollama", 9000))
    assert set(notes) == {"plan.gpu.taken"} and "kill 811" in notes["plan.gpu.taken"].remedy


# Caps on the clocks, and firmware

UNIT = "[Service]\n# nvidia-smi -lgc 0,1000\nExecStart=/usr/bin/nvidia-smi -lgc 0,2200\n"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("etc/systemd/system/cap.service", UNIT, [("/etc/systemd/system/cap.service", 2200.0)]),
        (
            "etc/cron.d/gpu",
            "@reboot root nvidia-smi --lock-gpu-clocks=300,2000",
            [("/etc/cron.d/gpu", 2000.0)],
        ),
        ("etc/crontab", "@reboot root nvidia-smi -pl 100", [("/etc/crontab", None)]),
        ("run/systemd/system/clockcap.service", "", [("/run/systemd/system/clockcap.service", None)]),
        ("etc/systemd/system/cap.service", "# nvidia-smi -lgc 0,2200", []),
        ("etc/systemd/system/log.service", "ExecStart=/usr/bin/nvidia-smi -q -d CLOCK", []),
        (
            "proc/77/cmdline",
            "/bin/sh\0-c\0while :; do nvidia-smi -lgc 0,2200; sleep 300; done\0",
            [("sh, pid 77", 2200.0)],
        ),
        ("proc/77/cmdline", "/opt/gb10-clockcap\0--every\x00300\0", [("gb10-clockcap, pid 77", None)]),
        ("proc/77/cmdline", "grep\0nvidia-smi -lgc 0,2200\0/etc\0", []),
        ("proc/77/cmdline", "vi\0/etc/clockcap.conf\0", []),
        ("proc/77/cmdline", "", []),
    ],
)  # one row a line
def test_who_caps_the_clocks(tmp_path, path, text, expected):
    put(tmp_path / path, text)
    found = clock_caps.caps(Tree(str(tmp_path)))
    assert [(cap.who, cap.mhz) for cap in found] == expected
    assert [note.id for note in clock_caps.findings(found)] == ["power.cap.set"] * len(expected)


def test_a_cap_of_the_collection_holds_the_clocks_and_is_no_finding(tmp_path):
    put(tmp_path / "etc/systemd/system/tandem-clock-cap.service", UNIT)
    found = clock_caps.caps(Tree(str(tmp_path)))
    assert [(cap.mhz, cap.ours) for cap in found] == [(2200.0, True)]
    assert clock_caps.cap_mhz(found) == 2200.0 and clock_caps.findings(found) == []


def test_the_lowest_cap_holds_the_clocks():
    caps = [clock_caps.Cap("a", "x", 2200.0), clock_caps.Cap("b", "x", 1800.0), clock_caps.Cap("c")]
    assert (clock_caps.cap_mhz(caps), clock_caps.cap_mhz(caps[2:])) == (1800.0, None)


def machine(system="5.36_0ACUM018", product="NVIDIA_DGX_Spark", cards=("28.45.4028",)):
    hcas = {f"rocep{number}s0f0": version for number, version in enumerate(cards)}
    return {"product": product, "system": system, "hcas": hcas}


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("pcieport 0002:00:00.0: AER: Uncorrectable (Fatal) error message received from 0002:01:00.0", True),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [kworker] mlx5_pci_slot_reset+0x1c4/0x2d0", True),
        ("mlx5_core: probe of 0000:01:00.0 failed with error -110", True),
        ("mlx5_core 0000:01:00.0: mlx5_pci_err_detected Device state = 1, pci channel state = 2", True),
        ("mlx5_core 0000:01:00.0: device's health compromised - reached miss count", True),
        # Of healthy machines: a corrected error, a register that the card has not, its power, its cable.
        ("pcieport 0002:00:00.0: AER: Correctable error message received from 0002:01:00.0", False),
        (
            "mlx5_core 0000:01:00.0: mlx5_cmd_out_err: ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation",
            False,
        ),
        ("mlx5_core 0000:01:00.0: Detected insufficient power on the PCIe slot (27W).", False),
        ("mlx5_core 0000:01:00.0 enp1s0f0np0: Link down", False),
    ],
)
def test_a_card_that_pcie_lost(tmp_path, monkeypatch, log, told):
    """Case 028: serving is the victim, so nothing says that the driver is bad or the engine should be started anew."""
    healthy(tmp_path)
    found, notes = look(monkeypatch, tmp_path, log=log)
    assert set(notes) == ({"host.pcie.fatal"} if told else set()) and found["driver"]["verdict"] == "good"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (machine(), []),
        (machine(system="5.40"), ["the machines"]),
        (machine(system="5.40", product="GX10"), []),
        (machine(cards=("28.46.1006",)), ["the network cards"]),
        (machine(cards=("28.45.4028", "28.46.1006")), ["the network cards"]),
        (machine(system=None, cards=()), []),
        (machine(cards=(None,)), []),
    ],
)
def test_firmware_is_compared(other, expected):
    notes = firmware.compare({"spark-a": machine(), "spark-b": other})
    assert [note.summary.split(" of ")[1].split(" is ")[0] for note in notes] == expected
    assert all(note.hosts == ("spark-a", "spark-b") and note.severity == "warning" for note in notes)


def test_firmware_is_read(tmp_path):
    put(tmp_path / "sys/class/dmi/id/bios_version", "5.36_0ACUM018")
    put(tmp_path / "sys/class/infiniband/rocep1s0f0/fw_ver", "28.45.4028")
    found = firmware.look(Tree(str(tmp_path)))
    assert (found["system"], found["product"], found["hcas"]) == (
        "5.36_0ACUM018",
        None,
        {"rocep1s0f0": "28.45.4028"},
    )


# What cannot be looked at


def test_a_part_that_breaks_is_a_finding_and_the_others_are_told(tmp_path, monkeypatch):
    healthy(tmp_path)

    def broken(question):
        if question.root == node.NOTHING:
            return {"network": {"links": []}}, []
        raise RecursionError("too deep")

    monkeypatch.setitem(node.SUBSETS, "network", broken)
    found, notes = look(monkeypatch, tmp_path)
    assert set(notes) == {"host.look.broken"} and found["network"] == {"links": []}
    note = notes["host.look.broken"]
    assert (
        "network" in note.summary
        and note.severity == "warning"
        and "RecursionError: too deep (test_" in note.evidence
    )
    assert found["driver"]["verdict"] == "good"


BROKEN = [
    "proc/meminfo",
    "proc/vmstat",
    "proc/cmdline",
    "proc/driver/nvidia/version",
    "proc/sys/kernel/osrelease",
    "proc/811/status",
    "proc/811/cmdline",
    "proc/811/maps",
    "proc/811/environ",
    "proc/811/cgroup",
    "proc/net/tcp",
    "boot/grub/grub.cfg",
    "boot/grub/grubenv",
    "var/lib/dpkg/status",
    "etc/os-release",
    "etc/tandem/plan.json",
    "etc/netplan/50.yaml",
    "etc/cdi/nvidia.yaml",
    "etc/modprobe.d/nvidia.conf",
    "etc/cron.d/gpu",
    "etc/apt/apt.conf.d/20auto",
    "var/lib/tandem/applied",
    "var/lib/tandem/history.jsonl",
    "opt/tandem/current/manifest.json",
    "run/tandem/fabric.env",
    f"lib/modules/{KERNEL}/modules.dep",
    "sys/class/dmi/id/bios_version",
    "sys/class/infiniband/rocep1s0f0/fw_ver",
    "sys/class/infiniband/rocep1s0f0/ports/1/gids/3",
    "sys/class/infiniband/rocep1s0f0/ports/1/rate",
    "sys/class/net/enp1s0f0np0/mtu",
]  # one row a line
ODD = (
    b"{" * 3000,
    b"[" * 20000,
    b"\xff\xfe\0",
    b"-1",
    b"9" * 5000,
    b"a=b\nMemTotal:  kB",
    b"{}",
    b"[]",
    b"[{}]",
)
CONTENT = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(ODD),
    st.text('\n:=0123456789 kBMemTotalPPid{}[]",', max_size=80).map(str.encode),
)
WORDS = CONTENT.map(lambda content: content.decode("latin-1"))
QUICK = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def spoil(root: Path, files: Mapping[str, bytes | None]) -> None:
    """None is a folder where a file is meant."""
    for path, content in files.items():
        target = root / path
        target.unlink(missing_ok=True)
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


@pytest.mark.parametrize("content", [*ODD, b"", None], ids=lambda content: repr(content)[:12])
@pytest.mark.parametrize("half", [0, 1])
def test_no_odd_content_of_many_files_makes_a_traceback(tmp_path, monkeypatch, content, half):
    """A part that broke would be host.look.broken."""
    healthy(tmp_path)
    spoil(tmp_path, dict.fromkeys(BROKEN[half::2], content))
    _found, notes = look(monkeypatch, tmp_path)
    broken = notes.get("host.look.broken")
    assert broken is None, broken.evidence[:200]
    assert notes  # and unknown is said


@QUICK
@given(
    files=st.dictionaries(st.sampled_from(BROKEN), st.none() | CONTENT, min_size=1, max_size=6), log=st.text()
)
def test_no_file_makes_a_traceback(tmp_path_factory, monkeypatch, files, log):
    root = tmp_path_factory.mktemp("node")
    healthy(root)
    spoil(root, files)
    _found, notes = look(monkeypatch, root, log=log)
    assert "host.look.broken" not in notes, notes["host.look.broken"].evidence


@QUICK
@given(said=st.dictionaries(st.sampled_from(list(HEALTHY_ANSWERS)), st.text() | WORDS, min_size=1))
def test_no_answer_makes_a_traceback(tmp_path_factory, monkeypatch, said):
    root = tmp_path_factory.mktemp("node")
    healthy(root)
    _found, notes = look(monkeypatch, root, said)
    assert "host.look.broken" not in notes, notes["host.look.broken"].evidence


def test_a_node_with_nothing(tmp_path, monkeypatch):
    """No driver, no RDMA, no package lists, no command that answers: told, and nothing of it counts as good."""
    found, notes = look(monkeypatch, tmp_path, dict.fromkeys(HEALTHY_ANSWERS, ""))
    told = {"driver.none", "host.look.failed", "host.management.unknown", "fabric.rdma.no_device"}
    assert told <= set(notes) and "host.look.broken" not in notes
    assert (found["driver"]["verdict"], found["pressure"]["state"]) == ("unknown", "unknown")


@pytest.mark.parametrize("name", list(node.SUBSETS))
def test_every_part_has_a_shape_where_nothing_is(name):
    """What _part falls back to must not break itself."""
    found, _notes = node.SUBSETS[name](node_question.Question(root=node.NOTHING))
    assert found
