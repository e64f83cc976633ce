# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a file or a command holds, who reads it ends with what it says it ends with, and soon.

A row is a parser, a small good text of its kind, and the exceptions that its docstring names. The text is cut off,
mixed with others and replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    apt_transaction,
    arithmetic,
    build_run,
    build_store,
    clock_caps,
    collective,
    container_engine,
    container_image,
    containers,
    cuda_repository,
    debian_packages,
    driver_family,
    driver_record,
    engine_config,
    engine_faults,
    engine_log,
    engine_state,
    equations,
    gpu,
    grub,
    guard_unit,
    host_memory,
    ibv,
    jit_caches,
    kernel_log,
    listeners,
    loaded_nccl,
    loops,
    markup,
    nccl_faults,
    nccl_log,
    nccl_rules,
    nccl_speaker,
    network,
    node,
    numerals,
    perftest,
    power,
    processes,
    prometheus_text,
    rails_netplan,
    rails_networkd,
    rails_nm,
    rails_plan,
    rank_processes,
    records,
    run_settings,
    safetensors,
    scripts,
    shared_memory,
    sm120_kernels,
    spec_decode,
    toolchain,
    unified_diff,
)
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from ansible_collections.tandem.spark.plugins.plugin_utils import built_wheels
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MIRROR = cuda_repository.Repository("https://x/cuda/", "key", "0" * 40)
ADDRESSES = json.dumps(
    [
        {
            "ifname": "eth0",
            "mtu": 1500,
            "flags": ["UP"],
            "operstate": "UP",
            "address": "02:00:00:00:00:01",
            "addr_info": [{"family": "inet", "local": "10.0.0.1", "prefixlen": 24, "valid_life_time": 60}],
        }
    ]
)
ROUTES = json.dumps([{"dst": "default", "gateway": "10.0.0.254", "dev": "eth0", "flags": []}])
INSPECT = json.dumps(
    [
        {
            "Id": "0123456789abcdef",
            "Name": "/vllm",
            "Config": {"Image": "x", "Env": ["A=b"], "Cmd": ["vllm"]},
            "HostConfig": {"NetworkMode": "host", "Devices": [], "Ulimits": []},
            "State": {"Status": "running"},
        }
    ]
)
NVIDIA_SMI = """| NVIDIA-SMI 580.142   Driver Version: 580.142   CUDA Version: 13.0 |
|   0  NVIDIA GB10   On  |   0000000F:01:00.0 Off |  N/A |
| N/A   42C  P0  12W / N/A | Not Supported | 0% Default |
|    0   N/A  N/A   811   C   VLLM::EngineCore   104277MiB |"""
QUERY = "index, pstate, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%]\n0, P0, 799 MHz, 19.50 W, 96 %\n"
QUERY_ALL = "GPU 0000000F:01:00.0\n    Performance State : P0\n    Clocks\n        SM : 799 MHz\n"
GRUB = """set default="${saved_entry}"
menuentry 'DGX OS' $menuentry_id_option 'gnulinux-simple' {
\tlinux\t/boot/vmlinuz-6.17.0-1014-nvidia root=/dev/sda1 ro
}
submenu 'Advanced' --id a {
menuentry 'DGX OS, with Linux 6.17.0-1014-nvidia' --id b {
\tlinux\t/boot/vmlinuz-6.17.0-1014-nvidia root=/dev/sda1 ro
}
}"""
STATUS = (
    "Package: bash\nStatus: install ok installed\nVersion: 5.2\nDepends: libc6 (>= 2.36), base-files | x\n\n"
)
UNITS = "Id=tandem-head.service\nActiveState=active\nMainPID=1\nInvocationID=ab\n\nId=tandem-worker.service\n"
METRICS = (
    '# TYPE vllm:num_requests_running gauge\nvllm:prompt_tokens_total{engine="0",model_name="a\\"b"} 1.5e3\n'
)
NCCL = """spark-a:811:820 [0] NCCL INFO NCCL version 2.30.4+cuda13.0
spark-a:811:820 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
spark-a:811:820 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0
spark-a:811:820 [0] NCCL WARN Call to ibv_modify_qp failed with error Invalid argument"""
ENGINE = """INFO 11-30 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.33.0) with config
INFO 11-30 10:00:01 [gpu_model_runner.py:1] Model loading took 79.07 GiB and 312.1 seconds
ERROR 11-30 10:00:02 [core.py:2] RuntimeError: CUDA error: out of memory"""
PERFTEST = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536 1000 97.3 97.1 0.1
"""
MAPS = "7f00-7f01 r-xp 00000000 00:1f 12 /usr/lib/libnccl.so.2.30.4\n"
MOUNTS = "36 35 98:0 / /dev/shm rw,nosuid - tmpfs shm rw,size=67108864k,inode64\n"
XID = "NVRM: Xid (PCI:000f:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Reset)"
RECORD = '{"held": [], "manual": [], "masked": [], "grub": false, "change": null}'


def in_tree(path: str, read: Callable) -> Callable:
    """A reader of a folder, given the text as one file of it."""

    def reader(text: str, folder: Path) -> None:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8", "surrogateescape"))
        read(folder)

    return reader


def lines(read: Callable) -> Callable:
    return lambda text: read(text.splitlines())


def exhausted(read: Callable) -> Callable:
    return lambda text: list(read(text))


PATCH = "Description: x\n\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
PARSERS: list[tuple] = [
    (apt_transaction.read_simulation, "Inst bash [5.1] (5.2 lab:lab [all]) []\nRemv vim [9]\n"),
    (debian_packages.read_status, STATUS),
    (debian_packages.read_available, STATUS),
    (debian_packages.read_automatic, "Package: bash\nAuto-Installed: 1\n"),
    (debian_packages.upstream, "1:580.142-0ubuntu0.24.04.1"),
    (lambda text: debian_packages.compare(text, "5.2-1~rc1"), "5.2-1"),
    (exhausted(debian_packages.dependencies), "libc6 (>= 2.36), base-files | x (= 1)"),
    (lambda text: debian_packages.contradicted(text, {"libc6": "2.35"}), "libc6 (>= 2.36)"),
    (driver_family.in_family, "linux-modules-nvidia-580-open-6.17.0-1014-nvidia"),
    (driver_family.release_of, "linux-modules-nvidia-580-open-6.17.0-1014-nvidia"),
    (driver_family.flavour_of_modules, "linux-modules-nvidia-580-open-6.17.0-1014-nvidia"),
    (grub.read_menu, GRUB),
    (grub.read_environment, "# GRUB Environment Block\nsaved_entry=1>2\n####"),
    (lambda text: grub.next_entry(text, "saved_entry=a>b"), GRUB),
    (lambda text: grub.next_entry(GRUB, text), "saved_entry=a>b\nnext_entry=0"),
    (lambda text: grub.way_to(text, "6.17.0-1014-nvidia"), GRUB),
    (grub.boots_once, GRUB),
    (lambda text: unified_diff.read_patch("p", text), PATCH, unified_diff.PatchError),
    (
        lambda text: unified_diff.put_on(
            unified_diff.read_patch("p", PATCH).changes[0], text.encode("utf-8", "replace")
        ),
        "a\nb\nc\n",
        unified_diff.PatchError,
    ),
    (lambda text: toolchain.read_version(toolchain.TOOLS[0].pattern, text), "tools, release 13.2, V13.2.51"),
    (build_run.how_far, "[12/4567] Building CUDA object x.o\n"),
    (build_store.named, "torch-2.14.0+cu132-cp312-cp312-linux_aarch64.whl"),
    (
        lambda text: cuda_repository.others({"/etc/apt/x.list": text}, MIRROR),
        "deb [arch=arm64] https://x/cuda/ /\n",
    ),
    (built_wheels.entries, "torch==2.14.0 \\\n    --hash=sha256:00\n"),
    (lambda text: sm120_kernels.read_answer(text, 0), '{"has": true, "version": "0.6.18", "why": null}'),
    (kernel_log.read_kernel_log, XID),
    (host_memory.meminfo, "MemTotal:  127535104 kB\n"),
    (host_memory.pages_in, "pswpin 12\n"),
    (
        lines(host_memory.killed_by_oom),
        "oom-kill:constraint=CONSTRAINT_NONE,task=VLLM::Worker,pid=812,uid=990",
    ),
    (lines(host_memory.no_memory_lines), "NVRM: x [NV_ERR_NO_MEMORY]"),
    (gpu.read_nvidia_smi, NVIDIA_SMI),
    (power.read_csv, QUERY),
    (power.read_query, QUERY_ALL),
    (processes.unit_of, "0::/system.slice/tandem-head.service"),
    (network.items, ADDRESSES),
    (network.read_addresses, ADDRESSES),
    (network.route_netdev, ROUTES),
    (lambda text: network.default_netdevs(text, text), ROUTES),
    (lambda text: list(network.netplan_renderer([text]) or ""), "network:\n  renderer: NetworkManager\n"),
    (rails_plan.read_links, ADDRESSES),
    (rails_plan.read_routes, ROUTES),
    (rails_netplan.netdevs_in, "network:\n  ethernets:\n    eth0: {mtu: 9000}\n"),
    (lambda text: rails_netplan.mentions(text, "eth0"), "eth0:"),
    (rails_networkd.netdevs_in, "[Match]\nName=eth0 eth1\n"),
    (rails_networkd.match_values, "[Match]\nName=eth0 eth1\n"),
    (rails_nm.netdevs_in, "[connection]\ninterface-name=eth0\n"),
    (rails_nm.made_up, "[connection]\ninterface-name=eth0\n"),
    (node.os_release, 'ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04"\n'),
    (node.installed_packages, STATUS),
    (
        lambda text: listeners.read_sockets(text, "tcp"),
        "  0: 0100007F:22B8 00000000:0000 0A 0:0 0:0 0 0 0 12345 1\n",
    ),
    (ibv.parse_devinfo, "hca_id:\trocep1s0f0\n\t\tport:\t1\n\t\t\tactive_mtu:\t\t4096 (5)\n"),
    (nccl_rules.parse_selector, "^=rocep1s0f0:1,roceP2p1s0f0"),
    (nccl_rules.parse_gid_index, "3", ValueError),
    (nccl_speaker.version_number, "2.30.4"),
    (nccl_faults.fault_in, NCCL),
    (lines(nccl_log.read_log), NCCL),
    (loaded_nccl.mapped_files, MAPS),
    (lambda text: jit_caches.mounts_below("/var/cache/tandem", text), MOUNTS),
    (engine_state.parse_units, UNITS),
    (guard_unit.parse, UNITS),
    (lambda text: guard_unit.unit_of(guard_unit.parse(text)), UNITS),
    (engine_faults.fatal_in, ENGINE),
    (lines(engine_log.read_log), ENGINE),
    (prometheus_text.parse, METRICS, prometheus_text.PrometheusTextError),
    (
        lambda text: spec_decode.counters_of(prometheus_text.parse(text)),
        METRICS,
        prometheus_text.PrometheusTextError,
    ),
    (perftest.parse, PERFTEST, perftest.PerftestError),
    (perftest.explain, PERFTEST),
    (perftest.nobody_there, "Couldn't connect to 10.0.0.2:18515"),
    (collective.result_in, '{"points": [], "nccl": "2.30.4"}'),
    (containers.container_of, "0::/system.slice/docker-0123456789abcdef.scope"),
    (containers.ids, "0123456789ab\n"),
    (containers.read_inspect, INSPECT),
    (
        lambda text: container_engine.read_info("docker", text),
        '{"ServerVersion": "29", "Runtimes": {"nvidia": {}}}',
    ),
    (lambda text: container_engine.read_info("podman", text), '{"version": {"Version": "5"}, "store": {}}'),
    (
        container_image.read_inspect,
        '[{"Id": "sha256:1", "Config": {"Env": ["A=b"]}, "RootFS": {"Layers": ["x"]}}]',
    ),
    (
        lambda text: container_image.read_remote(text, "arm64"),
        '{"linux/arm64": {"config": {"Env": ["A=b"]}}}',
    ),
    (container_image.read_probe, 'TANDEM {"packages": {"a": "1"}, "command": null}'),
    (in_tree("container.json", container_image.read_record), '{"image": "x", "fingerprint": "y"}'),
    (rank_processes.environment_of, "A=b\0C=d\0"),
    (arithmetic.product_asked, "What is 17 x 23?"),
    (numerals.find_numbers, "three hundred 391 and 1,391.5"),
    (numerals.read_number, "1,391.5"),
    (exhausted(numerals.find_spelled_numbers), "three hundred and ninety-one"),
    (lambda text: list(equations.equations_in(text, numerals.find_numbers(text))), "17 x 23 = 391"),
    (loops.loops_in, "1, 2, 3, 4, 5, 6, 7, 8, 9"),
    (markup.without_markup, "<b>x</b> `y`"),
    (lambda text: markup.markup_in(text, "prompt"), "<tool_call>{}</tool_call>"),
    (scripts.families_in, "abc äöü 漢字"),
    (lambda text: scripts.foreign_in(text, "prompt"), "abc 漢字"),
    (in_tree("proc/812/mountinfo", lambda root: shared_memory.look(Tree(str(root)))), MOUNTS),
    (
        in_tree(
            "var/lib/docker/containers/ab/hostconfig.json", lambda root: shared_memory.look(Tree(str(root)))
        ),
        '{"ShmSize": 1}',
    ),
    (
        in_tree("etc/cron.d/gpu", lambda root: clock_caps.caps(Tree(str(root)))),
        "@reboot root nvidia-smi -lgc 0,2200",
    ),
    (in_tree("env", run_settings.read), 'PYTORCH_ALLOC_CONF="a"\n'),
    (in_tree("engine.yaml", run_settings.read), "enable-flashinfer-autotune: true\n"),
    (in_tree("var/lib/tandem/history.jsonl", lambda root: records.history(root, 5)), '{"at": "x"}\n'),
    (in_tree("plan.json", lambda root: records.read_json(root / "plan.json")), '{"rank": 0}'),
    (in_tree("driver.json", lambda root: driver_record.read(str(root / "driver.json"))), RECORD, ValueError),
    (
        in_tree("x.safetensors", lambda root: safetensors.read_header(root / "x.safetensors")),
        "\x08\0\0\0\0\0\0\0{}      ",
        safetensors.HeaderError,
    ),
    (lambda text: engine_config.problems({text: text}), "max-num-seqs"),
]

ODD = (
    "",
    "\0",
    "{" * 3000,
    "[" * 20000,
    "\ufffd\udcff",
    "9" * 5000,
    "-1",
    "null",
    "[]",
    "{}",
    "[{}]",
    "[[null]]",
    "=" * 999,
    "\n" * 99,
    ">" * 999,
    "a=b\n" * 999,
    '{"a": ' * 5000,
    "１２３",
    "NaN",
    "1e999",
    "\x1b[31m",
)


def spoiled(good: str) -> st.SearchStrategy[str]:
    """Anything; what is odd; the good text cut off, doubled, or with something in its middle."""
    place = st.integers(0, len(good))
    return st.one_of(
        st.text(max_size=80),
        st.text("\n :=0123456789{}[]\"',>-\t", max_size=80),
        place.map(lambda at: good[:at]),
        place.map(lambda at: good[at:] + good[:at]),
        st.tuples(place, st.text(max_size=8) | st.sampled_from(ODD)).map(
            lambda cut: good[: cut[0]] + cut[1] + good[cut[0] :]
        ),
    )


def name_of(row: tuple) -> str:
    return getattr(row[0], "__qualname__", "parser").replace("<locals>.", "").replace("<lambda>", "reads")


@pytest.mark.parametrize(
    "row", PARSERS, ids=[f"{number}-{name_of(row)}" for number, row in enumerate(PARSERS)]
)
def test_any_text_is_read_or_refused(tmp_path_factory, row):
    read, good, *allowed = row
    folder = tmp_path_factory.mktemp("any")
    words = (folder,) if "in_tree" in getattr(read, "__qualname__", "") else ()

    def ends_well(text: str) -> None:
        try:
            read(text, *words)
        except tuple(allowed):
            pass

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(text=spoiled(good))
    def whatever_it_is(text):
        ends_well(text)

    read(good, *words)  # the good one is taken, so that the rest says something
    for odd in ODD:
        ends_well(odd)
    for number in re.finditer("[0-9]+", good):
        for other in ("9" * 5000, "", "-1", ":1", "x", "1e400"):
            ends_well(good[: number.start()] + other + good[number.end() :])
    whatever_it_is()
