# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each case of driver, memory and power that the field met, by its number: a small input, and what is concluded.

Beside each case stand others of its kind, so that the rule is tested and not the one machine that was seen.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import driver as drivers
from ansible_collections.tandem.spark.plugins.module_utils import (
    driver_judgement,
    driver_versions,
    engine_state,
    memory_plan,
    power,
    records,
    run_settings,
)
from ansible_collections.tandem.spark.plugins.plugin_utils import doctor
from pretend_driver import CLOSED, DRIVER, KERNEL, Spark, package
from pretend_look import GONE, QUERY, SMI, TIGHT, healthy, look
from sysfs_tree import put

NEW = "6.17.0-1029-nvidia"


def paired(version: str, kernel: str = KERNEL, **more) -> Spark:
    kernels = {kernel: version}
    return Spark(version, userspace=version, installed=version, running=kernel, kernels=kernels, **more)


def with_files(**files: str) -> Spark:
    return Spark(more={path.replace("__", "/"): text for path, text in files.items()})


def loaded(clock: str, watts: str, percent: str = "96 %") -> dict[str, str]:
    return {"nvidia-smi --query-gpu": QUERY.format(clock, watts, percent)}


def on_gpu(program: str, mib: int = 104277) -> dict[str, str]:
    return {"nvidia-smi": f"{SMI}|    0   N/A  N/A             811      C   {program:<40}{mib}MiB |\n"}


def process(title: str, parent: int = 1, comm: str | None = None) -> dict[str, str]:
    return {
        "proc/811/comm": comm or title[:15],
        "proc/811/cmdline": f"{title}\0",
        "proc/811/status": f"State:\tS (sleeping)\nPPid:\t{parent}\nVmRSS:\t 1000 kB",
    }


def container(size: str, device: str = "0:99", mountpoint: str = "/dev/shm") -> dict[str, str]:
    row = "31 30 {} / {} rw,nosuid - tmpfs shm rw,size={},inode64"
    return {
        "proc/1/mountinfo": "25 1 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw,inode64",
        "proc/812/comm": "vllm",
        "proc/812/mountinfo": row.format(device, mountpoint, size),
    }


def docker(size: int) -> dict[str, str]:
    return {"var/lib/docker/containers/0123456789abcdef/hostconfig.json": json.dumps({"ShmSize": size})}


XID = "NVRM: Xid (PCI:000f:01:00): {}, pid=1, text"
RECOVERY = XID.format(154).replace("text", "GPU recovery action changed from 0x0 (None) to 0x2 ({})")
NOT_STARTED = "NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)"
NO_MEMORY = "NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) @ mem_desc.c:1359"
OOM = "oom-kill:constraint={},nodemask=(null),cpuset=/,global_oom,task={},pid=812,uid=990"
LOOP = "/bin/sh\0-c\0while :; do nvidia-smi -lgc 0,{}; sleep 300; done\0"
BOTH = {KERNEL: DRIVER, NEW: DRIVER}
NO_INITRD = {f"boot/initrd.img-{KERNEL}": "of the old kernel alone"}
E, W, I = "error", "warning", "info"  # noqa: E741

# case, what it is, the node, what commands say, the kernel's log, the findings
CASES = [
    (60, "suspect", paired("580.159.03"), {}, "", {"driver.pair.contested": W}),
    (60, "of any kernel", paired("580.159.03", NEW), {}, "", {"driver.pair.contested": W}),
    (60, "sites that report it well", paired("580.173.02", NEW), {}, "", {}),
    (
        63,
        "kernel ahead of its modules",
        Spark(kernels={NEW: None, KERNEL: DRIVER}),
        {},
        "",
        {"driver.kernel.no_module": E},
    ),
    (
        63,
        "modules of another driver",
        Spark(kernels={NEW: "580.173.02", KERNEL: DRIVER}),
        {},
        "",
        {"driver.next_boot.mismatch": E, "driver.kernel.next_boot": W},
    ),
    (
        63,
        "modules are there and not known to modprobe",
        Spark(more={f"lib/modules/{KERNEL}/modules.dep": "kernel/veth.ko:"}),
        {},
        "",
        {"driver.kernel.no_module": E},
    ),
    (
        63,
        "an old kernel without modules is no matter",
        Spark(kernels={KERNEL: DRIVER, "6.17.0-1008-nvidia": None}),
        {},
        "",
        {},
    ),
    (
        63,
        "an initrd that a full /boot did not take",
        Spark(kernels={NEW: DRIVER, KERNEL: DRIVER}, more=NO_INITRD),
        {},
        "",
        {"driver.kernel.no_image": E, "driver.kernel.next_boot": W, "driver.pair.unlisted": I},
    ),
    (
        63,
        "driver not loaded after the reboot",
        Spark(loaded=None),
        {"nvidia-smi": "nvml error: driver not loaded\n"},
        "",
        {"driver.loaded.none": E, "host.gpu.none": W},
    ),
    (
        64,
        "kho",
        paired(DRIVER, "7.0.0-1019-nvidia", cma_kib=(32768, 9961472)),
        {},
        "",
        {"driver.kernel.kho_cma": E, "driver.pair.bad": E},
    ),
    (
        64,
        "no CMA at all, and much of it free",
        paired(DRIVER, "7.0.0-1019-nvidia", cma_kib=(0, 9700000)),
        {},
        "",
        {"driver.kernel.kho_cma": E, "driver.pair.bad": E},
    ),
    (
        64,
        "Ubuntu's own kernel",
        paired(DRIVER, "7.0.0-31-generic", cma_kib=(32768, 9961472)),
        {},
        "",
        {"driver.kernel.kho_cma": E, "driver.pair.bad": E},
    ),
    (
        64,
        "a kernel that nobody listed",
        paired(DRIVER, "7.0.0-1022-nvidia", cma_kib=(32768, 9961472)),
        {},
        "",
        {"driver.kernel.kho_cma": E, "driver.pair.unlisted": I},
    ),
    (
        64,
        "switched off",
        paired(DRIVER, "7.0.0-1019-nvidia", options="quiet kho=off"),
        {},
        "",
        {"driver.pair.unlisted": I},
    ),
    (
        64,
        "memory for a crash kernel",
        Spark(more={"sys/kernel/kexec_crash_size": "536870912"}),
        {},
        "",
        {"driver.kernel.crash_memory": W},
    ),
    (
        65,
        "closed flavour",
        Spark(version_text=CLOSED),
        {},
        f"{XID.format(169)}\n{NOT_STARTED}",
        {"driver.flavour.closed": E, "driver.gpu.not_started": E},
    ),
    (
        65,
        "closed flavour, before it was tried",
        Spark(version_text=CLOSED),
        {},
        "",
        {"driver.flavour.closed": E},
    ),
    (65, "open flavour", Spark(), {}, "", {}),
    (
        68,
        "one package of the pair taken back",
        Spark(packages=(package("libnvidia-gl-580", "580.173.02-0ubuntu0.24.04.1", "hold ok installed"),)),
        {},
        "",
        {"driver.packages.mixed": E},
    ),
    (
        68,
        "half set up",
        Spark(packages=(package("libnvidia-gl-580", f"{DRIVER}-0ubuntu0.24.04.1", "hold ok unpacked"),)),
        {},
        "",
        {"driver.packages.broken": E},
    ),
    (
        71,
        "no GPU after a panic",
        paired(DRIVER, "6.17.0-1008-nvidia"),
        {"nvidia-smi": "Failed to query NVIDIA devices\n"},
        "pci 000f:01:00.0: DOE: [2c8] mailbox timeout",
        {"driver.pair.bad": E, "driver.gpu.doe": E, "host.gpu.none": W},
    ),
    (
        71,
        "what the panic left",
        with_files(sys__fs__pstore__dmesg_efi_1="Panic#1"),
        {},
        "",
        {"host.kernel.panicked": I},
    ),
    (
        71,
        "and systemd put away",
        with_files(var__lib__systemd__pstore__7412="Panic#1"),
        {},
        "",
        {"host.kernel.panicked": I},
    ),
    (
        72,
        "override",
        Spark(more={"etc/modprobe.d/zz-nvidia-drm-override.conf": "options nvidia-drm modeset=1"}),
        {},
        "",
        {"driver.memory.override": W},
    ),
    (
        72,
        "an option that is about memory",
        Spark(more={"etc/modprobe.d/gpu.conf": "options nvidia NVreg_RegistryDwords=RMHeap=1"}),
        {},
        "",
        {"driver.memory.override": W},
    ),
    (
        72,
        "an option that is not",
        Spark(more={"etc/modprobe.d/gpu.conf": "options nvidia-drm modeset=1 fbdev=0"}),
        {},
        "",
        {},
    ),
    (73, "another branch", paired("610.43.02"), {}, "", {"driver.pair.unlisted": I}),
    (73, "a version of two parts", paired("595.99"), {}, "", {"driver.pair.unlisted": I}),
    (75, "a counter", Spark(), {}, NO_MEMORY, {}),
    (75, "and many of it", Spark(), {}, "\n".join([NO_MEMORY] * 55), {}),
    (
        79,
        "left of a killed server",
        Spark(more=process("VLLM::EngineCore")),
        on_gpu("VLLM::EngineCore"),
        "",
        {"memory.gpu.orphan": E},
    ),
    (
        79,
        "a worker of it",
        Spark(more=process("VLLM::Worker_TP0")),
        on_gpu("VLLM::Worker_TP0"),
        "",
        {"memory.gpu.orphan": E},
    ),
    (
        79,
        "of another engine",
        Spark(more=process("sglang::scheduler_TP0")),
        on_gpu("sglang::scheduler_TP0"),
        "",
        {"memory.gpu.orphan": E},
    ),
    (
        79,
        "not on the GPU any more",
        Spark(more=process("VLLM::EngineCore")),
        {},
        "",
        {"memory.gpu.orphan": E},
    ),
    (79, "another program", Spark(), on_gpu("/usr/bin/ollama"), "", {"plan.gpu.taken": E}),
    (82, "whole host", Spark(), {}, OOM.format("CONSTRAINT_NONE", "VLLM::Worker"), {"memory.host.oom": E}),
    (
        82,
        "somebody else was killed",
        Spark(),
        {},
        OOM.format("CONSTRAINT_NONE", "sshd"),
        {"memory.host.oom": E},
    ),
    (82, "a unit at its own limit", Spark(), {}, OOM.format("CONSTRAINT_MEMCG", "VLLM::Worker"), {}),
    (83, "64 GiB in a container", Spark(more=container("67108864k")), {}, "", {"memory.plan.shm": W}),
    (83, "in its own words", Spark(more=container("20g")), {}, "", {"memory.plan.shm": W}),
    (83, "10 GiB", Spark(more=container("10485760k")), {}, "", {}),
    (83, "16 GiB", Spark(more=container("16777216k")), {}, "", {}),
    (83, "the host's own", Spark(more=container("67108864k", device="0:23")), {}, "", {}),
    (83, "another tmpfs", Spark(more=container("67108864k", mountpoint="/tmp")), {}, "", {}),
    (83, "a container that is off", Spark(more=docker(64 << 30)), {}, "", {"memory.plan.shm": W}),
    (83, "docker's default", Spark(more=docker(64 << 20)), {}, "", {}),
    (84, "a guardian that polls", with_files(proc__900__comm="earlyoom"), {}, "", {"memory.killer.polls": I}),
    (
        84,
        "one of somebody's own",
        with_files(proc__900__comm="gb10-oom-guard"),
        {},
        "",
        {"memory.killer.polls": I},
    ),
    (84, "Ubuntu's, which the kernel wakes", with_files(proc__900__comm="systemd-oomd"), {}, "", {}),
    (140, "stuck", Spark(), loaded("799 MHz", "19.50 W"), "", {"power.clocks.stuck": E}),
    (140, "stuck lower", Spark(), loaded("481 MHz", "11.20 W"), "", {"power.clocks.stuck": E}),
    (140, "slow, for no reason", Spark(), loaded("1200 MHz", "28.00 W"), "", {"power.clocks.slow": W}),
    (140, "idle", Spark(), loaded("208 MHz", "4.00 W", "0 %"), "", {}),
    (140, "healthy under GEMM", Spark(), loaded("2281 MHz", "84.00 W"), "", {}),
    (
        140,
        "waiting is another thing",
        Spark(),
        loaded("2580 MHz", "18.00 W"),
        "",
        {"power.engine.waiting": W},
    ),
    (142, "nvidia-smi shows nothing", Spark(), loaded("2411 MHz", "39.00 W"), "", {}),
    (143, "a foreign cap", Spark(more={"proc/77/cmdline": LOOP.format(2200)}), {}, "", {"power.cap.set": I}),
    (
        143,
        "holds the clock, and is not a stuck one",
        Spark(more={"proc/77/cmdline": LOOP.format(900)}),
        loaded("890 MHz", "19.50 W"),
        "",
        {"power.cap.set": I, "power.clocks.capped": W},
    ),
    (
        143,
        "is lost",
        Spark(more={"proc/77/cmdline": LOOP.format(2000)}),
        loaded("2411 MHz", "39.00 W"),
        "",
        {"power.cap.set": I, "power.cap.lost": W},
    ),
    (
        143,
        "of this collection is lost",
        Spark(more={"etc/systemd/system/tandem-clock-cap.service": "ExecStart=nvidia-smi -lgc 0,2000"}),
        loaded("2411 MHz", "39.00 W"),
        "",
        {"power.cap.lost": W},
    ),
    (
        143,
        "of this collection holds",
        Spark(more={"etc/systemd/system/tandem-clock-cap.service": "ExecStart=nvidia-smi -lgc 0,2200"}),
        loaded("2200 MHz", "39.00 W"),
        "",
        {},
    ),
    (
        29,
        "the GPU wants to be recovered",
        Spark(),
        {},
        f"{XID.format(120)}\n{RECOVERY.format('GPU Reset Required')}",
        {"driver.xid.recovery": E},
    ),
    (29, "and was", Spark(), {}, f"{RECOVERY.format('GPU Reset Required')}\n{RECOVERY.format('None')}", {}),
    (29, "a fault of the GPU", Spark(), {}, XID.format(79), {"driver.xid.fault": W}),
    (29, "a fault of a program", Spark(), {}, XID.format(31), {}),
]


@pytest.mark.parametrize(
    ("spark", "said", "log", "expected"),
    [pytest.param(*row[2:], id=f"{row[0]:03d}-{row[1].replace(' ', '-')}") for row in CASES],
)
def test_a_look_at_a_node(tmp_path, monkeypatch, spark, said, log, expected):
    healthy(tmp_path, spark)
    _found, notes = look(monkeypatch, tmp_path, said, log)
    assert {name: note.severity for name, note in notes.items()} == expected


# case, MemTotal and so on, the state, the findings
MEMORY = [
    (86, TIGHT, "healthy-tight", set()),
    (82, GONE, "exhausted", {"memory.host.exhausted"}),
    (84, TIGHT.replace("4089446", "2472960"), "healthy-tight", set()),
    (81, TIGHT.replace("11744051", "0"), "healthy-tight", set()),
]


@pytest.mark.parametrize(("meminfo", "state", "expected"), [row[1:] for row in MEMORY])
def test_memory_now(tmp_path, monkeypatch, meminfo, state, expected):
    """How much swap is in use says nothing, nor does little memory that lasts."""
    healthy(tmp_path)
    put(tmp_path / "proc/meminfo", meminfo)
    found, notes = look(monkeypatch, tmp_path)
    assert (found["pressure"]["state"], set(notes)) == (state, expected)


SPARK = {"mem_total_gib": 121.69, "mem_available_gib": 101.3, "weights_gib_per_rank": 79.17}
PLANS = [
    (78, {"gpu_memory_utilization": 0.87}, {"memory.plan.not_free"}),
    (78, {"gpu_memory_utilization": 0.87, "mem_available_gib": 118.0}, set()),
    (78, {"gpu_memory_utilization": 0.78}, {"memory.plan.tight"}),
    (
        78,
        {"mem_total_gib": 60.0, "mem_available_gib": 56.0, "gpu_memory_utilization": 0.8},
        {"memory.plan.no_kv"},
    ),
    (83, {"gpu_memory_utilization": 0.75, "shm_gib": 64.0}, {"memory.plan.shm"}),
    (83, {"gpu_memory_utilization": 0.75, "shm_gib": 10.0}, set()),
    (84, {"gpu_memory_utilization": 0.77}, {"memory.plan.tight"}),
    (84, {"gpu_memory_utilization": 0.75}, set()),
]


@pytest.mark.parametrize(("wish", "expected"), [row[1:] for row in PLANS])
def test_a_plan_of_memory(wish, expected):
    """The utilization is never judged by itself: what is free now, and what is left of it, decide."""
    planned = memory_plan.plan(memory_plan.Wish(**{**SPARK, **wish}))
    assert {note.id for note in planned.findings} - {"memory.plan.tight"} == expected - {"memory.plan.tight"}
    assert ("memory.plan.tight" in {note.id for note in planned.findings}) == (
        "memory.plan.tight" in expected
    )


# Between nodes: driver and kernel of the other rank
PAIRS = [
    (61, ("590.48.01", KERNEL), ["driver.version.unequal"]),
    (61, (DRIVER, NEW), ["driver.version.unequal"]),
    (61, (None, KERNEL), ["driver.version.unequal"]),
    (61, (DRIVER, KERNEL), []),
]


@pytest.mark.parametrize(("other", "expected"), [row[1:] for row in PAIRS])
def test_two_ranks(other, expected):
    looks = {
        host: {"driver": {"loaded": driver}, "kernel": {"running": kernel}}
        for host, (driver, kernel) in {"spark-a": (DRIVER, KERNEL), "spark-b": other}.items()
    }
    notes = driver_judgement.compare(looks)
    assert [note.id for note in notes] == expected
    assert all(note.severity == W and "likely" in note.remedy for note in notes)


MINIMA = [(70, "580.159.03", "590.48", {"driver.version.old"}), (70, "590.48.01", "590.48", set())]


@pytest.mark.parametrize(("version", "minimum", "expected"), [row[1:] for row in MINIMA])
def test_a_driver_older_than_what_was_built_for_it(tmp_path, version, minimum, expected):
    seen = drivers.look(paired(version).write(tmp_path), "")
    _verdict, notes = driver_judgement.judge(seen, minimum)
    assert {note.id for note in notes if note.severity == E} == expected


SSH = 'Data could not be sent to remote host "{}". Make sure this host can be reached over ssh: '
UNREACHED = [
    (
        77,
        "Connection timed out during banner exchange\nConnection to 192.168.50.12 port 22 timed out",
        "host.node.stuck",
    ),
    (82, "ssh: Timeout while waiting for the banner", "host.node.stuck"),
    (77, "ssh: connect to host 192.168.50.12 port 22: Connection timed out", "host.node.unreachable"),
    (77, "ssh: connect to host 192.168.50.12 port 22: Connection refused", "host.node.unreachable"),
    (77, "root@192.168.50.12: Permission denied (publickey).", "host.node.unreachable"),
]


@pytest.mark.parametrize(("said", "expected"), [row[1:] for row in UNREACHED])
def test_a_node_that_answers_ping_and_no_program(said, expected):
    look_at_it = {"unreachable": True, "msg": SSH.format("192.168.50.12") + said}
    (note,) = doctor.of_node("spark-b", "192.168.50.12", look_at_it)
    assert (note.id, note.severity, note.hosts) == (expected, E, ("spark-b",))
    assert "wait 25 minutes" in note.remedy.lower()


def test_076_what_a_release_ran_with_is_recorded(tmp_path):
    release = tmp_path / "opt/tandem/releases/0123"
    put(release / "env", 'MAX_JOBS="2"\nPYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"\n')
    put(release / "engine.yaml", "max-num-seqs: 2\nno-enable-flashinfer-autotune: true\n")
    put(tmp_path / "proc/sys/kernel/osrelease", KERNEL)
    (tmp_path / "opt/tandem/current").symlink_to("releases/0123")
    expected = {"allocator": "expandable_segments:True", "flashinfer_autotune": False}
    now = {"driver": DRIVER, "kernel": KERNEL, "boot_options": ""}
    records.write(tmp_path, "rollout", {"digest": "0123", "outcome": "proven", "reason": "right"}, now)
    assert records.read_proof(tmp_path, "0123", now)["settings"] == expected
    assert records.history(tmp_path, 1)[0][0]["settings"] == expected
    assert engine_state.look(tmp_path, {})["settings"] == expected


@pytest.mark.parametrize(
    ("env", "engine", "expected"),
    [
        ("", "", (None, None)),
        (
            "PYTORCH_ALLOC_CONF=a\nPYTORCH_CUDA_ALLOC_CONF=b\n",
            "enable-flashinfer-autotune: true\n",
            ("a", True),
        ),
        ("PYTORCH_CUDA_ALLOC_CONF=\n", "enable-flashinfer-autotune: maybe\n", (None, None)),
        ("\0\xff", "[" * 5000, (None, None)),
    ],
)
def test_076_settings_are_read(tmp_path, env, engine, expected):
    put(tmp_path / "env", env)
    put(tmp_path / "engine.yaml", engine)
    assert tuple(run_settings.read(tmp_path).values()) == expected


def test_142_the_same_readings_and_slower_steps():
    well = power.Judgement("memory_bound")
    (note,) = power.compare_steps(well, 94, 63).findings
    assert note.id == "power.slow.hidden"
    assert power.compare_steps(well, 64, 63) == well


def test_060_a_suspect_is_not_rolled_back():
    mark, row = driver_versions.judge("580.159.03", KERNEL, ())
    assert mark == "contested" and "Measure before anything is rolled back" in row.remedy


# What is asked of a transaction, not of a look, has its tests there.
ELSEWHERE = {
    67: ("test_driver_change.py", "test_a_removal_that_stops_the_change"),
    68: ("test_driver_change.py", "test_names_of_another_branch"),
    81: ("test_node_deep.py", "test_pages_that_come_back_from_swap"),
}
THEMES = {60, 61, 63, 64, 65, 67, 68, 70, 71, 72, 73, 75, 76, 77, 78, 79, 81, 82, 83, 84, 86, 140, 142, 143}


def test_every_case_of_driver_memory_and_power_is_here():
    tables = (CASES, MEMORY, PLANS, PAIRS, MINIMA, UNREACHED)
    assert {row[0] for table in tables for row in table} | set(ELSEWHERE) | {76} >= THEMES
    for file, name in ELSEWHERE.values():
        assert f"def {name}(" in (Path(__file__).parent / file).read_text()
