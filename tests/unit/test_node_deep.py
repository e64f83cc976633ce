# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one look says of a node: of a healthy one, and in each case of driver, memory and power that the field met."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    clock_caps,
    commands,
    firmware,
    node,
    node_deep,
    node_question,
)
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pretend_driver import DRIVER, KERNEL, Spark, package
from sysfs_tree import put, write_tree

NEW = "6.17.0-1029-nvidia"
SMI = """\
| NVIDIA-SMI 580.142                Driver Version: 580.142        CUDA Version: 13.0     |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   42C    P0             12W /  N/A  | Not Supported          |      0%      Default |
| Processes:                                                                              |
"""
QUERY = (
    "index, pstate, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], utilization.memory [%], "
    "temperature.gpu, clocks_event_reasons.active\n0, P0, {}, {}, {}, 0 %, 58, 0x0000000000000000\n"
)
IDLE = QUERY.format("208 MHz", "4.00 W", "0 %")
ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "enP7s7", "addr_info": [{"family": "inet", "local": "192.168.1.11", "prefixlen": 24}]},
]
ROUTES = [{"dst": "default", "gateway": "192.168.1.1", "dev": "enP7s7", "flags": []}]
HEALTHY_ANSWERS = {
    "nvidia-smi": SMI,
    "nvidia-smi --query-gpu": IDLE,
    "ip -j address": json.dumps(ADDRESSES),
    "ip -j -4 route": json.dumps(ROUTES),
    "ip -j -6 route": "[]",
}


class Live(node.Question):
    """A node that answers commands, and whose files lie below a folder."""

    live = True


def healthy(root: Path, spark: Spark | None = None) -> None:
    (spark or Spark()).write(root)
    write_tree(root / "sys", "rocep1s0f0 enp1s0f0np0\n  3 192.168.177.1 v2\n")
    put(root / "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"')
    put(root / "proc/meminfo", (root / "proc/meminfo").read_text().replace("MemFree", "MemAvailable"))
    put(root / "proc/vmstat", "pswpin 120\npswpout 3")
    status = (root / "var/lib/dpkg/status").read_text().rstrip("\n")
    more = [package("iproute2", "6.1.0"), package("iputils-ping", "3:20240117")]
    put(root / "var/lib/dpkg/status", "\n".join([status, "", *more]))


def look(monkeypatch, root: Path, answers: Mapping[str, str] = {}, log: str = "", **options):
    """Every part of one look; `answers` replaces what the commands of a healthy node say."""
    known = {**HEALTHY_ANSWERS, **answers}

    def ask(argv, *_timeout):
        line = " ".join(argv)
        fitting = [name for name in known if line == name or (name != "nvidia-smi" and line.startswith(name))]
        return commands.Answer(0, known[fitting[0]]) if fitting else commands.Answer(None, "")

    monkeypatch.setattr(commands, "ask", ask)
    monkeypatch.setattr(commands, "there", lambda program: program in known)
    monkeypatch.setattr(node_deep.engine_state, "units", lambda *_: {})
    found, notes = node.look(Live(root=str(root), kernel_log=log, seconds=0.001, **options))
    return found, {note.id: note for note in notes}


def test_a_healthy_node_has_no_finding(tmp_path, monkeypatch):
    healthy(tmp_path)
    found, notes = look(monkeypatch, tmp_path)
    assert notes == {}
    assert found["driver"]["verdict"] == "good" and found["pressure"]["state"] == "roomy"
    assert [each["verdict"] for each in found["power"]["gpus"]] == ["not_loaded"]
    assert found["status"] is None and found["nccl"]["processes"] == []


def paired(version: str, kernel: str = KERNEL, **more) -> Spark:
    kernels = {kernel: version}
    return Spark(version, userspace=version, installed=version, running=kernel, kernels=kernels, **more)


CLOSED = Spark(
    version_text="NVRM version: NVIDIA UNIX aarch64 Kernel Module  {}  Tue Jan  6 10:00:00 UTC 2026"
)
NOT_STARTED = (
    "NVRM: Xid (PCI:000f:01:00): 169, fd8c\nNVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)"
)
OVERRIDE = {"etc/modprobe.d/zz-nvidia-drm-override.conf": "options nvidia-drm modeset=1"}
NO_MEMORY = "NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) @ mem_desc.c:1359"
OOM = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,global_oom,task=VLLM::Worker,pid=812,uid=990"
LOOP = "/bin/sh\0-c\0while :; do nvidia-smi -lgc 0,2200; sleep 300; done\0"
TIGHT = (
    "MemTotal: 127600000 kB\nMemAvailable: 4089446 kB\nSwapTotal: 16777212 kB\nSwapFree: 11744051 kB\n"
    "Hugepagesize: 1 kB"
)
GONE = TIGHT.replace("4089446", "104857")


def loaded(clock: str, power: str) -> dict[str, str]:
    return {"nvidia-smi --query-gpu": QUERY.format(clock, power, "96 %")}


@pytest.mark.parametrize(
    ("spark", "said", "log", "expected"),
    [
        pytest.param(paired("580.159.03"), {}, "", {"driver.pair.contested": "warning"}, id="060-contested"),
        pytest.param(
            Spark(kernels={NEW: None, KERNEL: DRIVER}),
            {},
            "",
            {"driver.kernel.no_module": "error"},
            id="063-kernel-without-modules",
        ),
        pytest.param(
            paired("580.142", "7.0.0-1019-nvidia", cma_kib=(32768, 9961472)),
            {},
            "",
            {"driver.kernel.kho_cma": "error", "driver.pair.bad": "error"},
            id="064-kho",
        ),
        pytest.param(
            CLOSED,
            {},
            NOT_STARTED,
            {"driver.flavour.closed": "error", "driver.gpu.not_started": "error"},
            id="065-closed-flavour",
        ),
        pytest.param(
            paired("580.142", "6.17.0-1008-nvidia"),
            {"nvidia-smi": "Failed to query NVIDIA devices\n"},
            "pci 000f:01:00.0: DOE: [2c8] mailbox timeout",
            {"driver.pair.bad": "error", "driver.gpu.doe": "error", "host.gpu.none": "warning"},
            id="071-doe",
        ),
        pytest.param(Spark(more=OVERRIDE), {}, "", {"driver.memory.override": "warning"}, id="072-override"),
        pytest.param(paired("610.43.02"), {}, "", {"driver.pair.unlisted": "info"}, id="073-another-branch"),
        pytest.param(Spark(), {}, NO_MEMORY, {}, id="075-no-memory-lines"),
        pytest.param(Spark(), {}, OOM, {"memory.host.oom": "error"}, id="082-out-of-memory"),
        pytest.param(
            Spark(), loaded("799 MHz", "19.50 W"), "", {"power.clocks.stuck": "error"}, id="140-stuck"
        ),
        pytest.param(Spark(), loaded("2411 MHz", "39.00 W"), "", {}, id="142-hidden-slow-state"),
        pytest.param(
            Spark(more={"proc/77/cmdline": LOOP}),
            {},
            "",
            {"power.cap.set": "info"},
            id="143-cap-without-load",
        ),
        pytest.param(
            Spark(more={"proc/77/cmdline": LOOP.replace("2200", "900")}),
            loaded("890 MHz", "19.50 W"),
            "",
            {"power.cap.set": "info", "power.clocks.capped": "warning"},
            id="143-cap-is-not-stuck",
        ),
        pytest.param(
            Spark(), loaded("2580 MHz", "18.00 W"), "", {"power.engine.waiting": "warning"}, id="091-spinning"
        ),
    ],
)
def test_a_case_of_the_field(tmp_path, monkeypatch, spark, said, log, expected):
    healthy(tmp_path, spark)
    _found, notes = look(monkeypatch, tmp_path, said, log)
    assert {name: note.severity for name, note in notes.items()} == expected


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
        ("etc/cron.d/gpu", "@reboot root nvidia-smi --lock-gpu-clocks=300,2000", [("/etc/cron.d/gpu", 2000.0)]),
        ("etc/crontab", "@reboot root nvidia-smi -pl 100", [("/etc/crontab", None)]),
        ("run/systemd/system/clockcap.service", "", [("/run/systemd/system/clockcap.service", None)]),
        ("etc/systemd/system/cap.service", "# nvidia-smi -lgc 0,2200", []),
        ("etc/systemd/system/log.service", "ExecStart=/usr/bin/nvidia-smi -q -d CLOCK", []),
        ("proc/77/cmdline", "/bin/sh\0-c\0while :; do nvidia-smi -lgc 0,2200; sleep 300; done\0",
         [("sh, pid 77", 2200.0)]),
        ("proc/77/cmdline", "/opt/gb10-clockcap\0--every\x00300\0", [("gb10-clockcap, pid 77", None)]),
        ("proc/77/cmdline", "grep\0nvidia-smi -lgc 0,2200\0/etc\0", []),
        ("proc/77/cmdline", "vi\0/etc/clockcap.conf\0", []),
        ("proc/77/cmdline", "", []),
    ],
)  # one row a line  # fmt: skip
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
    "proc/meminfo", "proc/vmstat", "proc/cmdline", "proc/driver/nvidia/version", "proc/sys/kernel/osrelease",
    "proc/811/status", "proc/811/cmdline", "proc/811/maps", "proc/811/environ", "proc/811/cgroup", "proc/net/tcp",
    "boot/grub/grub.cfg", "boot/grub/grubenv", "var/lib/dpkg/status", "etc/os-release", "etc/tandem/plan.json",
    "etc/netplan/50.yaml", "etc/cdi/nvidia.yaml", "etc/modprobe.d/nvidia.conf", "etc/cron.d/gpu",
    "etc/apt/apt.conf.d/20auto", "var/lib/tandem/applied", "var/lib/tandem/history.jsonl",
    "opt/tandem/current/manifest.json", "run/tandem/fabric.env", f"lib/modules/{KERNEL}/modules.dep",
    "sys/class/dmi/id/bios_version", "sys/class/infiniband/rocep1s0f0/fw_ver",
    "sys/class/infiniband/rocep1s0f0/ports/1/gids/3", "sys/class/infiniband/rocep1s0f0/ports/1/rate",
    "sys/class/net/enp1s0f0np0/mtu",
]  # one row a line  # fmt: skip
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
