# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver and kernel as one pair: held, refused, changed up and down, cut off and brought back. The order counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest
from hands import INVENTORY, NODES, PROJECT, ansible, lab, play, shell, wait_for
from machine import install_factory

HEAD, WORKER = NODES
OLD, OLD_KERNEL = "580.142", "6.17.0-1014-nvidia"
NEW, NEW_KERNEL = "580.173.02", "6.17.0-1026-nvidia"
CONSENT = ("-e", "tandem_reboot=allowed")
FAMILY = "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n' '*nvidia*' 'dgx-*' | sort"
# All that a change could touch, and whether the node was booted.
STATE = f"""{FAMILY}; apt-mark showhold; apt-mark showauto
cat /proc/sys/kernel/random/boot_id; grub-editenv - list; md5sum /boot/grub/grub.cfg
cat /etc/apt/preferences.d/* /etc/default/grub.d/* /var/lib/tandem/driver.json 2>/dev/null"""
PAIR = """sed -n 's/.*aarch64 *\\([0-9.]*\\) .*/\\1/p' /proc/driver/nvidia/version; cat /proc/sys/kernel/osrelease"""


def pin(driver: str, kernel: str, *words: str) -> tuple[str, ...]:
    wish = {"tandem_driver_policy": "pin", "tandem_driver_version": driver, "tandem_driver_kernel": kernel}
    return ("-e", json.dumps(wish), *words)


def driver(*words: str):
    return play("playbooks/driver.yml", *words)


def flat(text: str) -> str:
    """Ansible folds long lines of a result anywhere."""
    return " ".join(text.split())


def module(node: str, name: str, *words: str, **arguments) -> str:
    return flat(
        ansible("ansible", node, "-m", f"tandem.spark.{name}", "-a", json.dumps(arguments), *words).text
    )


def state() -> list[str]:
    return [shell(node, STATE, check=False) for node in NODES]


def pair(node: str) -> tuple[str, ...]:
    """Driver and kernel that run."""
    return tuple(shell(node, PAIR, check=False).split())


def default_kernel(node: str) -> str:
    return shell(node, "grub-editenv - list | sed -n 's/saved_entry=.*>gnulinux-\\(.*\\)-advanced.*/\\1/p'")


def record(node: str) -> dict:
    return json.loads(shell(node, "cat /var/lib/tandem/driver.json"))


@contextmanager
def marked(node: str, mark: str, text: str):
    """The node's pretended hardware or dpkg behaves as /etc/lab says."""
    shell(node, f"mkdir -p /etc/lab; echo '{text}' > /etc/lab/{mark}")
    try:
        yield
    finally:
        shell(node, f"rm -f /etc/lab/{mark}")


# -- hold


def test_what_is_held_is_what_runs():
    for node in NODES:
        assert pair(node) == (OLD, OLD_KERNEL)
        held = shell(node, "apt-mark showhold").split()
        assert {f"linux-image-{OLD_KERNEL}", "nvidia-driver-580-open", f"nvidia-firmware-580-{OLD}"} <= set(
            held
        )
        assert "dgx-platform" in shell(node, "apt-mark showmanual").split()


def test_without_the_holds_everything_would_move():
    """The next tests could not fail otherwise."""
    for command in ("dist-upgrade", "--only-upgrade install nvidia-driver-580-open"):
        free = shell(WORKER, f"apt-get -s -o APT::Ignore-Hold=true {command}")
        assert f"Inst nvidia-driver-580-open [{OLD}-" in free, free


@pytest.mark.parametrize(
    "command",
    ["unattended-upgrade -v", "apt-get -y dist-upgrade", "apt-get -y upgrade", "apt-get -y autoremove"],
)
def test_no_upgrade_moves_it(command):
    before = shell(HEAD, FAMILY)
    said = shell(HEAD, f"export DEBIAN_FRONTEND=noninteractive; {command} 2>&1")
    assert shell(HEAD, FAMILY) == before, said


def test_but_other_packages_were_upgraded():
    assert shell(HEAD, "dpkg-query -W -f '${Version}' lab-tool") == "2.0"


def test_all_of_it_can_be_undone_and_done_again():
    before = state()[1]
    assert "CHANGED" in module(WORKER, "driver_packages", state="released")
    assert shell(WORKER, "apt-mark showhold; ls /var/lib/tandem/driver.json", check=False) == ""
    autoremoved = shell(WORKER, "apt-get -s autoremove")
    assert "Remv dgx-platform" in autoremoved, "the marks are as they were"
    assert "CHANGED" in module(WORKER, "driver_packages", state="held")
    assert state()[1] == before
    assert "SUCCESS" in module(WORKER, "driver_packages", state="held")


# -- what is refused


def test_consent_is_given_on_the_command_line_or_not_at_all(tmp_path):
    before = state()
    (tmp_path / "consent.yml").write_text("tandem: {vars: {tandem_reboot: allowed}}\n")
    run = driver("-i", str(tmp_path / "consent.yml"), *pin(NEW, NEW_KERNEL))
    assert run.code != 0 and "in the inventory" in flat(run.text)
    assert state() == before


def test_a_change_is_shown_and_waits_for_consent():
    before = state()
    run = driver(*pin(NEW, NEW_KERNEL))
    assert run.code != 0 and "add this to the same command: -e tandem_reboot=allowed" in flat(run.text)
    assert f"nvidia-driver-580-open {OLD}-0ubuntu0.24.04.1 -> {NEW}-0ubuntu0.24.04.1" in flat(run.text)
    assert state() == before


def test_a_removal_outside_driver_and_kernel_stops_it_on_all_ranks():
    shell(HEAD, "apt-get -qq -y install lab-monitor")
    before = state()
    try:
        run = driver(*pin(NEW, NEW_KERNEL, *CONSENT))
        assert run.code != 0 and "apt would remove lab-monitor" in flat(run.text)
        assert state() == before
    finally:
        shell(HEAD, "apt-get -qq -y purge lab-monitor")


def test_a_fallback_without_its_modules_is_refused():
    said = module(WORKER, "driver_packages", state="planned", version="580.178.04")
    assert f"apt would remove linux-modules-nvidia-580-open-{OLD_KERNEL}" in said
    allowed = module(WORKER, "driver_packages", state="planned", version="580.178.04", fallback="kernel")
    assert (
        "apt would remove" not in allowed and f"remove linux-modules-nvidia-580-open-{OLD_KERNEL}" in allowed
    )


def test_a_wish_that_is_not_met_is_said_and_nothing_is_done():
    """As site.yml does it."""
    before = state()
    said = module(WORKER, "driver_packages", state="held", version=NEW, kernel=NEW_KERNEL)
    assert "SUCCESS" in said and "driver.pin.unmet" in said
    said = module(WORKER, "driver_packages", state="held", version="999.1")
    assert "SUCCESS" in said and "driver.pin.impossible" in said
    assert state() == before


def test_a_kernel_ahead_of_its_modules_is_not_booted():
    """An upgrade in phases took the kernel and left its modules: after a boot there would be no GPU."""
    metas = " ".join(f"linux-{part}nvidia-hwe-24.04=6.17.0-1026.26" for part in ("", "image-", "headers-"))
    moving = "--allow-downgrades --allow-change-held-packages"
    shell(WORKER, f"DEBIAN_FRONTEND=noninteractive apt-get -qq -y {moving} install {metas} 2>&1")
    try:
        assert "driver.kernel.no_module" in module(WORKER, "driver_info", root="/")
        said = module(WORKER, "driver_boot", state="once", driver=OLD, kernel=NEW_KERNEL)
        assert "FAILED" in said and f"{NEW_KERNEL} has no NVIDIA module" in said
        assert "next_entry" not in shell(WORKER, "grub-editenv - list")
    finally:
        install_factory(WORKER, OLD, "1014")
        shell(
            WORKER, f"apt-get -qq -y purge linux-image-{NEW_KERNEL} linux-modules-{NEW_KERNEL}; update-grub"
        )
        assert "CHANGED" in module(WORKER, "driver_packages", state="held")


# -- with an engine


ENGINE = """set -e
mkdir -p /opt/tandem/releases/0123456789abcdef
ln -sfn releases/0123456789abcdef /opt/tandem/current
printf '[Service]\\nExecStart=/usr/bin/sleep infinity\\n' > /etc/systemd/system/{unit}
systemctl daemon-reload; systemctl start {unit}"""
NO_ENGINE = """systemctl stop {unit}; rm -f /etc/systemd/system/{unit} /opt/tandem/current
rm -rf /opt/tandem/releases/0123456789abcdef; systemctl daemon-reload"""
UNITS = {HEAD: "tandem-head.service", WORKER: "tandem-worker.service"}


def active() -> list[str]:
    return [shell(node, f"systemctl is-active {unit}", check=False) for node, unit in UNITS.items()]


@pytest.fixture
def engine():
    """Units by the names of an engine's, in a release that was never proved, so that nothing is started again."""
    for node, unit in UNITS.items():
        shell(node, ENGINE.format(unit=unit))
    yield
    for node, unit in UNITS.items():
        shell(node, NO_ENGINE.format(unit=unit), check=False)


# -- up, down, cut off


def test_check_shows_the_change_and_changes_nothing():
    before = state()
    run = driver("--check", "--diff", *pin(NEW, NEW_KERNEL))
    assert run.code == 0, run.text
    assert f"+upgrade nvidia-driver-580-open {OLD}-0ubuntu0.24.04.1 -> {NEW}-0ubuntu0.24.04.1" in flat(
        run.text
    )
    assert state() == before


def test_up_one_rank_after_the_other(engine):
    assert active() == ["active", "active"]
    boots = [shell(node, "cat /proc/sys/kernel/random/boot_id") for node in NODES]
    run = driver(*pin(NEW, NEW_KERNEL, *CONSENT))
    assert run.code == 0, run.text
    order = [run.text.index(f"included: tandem.spark.driver for {node}") for node in (WORKER, HEAD)]
    assert order == sorted(order)
    assert active() == ["inactive", "inactive"], (
        "stopped on all ranks, and nothing was ever proved to start again"
    )
    assert run.text.index("tandem.spark.engine : Stop every rank") < run.text.index(
        "Install the packages of the pair"
    )
    for node, boot in zip(NODES, boots, strict=True):
        assert pair(node) == (NEW, NEW_KERNEL) and default_kernel(node) == NEW_KERNEL
        assert shell(node, "cat /proc/sys/kernel/random/boot_id") != boot
        there = shell(
            node, f"ls /boot/vmlinuz-{OLD_KERNEL} /lib/modules/{OLD_KERNEL}/kernel/nvidia-580-open/nvidia.ko"
        )
        assert OLD_KERNEL in there, "the way back stays"
        held = shell(node, "apt-mark showhold").split()
        assert f"linux-image-{NEW_KERNEL}" in held and f"linux-image-{OLD_KERNEL}" not in held
        assert record(node)["change"] is None


def test_a_second_run_is_quiet():
    before = state()
    run = driver(*pin(NEW, NEW_KERNEL))
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert "nothing to do" in flat(run.text)
    assert state() == before


def test_down_with_the_whole_closure_though_the_run_is_cut_off():
    """The controller dies while dpkg works; dpkg goes on, and the same command takes the change up."""
    words = ["ansible-playbook", "-i", str(INVENTORY), str(PROJECT / "playbooks/driver.yml")]
    with marked(WORKER, "slow", ""):
        running = subprocess.Popen(
            [*words, *pin(OLD, OLD_KERNEL, *CONSENT)],
            cwd=PROJECT,
            env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        active = "systemctl is-active tandem-driver.service"
        try:
            wait_for("apt at work", lambda: shell(WORKER, active, check=False) == "active")
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert record(WORKER)["change"]["stage"] == "installing"
    run = driver(*pin(OLD, OLD_KERNEL, *CONSENT))
    assert run.code == 0, run.text
    for node in NODES:
        assert pair(node) == (OLD, OLD_KERNEL) and default_kernel(node) == OLD_KERNEL
        pins = shell(node, "grep -c ^Package: /etc/apt/preferences.d/tandem-driver")
        assert int(pins) >= 21
        versions = shell(node, "dpkg-query -W -f '${Version}\\n' '*nvidia*580*' | grep ^580 | sort -u")
        assert versions == f"{OLD}-0ubuntu0.24.04.1"


def test_dpkg_that_was_killed_is_finished_by_the_next_step():
    """The power went while dpkg unpacked: packages are half configured, and the record says that it was us."""
    shell(WORKER, "mkdir -p /etc/lab; touch /etc/lab/slow")
    arguments = json.dumps({"state": "installed", "version": NEW, "kernel": NEW_KERNEL})
    running = subprocess.Popen(
        ["ansible", "-i", str(INVENTORY), WORKER, "-m", "tandem.spark.driver_packages", "-a", arguments],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    halves = "dpkg-query -W -f '${db:Status-Abbrev}\\n' '*nvidia*' | grep -c -E '^.[UF]'"
    wait_for("half of it", lambda: shell(WORKER, halves, check=False) not in ("", "0"))
    lab("off", WORKER)
    running.wait()
    lab("on", WORKER)
    shell(WORKER, "rm -f /etc/lab/slow")
    assert pair(WORKER)[1] == OLD_KERNEL, "what boots is the kernel of before"
    said = module(WORKER, "driver_packages", state="planned", version=NEW, kernel=NEW_KERNEL)
    assert "dpkg is not through" not in said, "it was this change that was cut off"
    assert "CHANGED" in module(WORKER, "driver_packages", state="installed", version=NEW, kernel=NEW_KERNEL)
    assert shell(WORKER, "dpkg --audit") == ""
    assert record(WORKER)["change"]["stage"] == "installed"


def test_a_kernel_that_does_not_come_up_leaves_the_old_one_the_default():
    """It goes on from the test before: the packages are there on the worker, and the pair does not run."""
    before = shell(HEAD, STATE, check=False)
    with marked(WORKER, "panics", NEW_KERNEL):
        run = driver(*pin(NEW, NEW_KERNEL, *CONSENT))
    assert run.code != 0 and "it did not come up" in flat(run.text), run.text
    assert f"-e tandem_driver_version={OLD} -e tandem_driver_kernel={OLD_KERNEL}" in flat(run.text)
    assert pair(WORKER)[1] == default_kernel(WORKER) == OLD_KERNEL
    assert "next_entry" not in shell(WORKER, "grub-editenv - list")
    assert shell(HEAD, STATE, check=False) == before, "the head was not touched"


def test_a_kernel_without_its_driver_is_left_again():
    with marked(WORKER, "no-driver", NEW_KERNEL):
        run = driver(*pin(NEW, NEW_KERNEL, *CONSENT))
    assert run.code != 0 and "driver none is loaded" in flat(run.text), run.text
    assert pair(WORKER)[1] == default_kernel(WORKER) == OLD_KERNEL


def test_the_way_back_that_was_named_leads_back():
    run = driver(*pin(OLD, OLD_KERNEL, *CONSENT))
    assert run.code == 0, run.text
    assert [pair(node) for node in NODES] == [(OLD, OLD_KERNEL)] * 2
    assert record(WORKER)["change"] is None


def test_with_the_wish_gone_the_pair_is_only_held():
    run = driver()
    assert run.code == 0, run.text
    for node in NODES:
        assert "tandem-driver" not in shell(node, "ls /etc/apt/preferences.d")
        assert "nvidia-driver-580-open" in shell(node, "apt-mark showhold")
