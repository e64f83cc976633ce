# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is a machine of its own: it boots, remembers, forgets and dies like one. The host notices nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from models import VARIANTS
from system import wait_until

BOTH = ("spark-a", "spark-b")
SWAPPINESS = "/proc/sys/vm/swappiness"
RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")


@pytest.mark.parametrize("node", BOTH)
def test_boots_completely(pair, node):
    assert pair.sh(node, "systemctl is-system-running --wait") == "running"


@pytest.mark.parametrize("path", ["/etc/machine-id", "/etc/hostname", "/etc/ssh/ssh_host_ed25519_key.pub"])
def test_nodes_differ(pair, path):
    assert pair.read("spark-a", path) != pair.read("spark-b", path)


@pytest.mark.parametrize("node", BOTH)
def test_ssh_checks_the_host_key_and_lets_root_in(pair, node):
    assert pair.ssh(node, "id -un; uname -n") == f"root\n{node}"


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("node", BOTH)
def test_rails_are_as_from_the_factory(pair, node, rail):
    link = f"/sys/class/net/{rail}"
    assert pair.sh(node, f"cat {link}/operstate {link}/mtu") == "up\n1500"
    assert pair.sh(node, f"ip -4 -brief address show dev {rail}").split()[2:] == []
    assert "unmanaged" in pair.sh(node, f"networkctl list --no-legend {rail}")


def test_management_link_has_the_default_route(pair):
    assert "dev eth0" in pair.sh("spark-a", "ip route show default")


def test_the_client_reaches_the_nodes_and_the_host_does_not(pair):
    pair("client", "--", "socat", "-u", "OPEN:/dev/null", "TCP:192.168.50.12:22,connect-timeout=2")
    assert "192.168.50." not in Path("/proc/net/fib_trie").read_text()


def test_journal_is_kept(pair):
    pair.sh("spark-a", "logger -t labtest kept-over-a-reboot")
    pair("reboot", "spark-a")
    assert "kept-over-a-reboot" in pair.sh("spark-a", "journalctl --no-pager -t labtest -b -1 -o cat")


def test_a_reboot_forgets_what_a_reboot_forgets(fabric):
    fabric.sh("spark-a", "echo kept > /etc/kept; echo lost > /run/lost; sysctl -qw vm.swappiness=33")
    before = fabric.sh("spark-a", "cat /etc/machine-id; cat /sys/class/net/e*/address")
    first_boot = fabric.read("spark-a", "/proc/sys/kernel/random/boot_id")
    fabric.ssh("spark-a", "systemctl reboot", check=False)
    wait_until(lambda: not fabric.fails("spark-a", "test ! -e /run/lost"), 60, "another boot")
    fabric("up")
    assert fabric.read("spark-a", "/proc/sys/kernel/random/boot_id") != first_boot
    assert fabric.read("spark-a", "/etc/kept") == "kept"
    assert fabric.read("spark-a", SWAPPINESS) == Path(SWAPPINESS).read_text().strip()
    assert fabric.read("spark-a", "/sys/class/net/enp1s0f0np0/mtu") == "1500"
    assert "10.77.0.1" not in fabric.sh("spark-a", "ip -4 address")
    assert fabric.sh("spark-a", "cat /etc/machine-id; cat /sys/class/net/e*/address") == before


def test_a_node_that_shuts_down_is_off_until_it_is_switched_on(pair):
    pair.ssh("spark-b", "systemctl poweroff", check=False)  # may take the connection along
    wait_until(lambda: "spark-b 192.168.50.12 off" in pair("status"), 60, "a node that went off")
    assert "is off" in pair.run("exec", "spark-b", "--", "true").stderr
    pair("on", "spark-b")
    assert pair.ssh("spark-b", "uname -n") == "spark-b"


def test_memory_settings_stay_in_the_node(pair):
    host = Path(SWAPPINESS).read_text()
    pair.sh("spark-a", "sysctl -qw vm.swappiness=7; echo 3 > /proc/sys/vm/drop_caches")
    assert pair.sh("spark-a", f"cat {SWAPPINESS} /proc/sys/vm/drop_caches") == "7\n3"
    assert pair.read("spark-b", SWAPPINESS) != "7"
    assert Path(SWAPPINESS).read_text() == host


@pytest.mark.parametrize(
    "door",
    [
        "/proc/sys/kernel/pid_max",
        "/proc/sys/fs/file-max",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/proc/sysrq-trigger",
    ],
)
def test_other_doors_to_the_host_are_shut(pair, door):
    value = Path(door).read_text().split()[0] if "proc/sys/" in door else "never"
    assert pair.fails("spark-a", f"echo {value} > {door}")


def test_checkpoints_are_there_for_every_user(pair):
    script = "cd /srv/models && runuser -u nobody -- sha256sum lab*/model.safetensors"
    digests = [line.split()[0] for line in pair.sh("spark-a", script).splitlines()]
    assert len(digests) == len(set(digests)) == len(VARIANTS)


@pytest.mark.parametrize("node", BOTH)
def test_the_network_is_online_when_ssh_answers(pair, node):
    pair.sh(node, "timeout 5 systemctl start network-online.target")
