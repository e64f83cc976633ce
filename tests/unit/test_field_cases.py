# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the field met with GIDs, links, addresses and NCCL, case by case: what is concluded, on inputs of our own.

Each function is a case; its docstring is the conclusion. Where a fault has two ends, both are asked. Details have
tables of their own elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    collective,
    containers,
    fabric_wish,
    firmware,
    ibv,
    kernel_log,
    link,
    loaded_nccl,
    nccl_log,
    nccl_notes,
    nccl_rules,
    rails,
    rails_nm,
    rails_plan,
    rank_processes,
    selection,
)
from ansible_collections.tandem.spark.plugins.plugin_utils import rails_found
from pretend_node import PretendNode
from pretend_node import link as interface
from sysfs_tree import write_tree

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
HCAS = {FIRST: "rocep1s0f0", SECOND: "roceP2p1s0f0"}
PORTS = [(hca, 1) for hca in HCAS.values()]
QP = "a:1:2 [0] x.cc:3 NCCL WARN Call to ibv_modify_qp failed with"


def table(first: str, second: str) -> str:
    """Two twins of cage p0 with these lines of their tables, separated by commas."""
    parts = []
    for netdev, lines in ((FIRST, first), (SECOND, second)):
        slots = "".join(f"  {line.strip()}\n" for line in lines.split(",") if line.strip())
        parts.append(f"{HCAS[netdev]} {netdev} port=p0\n{slots}")
    return "".join(parts)


def both(index: int, host: int, before: str = "0 fe80::1 v1, 1 fe80::1 v2") -> str:
    """Twins whose IPv4 entry is v1 at the index before and v2 at this one."""
    return table(
        *(f"{before}, {index - 1} 10.9.{rail}.{host} v1, {index} 10.9.{rail}.{host} v2" for rail in (0, 1))
    )


@pytest.fixture
def choose(tmp_path):
    """A table and a wish -> the selection, and the ids of what is said of it."""
    count = iter(range(99))

    def chosen(tree: str, around=None, **wish):
        devices = ibv.read_devices(write_tree(tmp_path / str(next(count)), tree)).devices
        found, notes = selection.select(devices, fabric_wish.wish(**wish), around)
        return found, [note.id for note in notes]

    return chosen


def said(*lines: str, **options) -> list[str]:
    return [note.id for note in nccl_notes.judge(nccl_log.read_log(lines), **options)]


def channels(*devices: str) -> list[str]:
    return [
        f"a:1:2 [0] NCCL INFO Channel 0{n}/0 : 1[0] -> 0[0] [receive] via {name}"
        for n, name in enumerate(devices)
    ]


def of_environment(**environment: str) -> list[str]:
    return [
        note.id for note in rank_processes.of_environment(environment, "pid 1 (x)", PORTS, [FIRST, "enP7s7"])
    ]


def rank(**values):
    seen = {
        "rdma_devices": 2,
        "memlock_bytes": None,
        "locks": True,
        "environment": {},
        "beside": (),
        **values,
    }
    return rank_processes.Rank(315, "VLLM::Worker", None, "docker 0f3b0f3b0f3b", **seen)


def peers_of(tmp_path, answers, *links) -> list[str]:
    node = PretendNode(tmp_path, *links)
    node.answers = answers
    wanted = [rails_plan.Rail(FIRST, "192.168.177.1/29", 9000, ("192.168.177.2",))]
    return [note.id for note in rails.confirm(node, wanted, 5)]


# -- A: GIDs ---------------------------------------------------------------------------------------------------------
def case_001(choose):
    """Each node its own index, of RoCE v2: 3 and 5. Empty here is our fault, empty there is the peer's."""
    assert choose(both(3, 1))[0].gid_index == 3
    worker = choose(both(5, 2, "0 fe80::1 v1, 1 fe80::1 v2, 2 fe80::2 v1, 3 fe80::2 v2"))[0]
    assert worker.gid_index == 5 and worker.env["NCCL_IB_GID_INDEX"] == "5"
    assert said(f"{QP} 61 No data available, local GID ::, remote GID ::ffff:10.9.1.2") == ["nccl.qp.gid_own"]
    assert said(f"{QP} 22 Invalid argument, local GID ::ffff:10.9.0.2, remote GID ::") == ["nccl.qp.gid_peer"]


def case_002(choose):
    """A list, an octal number and a placeholder are no index, though NCCL reads one."""
    for text in ("4,4", "010", "<GID_INDEX>", "auto", "0x3", " 3"):
        assert "fabric.gid.index_invalid" in choose(both(3, 1), gid_index=text)[1], text
        assert of_environment(NCCL_IB_GID_INDEX=text) == ["nccl.process.gid_index"]
    assert choose(both(3, 1), gid_index="3")[1] == []


def case_003(choose):
    """Where nothing is pinned the variable is absent, never empty; of an empty one nothing is claimed."""
    found = choose(table("3 10.9.0.1 v2", "4 10.9.1.1 v2"))[0]
    assert "NCCL_IB_GID_INDEX" not in found.env and "" not in found.env.values()
    assert of_environment(NCCL_IB_GID_INDEX="") == []


def case_005(choose):
    """An index that moved on one HCA only: no pin any more, and each HCA has its own."""
    before, after = choose(both(3, 1))[0], choose(table("3 10.9.0.1 v2", "4 10.9.1.1 v2"))[0]
    assert before.gid_index == 3 and after.gid_index is None
    assert after.per_hca == {"rocep1s0f0": 3, "roceP2p1s0f0": 4}


def case_006(choose):
    """v1 and v2 need not be neighbours: 6 and 3, no common index, no pin; the peer keeps its own."""
    shifted = "0 fe80::1 v1, 1 fe80::1 v2, 2 fe80::d4 v1, 4 fe80::d4 v2, 5 10.9.0.2 v1, 6 10.9.0.2 v2"
    worker, notes = choose(table(shifted, "2 10.9.1.2 v1, 3 10.9.1.2 v2"))
    assert worker.per_hca == {"rocep1s0f0": 6, "roceP2p1s0f0": 3} and worker.gid_index is None
    assert notes == ["fabric.gid.no_common_index"] and choose(both(3, 1))[0].gid_index == 3


def case_008(choose):
    """Only a twin with an address is used, and the other one is named."""
    found, notes = choose(table("3 10.9.0.1 v2", "0 fe80::1 v1, 1 fe80::1 v2"), hcas=["=rocep1s0f0"])
    assert found.hcas == ("rocep1s0f0",) and "fabric.rail.half_port" in notes
    found, notes = choose(table("3 10.9.0.1 v2", "0 fe80::1 v1, 1 fe80::1 v2"))
    assert found.hcas == ("rocep1s0f0",) and "fabric.hca.unaddressed" in notes


def case_009(choose):
    """No address, no start; the index is read after the address came, whatever it was before."""
    found = choose(table("0 fe80::1 v1", "0 fe80::2 v1"))[0]
    assert found.strategy == "none" and "no RoCE v2 entry" in found.reason
    assert [choose(both(index, 1))[0].gid_index for index in (3, 6)] == [3, 6]


def case_010(choose):
    """Of four Up HCAs the one whose address shares a subnet with the peer."""
    four = table("3 192.168.200.1 v2", "3 169.254.227.230 v2")
    four += "rocep1s0f1 enp1s0f1np1 port=p1\n  3 169.254.60.178 v2\n"
    four += "roceP2p1s0f1 enP2p1s0f1np1 port=p1\n  3 192.168.201.1 v2\n"
    found, notes = choose(four, peers=["192.168.200.2"])
    assert found.hcas == ("rocep1s0f0",) and "fabric.hca.other_subnet" in notes


def case_011(choose):
    """Link-local addresses are taken where they are all there is, with a warning that they may change."""
    tree = f"rocep1s0f0 {FIRST} port=p0\n  3 169.254.7.1 v2\n"
    found, notes = choose(tree, peers=["169.254.9.9"])
    assert found.hcas == ("rocep1s0f0",) and set(notes) & {
        "fabric.address.link_local",
        "fabric.address.link_local_unproven",
    }
    assert choose(tree, subnets=["192.168.177.0/29"])[0].strategy == "none"


def case_013(choose):
    """The other cage has other names, and each end of the cable its own."""
    moved = both(3, 1).replace("f0np0", "f1np1").replace("s0f0", "s0f1").replace("port=p0", "port=p1")
    assert choose(moved)[0].hcas == ("rocep1s0f1", "roceP2p1s0f1") and choose(both(4, 2))[0].gid_index == 4
    assert of_environment(NCCL_IB_HCA="=rocep1s0f1") == ["nccl.process.hca"]


def case_015(choose):
    """A table that moved and a device that is missing are two checks; neither is blamed for the other."""
    assert choose(both(3, 1))[0].gid_index != choose(both(5, 1))[0].gid_index
    assert [note.id for note in rank_processes.judge([rank(rdma_devices=0)], PORTS, [])] == [
        "nccl.process.no_rdma"
    ]
    assert said(*channels("NET/Socket/0")) == ["nccl.transport.socket"]


def case_017(choose):
    """A selector is a list of prefixes, = makes them names, ^ turns the whole list round, and a port is a number."""
    taken = {
        "roce": 2,
        "=roce": 0,
        "^rocep1": 1,
        "=rocep1s0f0,roceP2p1s0f0": 2,
        "rocep1s0f0:1": 1,
        "rocep1s0f0:2": 0,
        "rocep1s0f0:": 1,
        "rocep1s0f0:x": 0,
        "^=rocep1s0f0": 1,
        ",,roceP2": 1,
        "": 2,
    }
    for text, count in taken.items():
        selector = nccl_rules.parse_selector(text)
        assert sum(selector.takes(*port) for port in PORTS) == count, text
    assert choose(both(3, 1))[0].env["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"


def case_018(choose):
    """Both spellings of v1 are read, and a slot whose type cannot be read is never used."""
    assert choose(table("2 10.9.0.1 v1x, 3 10.9.0.1 v2", "3 10.9.1.1 v2"))[0].gid_index == 3
    found, notes = choose(table("3 10.9.0.1 -", "3 10.9.1.1 v2"))
    assert found.hcas == ("roceP2p1s0f0",) and "fabric.gid.type_unknown" in notes


# -- B: ports and links ----------------------------------------------------------------------------------------------
def seen(*functions, plan=None):
    """A node as the plan sees it: (netdev, PCI function, what differs) of each function."""
    devices, links = [], [{"name": "enP7s7", "carrier": True, "addresses": ["192.168.1.7/24"]}]
    for netdev, pci, *more in functions:
        port = {"netdev": netdev, "link_layer": "Ethernet", "state": "ACTIVE", "rate_gbps": 200.0}
        devices.append({"name": f"hca-{netdev}", "pci": pci, "ports": [port]})
        links.append(
            {"name": netdev, "carrier": True, "addresses": [], "virtual_function": False, **dict(*more)}
        )
    management = [{"name": "enP7s7", "reasons": ["default route"]}]
    return {"network": {"links": links, "management": management}, "ibv": {"devices": devices}, "plan": plan}


def case_019():
    """Which pair is Up differs between nodes, and so does the order in which they are listed."""
    down = {"carrier": False}
    one = seen((SECOND, "0002:01:00.0"), ("x", "0000:01:00.1", down), (FIRST, "0000:01:00.0"))
    other = seen(
        (FIRST, "0000:01:00.0", down), ("enP2p1s0f1np1", "0002:01:00.1"), ("enp1s0f1np1", "0000:01:00.1")
    )
    assert rails_found.cabled(one) == [FIRST, SECOND]
    assert rails_found.cabled(other) == ["enp1s0f1np1", "enP2p1s0f1np1"]


LEGACY = "".join(
    f"mlx5_{n} eth{n} pci=000{2 * (n // 2)}:01:00.{n % 2} guid=a port=p{n % 2}{'' if n % 2 == 0 else ' state=DOWN'}\n"
    + (f"  3 10.9.{n}.1 v2\n" if n % 2 == 0 else "")
    for n in range(4)
)


def case_020(choose):
    """mlx5_0 and mlx5_2 are the twins of one cage; a name proves nothing."""
    assert choose(LEGACY)[0].hcas == ("mlx5_0", "mlx5_2")


def case_021(choose):
    """Twins share the cage, not the PCI slot: one of them alone is half a port."""
    found, notes = choose(LEGACY, hcas=["=mlx5_0"])
    assert found.hcas == ("mlx5_0",) and notes == ["fabric.rail.half_port"]


def case_022(choose):
    """One of two Up twins is half the port: told by the choice, and by the rate of what carries."""
    assert "fabric.rail.half_port" in choose(both(3, 1), hcas=["=rocep1s0f0"])[1]
    assert "both HCAs" in collective.likely_cause(105, "ib")
    listed = "a:1:2 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB x:10.9.0.1<0>"
    assert "nccl.device.unused" in said(listed, *channels("NET/IB/0", "NET/IB/0"))


GOOD_RAIL = link.State(
    FIRST, "rocep1s0f0", True, 9000, 4096, "200 Gb/sec (4X HDR)", 200.0, link.Pcie(32.0, 4, 32.0, 4)
)


def case_024():
    """Rate, lanes and counters are good and it carries 13 Gb/s: only what was measured says that it is degraded."""
    limits = link.Limits(min_rail_gbps=85)
    point = link.Point("ib_write_bw", "10.9.0.2", ("rocep1s0f0",), 65536, 13.23)
    assert link.judge_states([GOOD_RAIL], limits) == []
    (note,) = link.judge_points([point], [GOOD_RAIL], {}, limits)
    assert note.id == "link.bandwidth.low" and "degraded" in note.summary
    healthy = link.Point("ib_write_bw", "10.9.0.2", ("rocep1s0f0",), 65536, 92.6)
    assert link.judge_points([healthy], [GOOD_RAIL], {}, limits) == []
    assert (
        kernel_log.read_kernel_log("mlx5_core 0000:01:00.0: Detected insufficient power (27W)").pcie is None
    )


def case_027():
    """Firmware is compared over nodes, and 24 Gb/s over RDMA names it before sockets."""
    look = {"product": "Spark", "system": "1", "hcas": {"rocep1s0f0": "28.45.4028"}}
    old = {**look, "hcas": {"rocep1s0f0": "28.43.1014"}}
    assert [note.id for note in firmware.compare({"a": look, "b": old})] == ["host.firmware.unequal"]
    assert "firmware" in collective.likely_cause(24.0, "ib") and "sockets" in collective.likely_cause(
        16.8, "socket"
    )


def case_028():
    """A fatal error on PCIe is the platform's: reboot, and no engine is started in a loop."""
    lines = "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error\nmlx5_pci_slot_reset+0x1c4"
    assert kernel_log.read_kernel_log(lines).pcie == lines.splitlines()[0]


def case_029():
    """After Xid 154 the GPU wants a reset or the node a reboot, before anything else."""
    xid = "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    assert kernel_log.read_kernel_log(xid).wanted == "Node Reboot Required"


def case_030(choose):
    """Twins in one subnet are warned of where they are found, refused where they are planned, never rewritten."""
    found, notes = choose(table("3 10.9.0.1 v2", "3 10.9.0.2 v2"))
    assert found.gid_index == 3 and notes == ["fabric.rail.twins_same_subnet"]
    functions = [(FIRST, "0000:01:00.0"), (SECOND, "0002:01:00.0")]
    nodes = {
        host: seen(
            *(
                (*each, {"addresses": [f"10.9.0.{2 * number + index + 1}/24"]})
                for index, each in enumerate(functions)
            )
        )
        for number, host in enumerate("ab")
    }
    taken, told = rails_found.taken(nodes, {host: [FIRST, SECOND] for host in nodes}, None)
    assert taken == {} and [note.id for note in told] == ["plan.rail.twins"]


def case_031():
    """`via NET/IB/2` proves nothing where NCCL says that it takes another device."""
    line = "a:1:2 [0] NCCL INFO NET/IB: Subnet-aware routing: overriding dev 2 with dev 0"
    assert "nccl.device.overridden" in said(line, *channels("NET/IB/2"))


def case_032():
    """RDMA's counters are read below the HCA: those of the interface stay flat."""
    reads = re.compile(r"statistics/[rt]x_bytes|class/net\S*statistics")
    assert [str(path) for path in PLUGINS.rglob("*.py") if reads.search(path.read_text())] == []
    uneven = [*channels(*["NET/IB/0"] * 9, "NET/IB/1")]
    assert "nccl.device.unused" not in said(*uneven)


def case_033(choose):
    """Peers share a subnet with a rail, or it is said that no rail reaches them."""
    found, notes = choose(both(3, 1), peers=["10.99.0.2"])
    assert found.strategy == "none" and "fabric.selection.none" in notes
    assert "fabric.peer.no_rail" in choose(both(3, 1), peers=["10.9.0.2", "10.99.0.2"])[1]


# -- C: MTU and addresses --------------------------------------------------------------------------------------------
def case_034(choose):
    """MTU 1500 is an RDMA MTU of 1024: a warning, for it costs a few per cent."""
    tree = f"rocep1s0f0 {FIRST} mtu=1500\n  3 10.9.0.1 v2\n"
    assert choose(tree)[1] == ["fabric.mtu.small"]
    assert (
        rank_processes.finding("fabric.mtu.small", hca="", netdev="", active_mtu=1, netdev_mtu=1).severity
        == "warning"
    )


def case_035(tmp_path):
    """One end at 1500: this end is named by its MTU, the other one by packets that do not come through whole."""
    fault = peers_of(tmp_path / "a", lambda *_: True, interface(FIRST, "192.168.177.1/29", mtu=1500))
    peer = peers_of(
        tmp_path / "b", lambda _n, _p, size: size <= 1500, interface(FIRST, "192.168.177.1/29", mtu=9000)
    )
    assert (fault, peer) == (["fabric.rail.mtu"], ["fabric.peer.path_mtu"])


def case_036(tmp_path):
    """An MTU that a firmware update took is seen again, and completion error 12 speaks of the path."""
    assert peers_of(tmp_path, lambda *_: True, interface(FIRST, "192.168.177.1/29")) == ["fabric.rail.mtu"]
    for status in ("12", "IBV_WC_RETRY_EXC_ERR(12)"):
        assert said(
            f"a:1:2 [0] x.cc:3 NCCL WARN NET/IB: Got completion from peer with status={status} opcode=0"
        ) == ["nccl.qp.timeout"]


def case_037():
    """NetworkManager has the MTU below [ethernet], not below [ipv4]."""
    files = rails_nm.persistent([rails_plan.Rail(FIRST, "192.168.177.1/29", 9000)])
    (text,) = [text for path, text in files.items() if path.endswith(".nmconnection")]
    ethernet, ipv4 = (text.partition(f"[{name}]")[2].partition("[")[0] for name in ("ethernet", "ipv4"))
    assert "mtu=9000" in ethernet and "mtu" not in ipv4


def case_039():
    """What is to last does not lie in /run."""
    wanted = [rails_plan.Rail(FIRST, "192.168.177.1/29", 9000)]
    assert all(path.startswith("/etc/") for path in rails_nm.persistent(wanted))
    assert any(path.startswith("/run/") for path in rails_nm.staged(wanted))


def case_040():
    """`netplan apply` is never called: it takes the management address away."""
    calls = re.compile(r"netplan[\"', ]+apply[\"']")
    assert [str(path) for path in PLUGINS.rglob("*.py") if calls.search(path.read_text())] == []


def case_042(tmp_path):
    """The address counts, not the unit that once set it."""
    assert peers_of(tmp_path, lambda *_: True, interface(FIRST, mtu=9000)) == ["fabric.rail.address"]


def case_044():
    """A rail's subnet that is the LAN's is refused."""
    wanted = [rails_plan.Rail(FIRST, "192.168.1.1/24", 9000)]
    links = {each.name: each for each in (interface(FIRST), interface("enP7s7", "192.168.1.7/24"))}
    told = rails_plan.refusals(wanted, [], links, [rails_plan.Route("default", "enP7s7")], ["enP7s7"])
    assert [note.id for note in told] == ["fabric.subnet.overlaps_route"]


# -- D: NCCL ---------------------------------------------------------------------------------------------------------
def case_045():
    """`NET/IB : Using` without a device is sockets."""
    lines = [
        f"a:1:2 [0] NCCL INFO {text}"
        for text in (
            "NET/IB : No device found.",
            "NET/IB : Using [RO]; OOB x:10.9.0.1<0>",
            "Using network Socket",
        )
    ]
    assert nccl_log.read_log([*lines, *channels("NET/Socket/0")]).transport == "socket"
    assert "nccl.ib.no_device" in said(*lines, *channels("NET/Socket/0"))


def case_046():
    """A container without /dev/infiniband and with 8 MiB to lock is named, before its start and while it runs."""
    made = '[{"Id": "0f", "Name": "/e", "State": {"Status": "created"}, "Config": {"Cmd": ["vllm"]}, '
    made += '"HostConfig": {"NetworkMode": "host"}}]'
    (note,) = containers.judge(containers.read_inspect(made), ["rocep1s0f0"])
    for flag in ("--device=/dev/infiniband", "--cap-add=IPC_LOCK", "--ulimit memlock=-1"):
        assert flag in note.summary
    given = rank(rdma_devices=0, memlock_bytes=8 << 20, locks=False)
    told = [note.id for note in rank_processes.judge([given], PORTS, [])]
    assert told == ["nccl.process.no_rdma", "nccl.process.memlock"]


def case_048():
    """Two devices side by side are both rails; nothing wants them fused."""
    listed = "a:1:2 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB x:10.9.0.1<0>"
    made = "a:1:2 [0] NCCL INFO NET/IB : Made virtual device [2] name=rocep1s0f0 speed=200000 ndevs=1"
    assert said(listed, made, *channels("NET/IB/0", "NET/IB/1"), wanted="ib") == []


def case_050():
    """A merge that NCCL refused is told, and is no error."""
    line = "a:1:2 [0] x.cc:3 NCCL WARN Fusing NET devices from different NUMA domains is not supported."
    (note,) = nccl_notes.judge(nccl_log.read_log([line]))
    assert (note.id, note.severity) == ("nccl.fusing.numa", "info")


def case_051():
    """Every interface that an image names must be on the node."""
    assert of_environment(GLOO_SOCKET_IFNAME="enP7s7") == []
    assert (
        of_environment(GLOO_SOCKET_IFNAME="eno1", NCCL_SOCKET_IFNAME=f"eno1,{FIRST}")
        == ["nccl.process.interface"] * 2
    )


def case_052():
    """First contact on the rail and the message queue on the LAN."""
    line = (
        "node_rank=0, master_addr=192.168.177.1, mq_connect_ip={} (local), world_size=2, local_world_size=1"
    )
    assert (
        said(line.format("10.0.5.7")) == ["nccl.queue.other_network"]
        and said(line.format("192.168.177.1")) == []
    )


def case_054():
    """What `docker exec -e` sets is no engine's; a plugin that hangs is named with the variable that ends it."""
    shell = rank_processes.Beside(800, "bash", {"NCCL_NET_PLUGIN": "none"})
    (note,) = rank_processes.judge([rank(beside=(shell,))], PORTS, [])
    assert note.id == "nccl.process.beside" and "make the container anew" in note.remedy
    start = "a:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 - Init START"
    lines = ["a:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin FastFabric (v10)", start]
    (note,) = nccl_notes.judge(nccl_log.read_log(lines))
    assert note.id == "nccl.plugin.stuck" and "NCCL_NET_PLUGIN=none" in note.remedy
    # Sockets by NCCL_IB_DISABLE=1: that the network IB does not start is expected, and no fault of its own.
    off = [
        "NCCL_IB_DISABLE set by environment to 1.",
        "Failed to initialize NET plugin IB",
        "Using network Socket",
    ]
    told = said(*(f"a:1:2 [0] NCCL INFO {text}" for text in off), *channels("NET/Socket/0"))
    assert sorted(told) == ["nccl.ib.disabled", "nccl.transport.socket"]


def case_055():
    """2.28.9 is too old for graphs over two nodes, on either rank; what torch brings counts, not what is wanted."""
    assert said("vLLM is using nccl==2.28.9", minimum="2.30.4") == ["nccl.version.old"]
    assert said("vLLM is using nccl==2.30.4", minimum="2.30.4") == []
    library = {"path": "/x", "deleted": False, "version": "2.28.9", "size": 1}
    ranks = {"a": [{"libraries": [library]}], "b": [{"libraries": [{**library, "version": "2.30.4"}]}]}
    assert [note.id for note in loaded_nccl.differences(ranks)] == ["nccl.version.mixed"]


def case_057():
    """A library that could not be preloaded costs a line of ld.so, and the version line tells the truth."""
    for why in ("cannot open shared object file", "wrong ELF class: ELFCLASS32", "invalid ELF header"):
        line = f"ERROR: ld.so: object '/opt/x.so' from LD_PRELOAD cannot be preloaded ({why}): ignored."
        assert said(line, "vLLM is using nccl==2.28.9", minimum="2.30.4") == [
            "nccl.preload.ignored",
            "nccl.version.old",
        ]


def case_058():
    """Sizes that froze a node are refused, and 24 Gb/s over RDMA names a development build too."""
    with pytest.raises(collective.CollectiveError, match="16G is too large"):
        collective.sizes_of(["16G"])
    assert collective.memory_problem([collective.GIB], 6 * collective.GIB)
    assert "development branch" in collective.likely_cause(24.3, "ib")


def case_059(tmp_path):
    """In a ring of three no rail reaches every peer: refused, and a time-out says so too."""
    node = PretendNode(tmp_path, interface(FIRST, "192.168.177.1/29", mtu=9000))
    node.answers = lambda _netdev, peer, _size: peer.endswith(".2")
    ring = [rails_plan.Rail(FIRST, "192.168.177.1/29", 9000, ("192.168.177.2", "192.168.177.3"))]
    assert [note.id for note in rails.confirm(node, ring, 5)] == ["fabric.peer.one_of_several"]
    (note,) = nccl_notes.judge(nccl_log.read_log([f"{QP} 110 Connection timed out, on dev rocep1s0f0:1"]))
    assert note.id == "nccl.qp.timeout" and "More than two nodes" in note.remedy


# -- the table -------------------------------------------------------------------------------------------------------
THEMES = {
    "GIDs": "001 002 003 005 006 008 009 010 011 013 015 017 018",
    "ports and links": "019 020 021 022 024 027 028 029 030 031 032 033",
    "MTU and addresses": "034 035 036 037 039 040 042 044",
    "NCCL": "045 046 048 050 051 052 054 055 057 058 059",
}
CASES = {
    name.removeprefix("case_"): each for name, each in dict(globals()).items() if name.startswith("case_")
}


@pytest.mark.parametrize("number", CASES)
def test_a_case(number, tmp_path, request):
    case = CASES[number]
    wanted = case.__code__.co_varnames[: case.__code__.co_argcount]
    case(**{name: tmp_path if name == "tmp_path" else request.getfixturevalue(name) for name in wanted})


def test_every_case_is_concluded():
    assert sorted(CASES) == sorted(" ".join(THEMES.values()).split())
    assert all(case.__doc__ for case in CASES.values())
