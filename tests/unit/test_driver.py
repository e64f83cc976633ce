# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver and kernel as one pair: a healthy node, each defect alone, and files that say nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    driver,
    driver_judgement,
    driver_traces,
    driver_versions,
    grub,
)
from ansible_collections.tandem.spark.plugins.module_utils.debian_packages import read_status
from ansible_collections.tandem.spark.plugins.module_utils.kernel_log import read_kernel_log
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pretend_driver import (
    CLOSED,
    DRIVER,
    KERNEL,
    METAS,
    Spark,
    grub_config,
    grub_environment,
    package,
    write_modules,
)

NEW = "6.17.0-1029-nvidia"
KHO = "7.0.0-1019-nvidia"
XID = "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x0 (None) to {}"


def judged(root: Path, spark: Spark, log: str = "", **wishes) -> tuple[str, dict[str, str], dict]:
    """Verdict, findings as id -> summary with evidence, and the facts."""
    look = driver.look(spark.write(root), log)
    verdict, notes = driver_judgement.judge(look, **wishes)
    json.dumps(look.as_dict())
    return (
        verdict,
        {note.id: f"{note.summary} [{note.evidence}] {note.remedy}" for note in notes},
        look.as_dict(),
    )


def test_a_healthy_node_has_no_finding(tmp_path):
    verdict, notes, facts = judged(tmp_path, Spark())
    assert (verdict, notes) == ("good", {})
    versions = dict.fromkeys(("loaded", "userspace", "installed", "next_boot"), DRIVER)
    assert facts["driver"] == {**versions, "flavour": "open"}
    assert facts["kernel"] == {"running": KERNEL, "next_boot": KERNEL, "modules_present": True}
    assert facts["kho"]["takes_memory"] is False
    assert set(METAS) < set(facts["holds"])
    states = {each["name"]: each["state"] for each in facts["packages"]}
    assert (states["nvidia-driver-580-open"], states["nvidia-driver-570-server"]) == ("hi", "rc")
    assert "bash" not in states


def test_a_module_that_is_compressed_is_known_by_its_package(tmp_path):
    root = Path(Spark().write(tmp_path))
    write_modules(root, KERNEL, DRIVER, "kernel/nvidia-580-open/nvidia.ko.zst")
    look = driver.look(str(root), "")
    assert (look.module.version, look.module.open_flavour) == (DRIVER, True)
    assert driver_judgement.judge(look) == ("good", [])


def test_a_module_of_dkms_wins_and_is_known_by_its_folder(tmp_path):
    root = Path(Spark().write(tmp_path))
    write_modules(root, KERNEL, DRIVER, "updates/dkms/nvidia.ko.zst")
    (root / "var/lib/dkms/nvidia/580.159.03" / KERNEL).mkdir(parents=True)
    verdict, notes = driver_judgement.judge(driver.look(str(root), ""))
    assert verdict == "bad" and "driver.next_boot.mismatch" in {note.id for note in notes}


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"<html>"])
def test_a_compressed_module_that_is_none(tmp_path, content):
    root = Path(Spark().write(tmp_path))
    write_modules(root, KERNEL, DRIVER, "kernel/nvidia-580-open/nvidia.ko.zst")
    (root / f"lib/modules/{KERNEL}/kernel/nvidia-580-open/nvidia.ko.zst").write_bytes(content)
    verdict, notes = driver_judgement.judge(driver.look(str(root), ""))
    assert (verdict, {note.id for note in notes}) == ("unknown", {"host.look.failed"})


def test_a_masked_unit_upgrades_nothing(tmp_path):
    root = Path(
        Spark(held=False, more={f"usr/lib/systemd/system/{driver_traces.UPGRADE_ONCE}": "x"}).write(tmp_path)
    )
    mask = root / "etc/systemd/system" / driver_traces.UPGRADE_ONCE
    mask.parent.mkdir(parents=True)
    mask.symlink_to(os.devnull)
    assert driver_judgement.judge(driver.look(str(root), "")) == ("good", [])


def paired(version: str, kernel: str = KERNEL, **more) -> Spark:
    return Spark(
        version, userspace=version, installed=version, running=kernel, kernels={kernel: version}, **more
    )


@pytest.mark.parametrize(
    ("spark", "verdict", "notes"),
    [
        pytest.param(paired("580.159.03"), "contested", {"driver.pair.contested"}, id="contested-warns"),
        pytest.param(paired("580.173.02", NEW), "good", set(), id="another-good-pair"),
        pytest.param(paired("580.142", NEW), "unknown", {"driver.pair.unlisted"}, id="halves-of-two-pairs"),
        pytest.param(paired("610.43.02"), "unknown", {"driver.pair.unlisted"}, id="a-branch-of-tomorrow"),
        pytest.param(
            paired("580.142", "6.17.0-1008-nvidia"), "bad", {"driver.pair.bad"}, id="kernel-that-panics"
        ),
        pytest.param(
            Spark(kernels={NEW: None, KERNEL: DRIVER}),
            "bad",
            {"driver.kernel.no_module"},
            id="kernel-ahead-of-its-modules",
        ),
        pytest.param(
            Spark(kernels={NEW: "580.173.02", KERNEL: DRIVER}),
            "bad",
            {"driver.next_boot.mismatch", "driver.kernel.next_boot"},
            id="next-boot-loads-another-module",
        ),
        pytest.param(
            paired("580.178.04", KHO, cma_kib=(0, 9_800_000)),
            "bad",
            {"driver.pair.bad", "driver.kernel.kho_cma"},
            id="kho",
        ),
        pytest.param(
            paired("580.178.04", KHO, options="quiet kho=off"),
            "unknown",
            {"driver.pair.unlisted"},
            id="kho-is-off",
        ),
        pytest.param(Spark(version_text=CLOSED), "bad", {"driver.flavour.closed"}, id="closed"),
        pytest.param(
            Spark(userspace="580.173.02"),
            "bad",
            {"driver.userspace.mismatch", "driver.next_boot.mismatch"},
            id="libraries-of-another-version",
        ),
        pytest.param(Spark(loaded=None), "bad", {"driver.loaded.none"}, id="not-loaded"),
        pytest.param(Spark(userspace=None), "unknown", {"driver.userspace.unknown"}, id="no-libraries"),
        pytest.param(
            Spark(packages=(package("libnvidia-gl-580", "580.173.02-0ubuntu0.24.04.1"),)),
            "bad",
            {"driver.packages.mixed"},
            id="one-package-alone",
        ),
        pytest.param(
            Spark(packages=(package("nvidia-firmware-580-580.173.02", "580.173.02-0ubuntu0.24.04.1"),)),
            "good",
            set(),
            id="firmware-of-two-versions-may-be-there",
        ),
        pytest.param(
            Spark(packages=(package("nvidia-dkms-580-open", "580.142-1", "install ok half-configured"),)),
            "bad",
            {"driver.packages.broken"},
            id="half-configured",
        ),
        pytest.param(
            Spark(packages=(package("linux-nvidia-hwe-24.04", "6.17.0-1014.14"),)),
            "good",
            {"driver.holds.partial"},
            id="held-in-part",
        ),
        pytest.param(Spark(held=False), "good", set(), id="not-held-and-nothing-moves-it"),
        pytest.param(
            Spark(held=False, more={"etc/apt/apt.conf.d/20auto": 'APT::Periodic::Unattended-Upgrade "1";'}),
            "good",
            {"driver.holds.none"},
            id="unattended",
        ),
        pytest.param(
            Spark(
                held=False,
                more={
                    "etc/apt/apt.conf.d/20auto": 'APT::Periodic::Unattended-Upgrade "1";',
                    "etc/apt/apt.conf.d/99off": '// for us\nAPT::Periodic::Unattended-Upgrade "0";',
                },
            ),
            "good",
            set(),
            id="a-later-file-switches-it-off",
        ),
        pytest.param(
            Spark(
                held=False,
                more={
                    "etc/apt/apt.conf.d/20auto": 'APT::Periodic { Unattended-Upgrade "1"; };',
                    "etc/apt/apt.conf.d/99off.dpkg-old": 'APT::Periodic::Unattended-Upgrade "0";',
                },
            ),
            "good",
            {"driver.holds.none"},
            id="apt-does-not-read-that-file",
        ),
        pytest.param(
            Spark(held=False, more={f"usr/lib/systemd/system/{driver_traces.UPGRADE_ONCE}": "[Service]"}),
            "good",
            {"driver.holds.none"},
            id="upgrade-once",
        ),
        pytest.param(
            Spark(
                more={
                    "usr/bin/nvidia-uninstall": "",
                    "var/log/nvidia-installer.log": "driver_version : 580.95.05",
                }
            ),
            "good",
            {"driver.runfile.over_apt"},
            id="runfile",
        ),
        pytest.param(
            Spark(more={"var/log/nvidia-installer.log": "nvidia-installer log file"}),
            "good",
            {"driver.runfile.trace"},
            id="runfile-once",
        ),
        pytest.param(
            Spark(
                more={"etc/cdi/nvidia.yaml": "  hostPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.95.05"}
            ),
            "good",
            {"driver.cdi.stale"},
            id="cdi-of-another-driver",
        ),
        pytest.param(
            Spark(
                more={
                    "run/cdi/nvidia.json": '{"p":"/lib/libcuda.so.580.142","q":"/lib/libnvidia-egl-gbm.so.1.1.2"}'
                }
            ),
            "good",
            set(),
            id="cdi-of-this-driver",
        ),
        pytest.param(
            Spark(more={"etc/modprobe.d/zz-nvidia-drm-override.conf": "options nvidia-drm modeset=1"}),
            "good",
            {"driver.memory.override"},
            id="an-override",
        ),
        pytest.param(
            Spark(
                more={
                    "etc/modprobe.d/nvidia.conf": "options nvidia NVreg_PreserveVideoMemoryAllocations=1\n"
                    "options nvidia_drm modeset=1 fbdev=0\n# options nvidia NVreg_MemLimit=1"
                }
            ),
            "good",
            set(),
            id="harmless-options",
        ),
        pytest.param(
            Spark(more={"sys/kernel/kexec_crash_size": "536870912"}),
            "good",
            {"driver.kernel.crash_memory"},
            id="crash-kernel",
        ),
    ],
)
def test_one_thing_is_otherwise(tmp_path, spark, verdict, notes):
    got, found, _facts = judged(tmp_path, spark)
    told = {name for name in found if name != "driver.pair.unlisted" or notes & {name}}
    assert (got, told) == (verdict, notes)


def test_the_next_boot_counts_not_the_running_kernel(tmp_path):
    """The kernel is installed, its modules are not, and all is well until the reboot."""
    spark = Spark(kernels={NEW: None, KERNEL: DRIVER})
    _verdict, notes, facts = judged(tmp_path, spark)
    assert facts["kernel"] == {"running": KERNEL, "next_boot": NEW, "modules_present": False}
    assert f"linux-modules-nvidia-580-open-{NEW}" in notes["driver.kernel.no_module"]


def test_modules_on_the_disk_that_modprobe_does_not_find(tmp_path):
    root = Path(Spark().write(tmp_path))
    (root / f"lib/modules/{KERNEL}/modules.dep").write_text("kernel/x.ko:\n")
    _verdict, notes = driver_judgement.judge(driver.look(str(root), ""))
    assert [(note.id, "depmod" in note.evidence) for note in notes] == [("driver.kernel.no_module", True)]
    write_modules(root, KERNEL, DRIVER)
    (root / f"lib/modules/{KERNEL}/kernel/nvidia-580-open/nvidia.ko").unlink()
    _verdict, notes = driver_judgement.judge(driver.look(str(root), ""))
    assert [(note.id, "not on the disk" in note.evidence) for note in notes] == [
        ("driver.kernel.no_module", True)
    ]
    (root / f"boot/vmlinuz-{KERNEL}").unlink()
    _verdict, notes = driver_judgement.judge(driver.look(str(root), ""))
    assert "driver.kernel.no_image" in {note.id for note in notes}


@pytest.mark.parametrize(
    ("log", "notes"),
    [
        (XID.format("0x2 (Node Reboot Required)"), {"driver.xid.recovery"}),
        (XID.format("0x1 (GPU Reset Required)") + "\n" + XID.format("0x0 (None)"), set()),
        ("NVRM: Xid (PCI:000f:01:00): 154, cut", {"driver.xid.recovery"}),
        ("NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)", {"driver.gpu.not_started"}),
        ("pci 000f:01:00.0: DOE: [2c8] mailbox timeout", {"driver.gpu.doe"}),
        ("NVRM: Xid (PCI:000f:01:00): 13, Graphics Exception", set()),
        ("NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) @ mem_desc.c:1359", set()),
        ("pci 000f:01:00.0: DOE: 1 mailboxes", set()),
    ],
)
def test_what_the_kernel_said(tmp_path, log, notes):
    verdict, found, _facts = judged(tmp_path, Spark(), log)
    assert (verdict, set(found)) == ("bad" if notes else "good", notes)


def test_xids_are_counted_and_unknown_without_a_log(tmp_path):
    assert read_kernel_log("NVRM: Xid (PCI:0:1): 13, a\nNVRM: Xid (PCI:0:1): 13\nx").xids == {"13": 2}
    assert driver.look(Spark().write(tmp_path)).as_dict()["xids"] is None


@pytest.mark.parametrize(
    ("wishes", "notes"),
    [
        ({"minimum": "590.48"}, {"driver.version.old"}),
        ({"minimum": "580.95.05"}, set()),
        ({"cuda_total_gib": 62.0}, {"driver.memory.hidden"}),
        ({"cuda_total_gib": 119.0}, set()),
    ],
)
def test_what_the_caller_wants(tmp_path, wishes, notes):
    more = {"etc/modprobe.d/zz-override.conf": "options nvidia x=1"} if "cuda_total_gib" in wishes else {}
    _verdict, found, _facts = judged(tmp_path, Spark(more=more), **wishes)
    assert set(found) == notes
    assert all("zz-override.conf" in text for text in found.values() if more)


def test_two_ranks_are_compared(tmp_path):
    _verdict, _notes, head = judged(tmp_path / "a", Spark())
    _verdict, _notes, worker = judged(tmp_path / "b", paired("590.48.01"))
    assert driver_judgement.compare({"spark-a": head, "spark-b": head}) == []
    (note,) = driver_judgement.compare({"spark-a": head, "spark-b": worker})
    assert (note.id, note.severity, note.hosts) == (
        "driver.version.unequal",
        "warning",
        ("spark-a", "spark-b"),
    )


@pytest.mark.parametrize(
    ("default", "environment", "expected"),
    [
        ("0", {}, "new"),
        ("1>1", {}, "old"),
        ("1", {}, "new"),
        ("gnulinux-advanced>gnulinux-old-advanced", {}, "old"),
        ("Advanced options for DGX OS GNU/Linux>DGX OS GNU/Linux, with Linux old", {}, "old"),
        ("gnulinux-old-advanced", {}, "new"),  # an entry of a submenu is not found by its id alone
        ("7", {}, "new"),
        ("${saved_entry}", {}, "new"),
        ("${saved_entry}", {"saved_entry": "1>gnulinux-old-advanced"}, "old"),
        ("0", {"saved_entry": "1>1"}, "new"),
        ("0", {"next_entry": "1>1"}, "old"),
        ("1>1", {"next_entry": "0"}, "new"),
    ],
)
def test_what_grub_boots_next(default, environment, expected):
    names = {"old": "6.17.0-1014-nvidia", "new": "6.17.0-1029-nvidia"}
    short = {text: word for word, text in names.items()}
    config = grub_config(*(names[word] for word in ("new", "old")), default="@").replace(
        'default="@"', f'default="{default.replace("old", names["old"])}"'
    )
    values = {name: value.replace("old", names["old"]) for name, value in environment.items()}
    assert short[grub.next_entry(config, grub_environment(**values)).release] == expected


@pytest.mark.parametrize(
    "config", ["", "}\n}\n", "menuentry 'x' {\n", "submenu 'x' {\n", 'set default="a>b>>c"']
)
def test_a_menu_that_names_no_kernel(config):
    assert grub.next_entry(config, "") is None


FILES = (
    "proc/driver/nvidia/version",
    "proc/sys/kernel/osrelease",
    "proc/meminfo",
    "boot/grub/grub.cfg",
    "var/lib/dpkg/status",
    f"lib/modules/{KERNEL}/modules.dep",
    f"lib/modules/{KERNEL}/kernel/nvidia-580-open/nvidia.ko",
)


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe" * 40, None], ids=["empty", "binary", "a-folder"])
def test_a_file_that_says_nothing_is_never_good(tmp_path, path, content):
    root = Path(Spark().write(tmp_path))
    if content is None:
        (root / path).unlink()
        (root / path).mkdir()
    else:
        (root / path).write_bytes(content)
    verdict, notes = driver_judgement.judge(driver.look(str(root), ""))
    assert verdict != "good" and notes


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_cut_off_is_no_traceback(tmp_path, path):
    root = Path(Spark().write(tmp_path))
    whole = (root / path).read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 20)):
        (root / path).write_bytes(whole[:length])
        look = driver.look(str(root), "")
        json.dumps(look.as_dict())
        driver_judgement.judge(look)


def test_a_node_with_nothing(tmp_path):
    verdict, notes = driver_judgement.judge(driver.look(str(tmp_path)))
    assert verdict == "unknown"
    assert {"driver.none", "host.look.failed"} == {note.id for note in notes}
    facts = driver.look(str(tmp_path)).as_dict()
    assert facts["driver"]["flavour"] == "none" and facts["packages"] is None
    assert facts["kernel"] == {"running": None, "next_boot": None, "modules_present": None}


def test_a_removed_driver_is_not_an_installed_one():
    text = (
        package("a", "1", "deinstall ok config-files") + "\n" + package("b", "2:3.4-5", "hold ok installed")
    )
    found = read_status(text + "\nPackage: c\nStatus: nonsense\n\nPackage:")
    assert {name: (each.state, each.installed, each.held) for name, each in found.items()} == {
        "a": ("rc", False, False),
        "b": ("hi", True, True),
    }
    assert found["b"].upstream == "3.4"


def test_the_rows_have_their_sources():
    for row in driver_versions.ROWS:
        assert row.mark in driver_versions.MARKS and row.source and row.why and row.kernels
        assert row.remedy or row.mark == "good"
    assert driver_versions.judge(None, None, ()) == ("unknown", None)
    assert driver_versions.judge("580.159.03", KHO, ())[0] == "bad"
    assert driver_versions.judge("580.159.03", KHO, ("kho=off",))[0] == "contested"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(), noise=st.binary(max_size=60), path=st.sampled_from(FILES), where=st.integers(0, 400))
def test_anything_in_a_file(tmp_path, text, noise, path, where):
    grub.next_entry(text, text)
    read_kernel_log(text)
    read_status(text)
    root = tmp_path / "node"
    if not root.exists():
        Spark().write(root)
    whole = (root / path).read_bytes()
    (root / path).write_bytes(whole[:where] + noise + whole[where:])
    driver_judgement.judge(driver.look(str(root), text))
    (root / path).write_bytes(whole)
    assert os.path.isdir(root)
