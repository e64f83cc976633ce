# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about NCCL: which library is loaded, what carries its traffic, and what its errors mean."""

from __future__ import annotations

from .catalogue import Entry

FIELD = "field reports of two-Spark owners"
NCCL = "NVIDIA/nccl 2.27 to 2.30 source"
GLIBC = "ld.so(8)"


def _error(summary: str, remedy: str, source: str = NCCL, scope: str = "node", fixed_by: str | None = None):
    """All of them are of a process that runs: they end with it, and another release may do without them."""
    return Entry("error", scope, summary, remedy, fixed_by, source, lasts="start")


def _warning(summary: str, remedy: str, source: str = NCCL, scope: str = "node"):
    return Entry("warning", scope, summary, remedy, None, source)


ENTRIES = {
    # -- the library -------------------------------------------------------------------------------------------------
    "nccl.preload.ignored": _error(
        "The library to preload was ignored: {path} ({why})",
        "Install it at that path on this node, for this processor, or take it out of LD_PRELOAD; the process went "
        "on with the NCCL that its torch brings",
        GLIBC,
        fixed_by="nccl",
    ),
    "nccl.preload.missing": _error(
        "LD_PRELOAD of pid {pid} names {path}, which is not there",
        "Install it at that path or take it out of the environment, then start the rank anew",
        GLIBC,
        fixed_by="nccl",
    ),
    "nccl.preload.unused": _error(
        "LD_PRELOAD of pid {pid} names {path}, but what is mapped is {mapped}",
        "Compare the processor of the file with this machine's (`file {path}`) and start the rank anew",
        GLIBC,
        fixed_by="nccl",
    ),
    "nccl.library.deleted": _warning(
        "Pid {pid} runs an NCCL whose file was replaced or removed since: {path}",
        "Start all ranks together, so that they load what is installed now",
        "proc(5)",
    ),
    "nccl.library.two": _error(
        "Pid {pid} has two different NCCL libraries mapped: {found}",
        "Preload one library alone, and take others out of LD_LIBRARY_PATH; then start the rank anew",
        FIELD,
    ),
    "nccl.library.unknown": _warning(
        "The version of the NCCL that pid {pid} has mapped is unknown: {path}",
        "Look at it with `strings {path} | grep 'NCCL version'`, or let the engine log it (NCCL_DEBUG=INFO)",
    ),
    "nccl.version.old": _error(
        "NCCL {found} is loaded, wanted is {minimum} or newer",
        "Preload a newer library on every rank (the profile's nccl.preload), or take an engine that brings one. "
        "2.28.9 hangs with CUDA graphs over two nodes",
        "vllm-project/vllm#52504",
        fixed_by="nccl",
    ),
    "nccl.version.mixed": _error(
        "The ranks have different NCCL libraries: {found}",
        "Install the same engine and the same preload on every rank, and start all ranks together",
        FIELD,
        scope="group",
        fixed_by="nccl",
    ),
    # -- the transport -----------------------------------------------------------------------------------------------
    "nccl.transport.other": _error(
        "NCCL's traffic goes over {found}, wanted is {wanted}",
        "Look at the devices that NCCL lists and at the rails (`ibv_devinfo`, `show_gids`); NCCL_NET=IB makes it "
        "fail where it has no RDMA, in place of falling back",
        FIELD,
        scope="group",
    ),
    "nccl.transport.socket": _warning(
        "NCCL's traffic between nodes goes over sockets, a tenth of what RDMA carries",
        "Look at the devices that NCCL lists and at the rails (`ibv_devinfo`, `show_gids`); NCCL_NET=IB makes it "
        "fail where it has no RDMA, in place of falling back",
        FIELD,
    ),
    "nccl.transport.unseen": Entry(
        "info",
        "node",
        "NCCL lists RDMA devices, but no channel in this log shows what carries the traffic",
        "Give the log from the start of the ranks on, with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS unset",
        None,
        NCCL,
    ),
    "nccl.ib.no_device": _warning(
        "NCCL found no RDMA device that it may use",
        "See that /dev/infiniband is there (a container needs --device=/dev/infiniband), that `ibv_devinfo` shows an "
        "active port, and that NCCL_IB_HCA ({selector}) names it. `NET/IB : Using` is printed all the same",
        FIELD,
    ),
    "nccl.ib.disabled": _warning(
        "RDMA is switched off for NCCL by NCCL_IB_DISABLE",
        "Take NCCL_IB_DISABLE out of the environment of the rank. A variable reaches a container or a unit only "
        "when it is made anew",
        FIELD,
    ),
    "nccl.net.none": _error(
        "NCCL could not start the network that it was told to use",
        "It failed closed, as wanted: find why RDMA is not there (`ibv_devinfo`, /dev/infiniband, NCCL_IB_HCA). "
        "Without NCCL_NET=IB it would have fallen back to sockets",
    ),
    "nccl.device.unused": _warning(
        "NCCL lists {unused} and sends nothing over it: half of the port or less is used",
        "See that both functions of the cage have carrier, an address and a RoCE v2 entry (`show_gids`)",
        FIELD,
    ),
    "nccl.device.overridden": _warning(
        "NCCL replaced device {wanted} by {taken}, since the peer's subnet is reached from there only",
        "Give each rail a subnet of its own, the same on both ends; with more than two devices in a ring the rest "
        "carries nothing",
        FIELD,
        scope="group",
    ),
    "nccl.fusing.numa": Entry(
        "info",
        "node",
        "NCCL did not fuse the two functions of a cage into one device, and uses them side by side",
        "Nothing is to be done; NCCL_NET_FORCE_MERGE can be taken out",
        None,
        NCCL,
    ),
    "nccl.plugin.took_over": _warning(
        "A network plugin carries NCCL's traffic, not NCCL itself: {plugin}",
        "Set NCCL_NET_PLUGIN=none in the environment of every rank, unless the plugin is wanted",
        FIELD,
    ),
    "nccl.plugin.stuck": _error(
        "NCCL loaded the network plugin {plugin} and never ended its start",
        "Set NCCL_NET_PLUGIN=none in the environment of every rank and make the container or unit anew; such a "
        "plugin says nothing when it hangs",
        FIELD,
    ),
    "nccl.plugin.mapped": _warning(
        "Pid {pid} has an NCCL network plugin mapped: {path}",
        "Set NCCL_NET_PLUGIN=none in the environment of every rank, unless the plugin is wanted",
        FIELD,
    ),
    "nccl.init.unfinished": _warning(
        "A communicator was begun and is not complete: rank {rank} of {ranks}",
        "If it stays so, look at the other ranks: one is missing, stuck or of another configuration",
        scope="group",
    ),
    "nccl.queue.other_network": _warning(
        "The engine's message queue is on another network than the ranks' first contact",
        "Set VLLM_HOST_IP and GLOO_SOCKET_IFNAME of each rank to its first rail, as `tandem fabric --env` gives them; "
        "the queue would go over the management network",
        FIELD,
    ),
    # -- what a running engine was given of its node ------------------------------------------------------------------
    "nccl.process.no_rdma": _warning(
        "Pid {pid} ({name}) {where} sees no /dev/infiniband, so its NCCL has no RDMA",
        "{remedy}",
        FIELD,
    ),
    "nccl.process.memlock": _warning(
        "Pid {pid} ({name}) {where} may lock {limit} of memory: RDMA cannot register its buffers",
        "{remedy}",
        FIELD,
    ),
    "nccl.process.interface": _warning(
        "{variable}={value} of {who} names {absent}, which this node has not",
        "Take it out, or write this node's own (`ip -br link`), then make the container or unit anew. An image may "
        "bring the names of its author's machine",
        FIELD,
    ),
    "nccl.process.gid_index": _warning(
        "NCCL_IB_GID_INDEX={value} of {who} is no GID index: NCCL reads {read}",
        "Take it out of the environment and make the container or unit anew; index 0 is the link-local entry",
        "NVIDIA/nccl src/misc/param.cc",
    ),
    "nccl.process.hca": _warning(
        "NCCL_IB_HCA={value} of {who} takes no RDMA device of this node, which has {found}",
        "Name those of the rails, with = before the first, and make the container or unit anew. Names differ between "
        "nodes and cages",
        FIELD,
    ),
    "nccl.process.beside": _warning(
        "Pid {other} ({shell}) beside pid {pid} ({name}) {where} has {told}, which the engine has not",
        "A variable of `docker exec` reaches only what it starts: put it into the environment of the container and "
        "make the container anew, or take it as not set",
        FIELD,
    ),
    "nccl.container.flags": _warning(
        "The container {container} ({image}) was made without {flags}, which RDMA needs",
        "Make it anew with them, if it is to reach other nodes. Nothing warns: NCCL goes over sockets",
        FIELD,
    ),
    # -- errors ------------------------------------------------------------------------------------------------------
    "nccl.qp.timeout": _error(
        "The peer did not answer over RDMA",
        "Ping it over this rail with full packets (`ping -M do -s 8972`), compare the MTU of both ends and the "
        "cabling. More than two nodes in a ring without a switch need an NCCL that knows meshes",
        FIELD,
        scope="group",
    ),
    "nccl.qp.gid": _error(
        "The GID that was chosen cannot reach the peer's",
        "Compare the GIDs on both nodes (`show_gids`). Address the rails with the fabric role and leave "
        "NCCL_IB_GID_INDEX unset unless one index is right everywhere",
        FIELD,
        scope="group",
        fixed_by="fabric",
    ),
    "nccl.qp.gid_own": _error(
        "The GID index that this rank uses is empty on its own HCA",
        "Mend this node, not its peer: `tandem fabric --env` says which index is right. Leave NCCL_IB_GID_INDEX out "
        "of every configuration, since it is read anew at each start",
        FIELD,
        fixed_by="fabric",
    ),
    "nccl.qp.gid_peer": _error(
        "The peer told an empty GID: the GID index that it uses is empty on its HCA",
        "Mend the peer, not this node: on it `tandem fabric --env` says which index is right now. Leave "
        "NCCL_IB_GID_INDEX out of every configuration, since it is read anew at each start",
        FIELD,
        scope="group",
        fixed_by="fabric",
    ),
    "nccl.memory.registration": _error(
        "RDMA memory could not be registered",
        "Check the kernel first: 7.0.0-1019 reserves memory for KHO (`grep Cma /proc/meminfo`, boot with kho=off). "
        "Then the locked memory of the process (Max locked memory in /proc/PID/limits, wanted is unlimited)",
        "NVIDIA/NV-Kernels#590",
    ),
    "nccl.memory.shared": _error(
        "Shared memory could not be made",
        "Look at `df -h /dev/shm`; a container needs --ipc=host or a larger --shm-size",
        FIELD,
    ),
    "nccl.version.mismatch": _error(
        "NCCL itself says that the ranks have different versions",
        "Install the same engine and the same preload on every rank, and start all ranks together",
        scope="group",
        fixed_by="nccl",
    ),
    "nccl.bootstrap.interface": _error(
        "NCCL found no interface for its first contact",
        "NCCL_SOCKET_IFNAME names an interface that this node has not, or that has no address (`ip -br addr`)",
        FIELD,
        fixed_by="fabric",
    ),
    "nccl.network.unknown": _error(
        "NCCL_NET names a network that there is not",
        "Write it as NCCL knows it (IB or Socket), or take it out",
    ),
    "nccl.peer.unreachable": _error(
        "A peer could not be reached",
        "See that all ranks were started, and that its address on the rail answers a ping from here",
        scope="group",
    ),
    "nccl.peer.closed": _error(
        "A peer closed its connection",
        "Look at the other rank's journal for the first error, then start all ranks together",
        scope="group",
    ),
    "nccl.device.event": _error(
        "The RDMA device reported an event while NCCL used it",
        "Look at `dmesg` for mlx5 on the same minute, and at the link (`ip -br link`)",
    ),
    "nccl.cuda": _error(
        "CUDA reported an error to NCCL",
        "Look for an Xid in `journalctl -k -g NVRM` on the same minute",
        FIELD,
    ),
    "nccl.watchdog": _error(
        "A collective operation did not end in time: the group is wedged",
        "Look at the other ranks' journals for the first error, then stop and start all ranks together. "
        "NCCL 2.28.9 with CUDA graphs over two nodes does this; 2.30.4 does not",
        "vllm-project/vllm#52504",
        scope="group",
    ),
    "nccl.warning": _warning(
        "NCCL warned",
        "Read the line; the first one on any rank is the cause of those after it",
    ),
    # -- the measurement ---------------------------------------------------------------------------------------------
    "collective.slow": _error(
        "An all-reduce reached {found} Gbit/s, wanted are {wanted} or more",
        "At such a rate: {cause}",
        FIELD,
        scope="group",
    ),
    "collective.latency": _error(
        "An all-reduce of {bytes} bytes took {found} us, wanted are {wanted} or less",
        "Look at the transport first (sockets take ten times as long as RDMA), then at what else runs on both nodes",
        FIELD,
        scope="group",
    ),
    "collective.wrong": _error(
        "An all-reduce gave wrong sums, at sizes {sizes}",
        "Trust nothing that this pair computes: measure each rail with `ib_write_bw`, and look at `dmesg` on both "
        "nodes",
        "arithmetic",
        scope="group",
    ),
}
