# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem fabric --env`: what a rank starts with, and why it must not start."""

from __future__ import annotations

import copy
import json
from ipaddress import IPv4Interface

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import cli, fabric_command, fabric_env, page_cache
from sysfs_tree import write_tree

TREE = """
rocep1s0f0 enp1s0f0np0
  2 192.168.177.1 v1
  3 192.168.177.1 v2
roceP2p1s0f0 enP2p1s0f0np0
  2 192.168.178.1 v1
  3 192.168.178.1 v2
"""

PLAN = {
    "group": "tandem",
    "rank": 0,
    "ranks": 2,
    "hosts": ["spark-a", "spark-b"],
    "fabric": {
        "mtu": 9000,
        "rails": [
            {
                "index": index,
                "netdev": netdev,
                "hca": hca,
                "address": f"192.168.{177 + index}.1/29",
                "subnet": f"192.168.{177 + index}.0/29",
                "peers": [f"192.168.{177 + index}.2"],
            }
            for index, (netdev, hca) in enumerate(
                (("enp1s0f0np0", "rocep1s0f0"), ("enP2p1s0f0np0", "roceP2p1s0f0"))
            )
        ],
    },
    "master_addr": "192.168.177.1",
    "master_port": 25000,
    "api": {"host": "0.0.0.0", "port": 8888, "model": "m"},
    "nccl": {"NCCL_NET": "IB", "NCCL_DEBUG": "", "NCCL_IB_GID_INDEX": "7"},
}


# Case 051: interfaces of somebody else's machine, as images and recipes bring them along.
BAKED = {
    name: "enP7s7"
    for name in (
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
        "VLLM_HOST_IP",
    )
}


@pytest.fixture
def start(tmp_path, capsys):
    """Run `tandem fabric --env` on a tree and a plan -> (exit code, variables or None, stderr)."""

    def run(tree=TREE, plan=PLAN):
        sysfs = write_tree(tmp_path / "sys", tree)
        plan_file, output = tmp_path / "plan.json", tmp_path / "run/fabric.env"
        plan_file.write_text(plan if isinstance(plan, str) else json.dumps(plan))
        output.parent.mkdir(exist_ok=True)
        output.write_text('NCCL_IB_GID_INDEX="5"\n')
        words = ["fabric", "--env", "--plan", str(plan_file), "--sysfs-root", sysfs, "--output", str(output)]
        code = cli.main(words)
        variables = None
        if output.exists():
            variables = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return code, variables, capsys.readouterr().err

    return run


def changed(**fabric):
    plan = copy.deepcopy(PLAN)
    for path, value in fabric.items():
        *parents, last = path.split("__")
        target = plan["fabric"]
        for part in parents:
            target = target[int(part) if part.isdecimal() else part]
        target[last] = value
    return plan


def test_a_pinned_rank(start):
    code, variables, _ = start()
    assert code == 0
    assert variables == {
        "NCCL_NET": '"IB"',
        "NCCL_IB_HCA": '"=rocep1s0f0,roceP2p1s0f0"',
        "NCCL_IB_GID_INDEX": '"3"',
        "NCCL_SOCKET_IFNAME": '"=enp1s0f0np0"',
        "GLOO_SOCKET_IFNAME": '"enp1s0f0np0"',
        "TP_SOCKET_IFNAME": '"enp1s0f0np0"',
        "UCX_NET_DEVICES": '"enp1s0f0np0"',
        "VLLM_HOST_IP": '"192.168.177.1"',
        "TANDEM_NODE_RANK": '"0"',
        "TANDEM_MASTER_ADDR": '"192.168.177.1"',
        "TANDEM_MASTER_PORT": '"25000"',
    }


def test_addresses_that_could_not_be_read_are_unknown_and_not_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(fabric_env.fabric_look, "is_live", lambda root: True)
    monkeypatch.setattr(
        fabric_env.commands, "ask", lambda *words, **options: fabric_env.commands.Answer(None, "")
    )
    with pytest.raises(fabric_env.FabricEnvError, match="addresses of this node are unknown"):
        fabric_env.look_at_machine(write_tree(tmp_path / "sys", TREE))


def test_what_others_baked_in_never_reaches_a_rank(start):
    """Case 052 too: rendezvous, message queue and gloo are all on the rail, never one of them on the LAN."""
    code, variables, _ = start(plan={**PLAN, "nccl": {**PLAN["nccl"], **BAKED}})
    assert code == 0 and set(BAKED) <= set(variables) and "enP7s7" not in str(variables)
    assert variables["VLLM_HOST_IP"] == variables["TANDEM_MASTER_ADDR"]


def test_a_moved_table_is_followed_and_a_pin_of_the_plan_is_not(start):
    code, variables, _ = start(TREE.replace("3 192.168.178.1", "5 192.168.178.1"))
    assert code == 0 and "NCCL_IB_GID_INDEX" not in variables
    assert variables["NCCL_IB_ADDR_FAMILY"] == '"AF_INET"'
    assert variables["NCCL_IB_ADDR_RANGE"] == '"192.168.176.0/22"'
    assert variables["NCCL_IB_ROCE_VERSION_NUM"] == '"2"'


def test_rails_without_hca_carry_sockets(start):
    code, variables, _ = start(plan=changed(rails__0__hca=None, rails__1__hca=None))
    assert code == 0 and not [name for name in variables if name.startswith("NCCL_IB")]
    assert variables["VLLM_HOST_IP"] == '"192.168.177.1"'


REFUSED = [
    (
        "address",
        TREE.replace("192.168.178.1", "192.168.179.9"),
        PLAN,
        "has 192.168.179.9; wanted 192.168.178.1/29",
    ),
    ("no address", "rocep1s0f0 enp1s0f0np0\nroceP2p1s0f0 enP2p1s0f0np0\n", PLAN, "has no IPv4 address"),
    ("mtu", TREE.replace("enp1s0f0np0", "enp1s0f0np0 mtu=1500", 1), PLAN, "has MTU 1500; wanted 9000"),
    (
        "carrier",
        TREE.replace("enp1s0f0np0", "enp1s0f0np0 operstate=down", 1),
        PLAN,
        "enp1s0f0np0 has no carrier",
    ),
    ("carrier unknown", TREE.replace("enp1s0f0np0", "enp1s0f0np0 operstate=x", 1), PLAN, "does not tell"),
    ("port down", TREE.replace("f0np0", "f0np0 state=DOWN operstate=up", 1), PLAN, "its port is DOWN"),
    ("mtu unknown", TREE.replace("enp1s0f0np0", "enp1s0f0np0 mtu=x", 1), PLAN, "has MTU unknown"),
    ("interface gone", TREE.replace("enP2p1s0f0np0", "eth7"), PLAN, "enP2p1s0f0np0 does not exist"),
    ("device gone", TREE, changed(rails__1__hca="mlx5_3"), "mlx5_3 matches no port"),
    ("version 1 only", TREE.replace("3 192.168.178.1 v2", "3 192.168.178.1 v1"), PLAN, "RoCE v1 only"),
    ("type unknown", TREE.replace("3 192.168.178.1 v2", "3 192.168.178.1 -"), PLAN, "roceP2p1s0f0"),
    (
        "rails swapped",
        TREE,
        changed(rails__0__hca="roceP2p1s0f0", rails__1__hca="rocep1s0f0"),
        "the plan has it on",
    ),
    ("no JSON", TREE, "{", "is not JSON"),
    ("no plan", TREE, "[]", "holds no plan"),
    ("empty plan", TREE, {}, "cannot be understood"),
    ("bad address", TREE, changed(rails__0__address="x"), "cannot be understood"),
    ("bad rails", TREE, changed(rails=7), "cannot be understood"),
    ("bad rank", TREE, {**PLAN, "rank": None}, "cannot be understood"),
    ("bad mtu", TREE, changed(mtu=float("inf")), "cannot be understood"),
    ("bad hca", TREE, changed(rails__0__hca=["rocep1s0f0"]), "matches no port"),
    ("bottomless", TREE, "[" * 60_000, "is not JSON"),
    ("line break", TREE, {**PLAN, "nccl": {"NCCL_NET": "IB\nPATH=/tmp"}}, "cannot be written"),
]


@pytest.mark.parametrize(("tree", "plan", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_rank_that_must_not_start(start, tree, plan, reason):
    """Exit 1, the reason in plain words, and nothing of the last start left behind."""
    code, variables, said = start(tree, plan)
    assert (code, variables) == (1, None)
    assert reason in said and "Traceback" not in said


def test_all_reasons_are_told_at_once(start):
    tree = TREE.replace("enp1s0f0np0", "enp1s0f0np0 mtu=1500", 1).replace("192.168.178.1", "10.0.0.1")
    _, _, said = start(tree)
    assert "MTU 1500" in said and "10.0.0.1" in said


def test_a_missing_plan(tmp_path, capsys):
    assert (
        cli.main(["fabric", "--env", "--plan", str(tmp_path / "no"), "--output", str(tmp_path / "out")]) == 1
    )
    assert "no plan to read" in capsys.readouterr().err


def test_a_folder_in_the_place_of_the_file_is_left_alone(tmp_path):
    (tmp_path / "kept").write_text("somebody's")
    assert cli.main(["fabric", "--env", "--output", str(tmp_path)]) == 1
    assert (tmp_path / "kept").exists()


def test_on_a_live_node_the_prefix_counts_too(tmp_path):
    """The GID has no prefix; `ip` has."""
    machine = fabric_env.look_at_machine(write_tree(tmp_path, TREE))
    addresses = {
        "enp1s0f0np0": (IPv4Interface("192.168.177.1/24"),),
        "enP2p1s0f0np0": (IPv4Interface("192.168.178.1/29"),),
    }
    live = fabric_env.Machine(machine.tree, machine.devices, addresses, True)
    with pytest.raises(fabric_env.FabricEnvError, match="192.168.177.1/24; wanted 192.168.177.1/29"):
        fabric_env.environment(PLAN, live)


def test_revert_says_whether_there_was_something(monkeypatch, capsys):
    for undone, said in ((True, "undone\n"), (False, "nothing to undo\n")):
        monkeypatch.setattr(fabric_command.rails, "revert", lambda undone=undone: undone)
        assert cli.main(["fabric", "--revert"]) == 0
        assert capsys.readouterr().out == said


@pytest.mark.parametrize("words", [[], ["fabric"], ["fabric", "--env", "--revert"], ["nonsense"]])
def test_words_that_cannot_be_understood(words, capsys):
    with pytest.raises(SystemExit) as raised:
        cli.main(words)
    assert raised.value.code == 2 and "usage" in capsys.readouterr().err


def test_caches_are_dropped(tmp_path):
    path = tmp_path / "drop_caches"
    path.write_text("0\n")
    assert cli.main(["drop-caches", "--file", str(path)]) == 0
    assert path.read_text() == "3\n"


def test_caches_that_cannot_be_dropped(tmp_path, capsys):
    assert cli.main(["drop-caches", "--file", str(tmp_path)]) == 1
    assert "as root" in capsys.readouterr().err
    with pytest.raises(page_cache.DropCachesError):
        page_cache.drop(str(tmp_path / "no/such"))
