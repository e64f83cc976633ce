# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about what an engine is built with, and whether the result has what the checkpoint needs."""

from __future__ import annotations

from .catalogue import Entry

SEED = "seed 000: vllm-project/DeepGEMM e21c821 has no sm120 kernel, deepseek-ai/DeepGEMM a6b593d has them"
NVIDIA = "NVIDIA CUDA Toolkit release notes, drivers for each toolkit"
VLLM = "vLLM 0.33.0, its build from source"

ENTRIES = {
    "build.deepgemm.sm120": Entry(
        "error",
        "node",
        "The DeepGEMM at {path} lacks {lacks}: the first forward pass ends with Unsupported architecture",
        "Take the tree of the other repository of this name, or another commit: vllm-project/DeepGEMM 0820030 (vLLM "
        "0.33.0) and deepseek-ai/DeepGEMM a6b593d have both. patches/vllm pins the latter for vLLM 0.27",
        source=SEED,
    ),
    "build.deepgemm.missing": Entry(
        "error",
        "node",
        "There is no DeepGEMM at {path}",
        "Name its source tree, or the site-packages of the engine's environment",
        source=SEED,
    ),
    "build.deepgemm.unknown": Entry(
        "warning",
        "node",
        "The DeepGEMM at {path} has the kernels; whether its host code goes to them could not be read",
        "Look for sm120_tf32_hc_prenorm_gemm in csrc/apis/hyperconnection.hpp, or in _C*.so of an installed one",
        source=SEED,
    ),
    "build.flashinfer.top_k": Entry(
        "error",
        "node",
        "FlashInfer {version} has no sparse MLA decode on SM120 for {heads} heads and top_k {top_k}",
        "Install 0.6.18 or newer, which has flashinfer-ai/flashinfer#4380, or serve without speculation",
        source="vLLM utils/flashinfer.py, has_flashinfer_sparse_mla_sm120_config",
    ),
    "build.flashinfer.unknown": Entry(
        "warning",
        "node",
        "Whether FlashInfer ({version}) takes {heads} heads and top_k {top_k} on SM120 could not be asked",
        "Import flashinfer.mla._sparse_mla_sm120 with the environment's own Python and read what it says",
        source="vLLM utils/flashinfer.py, has_flashinfer_sparse_mla_sm120_config",
    ),
    "build.tool.missing": Entry(
        "error",
        "node",
        "{what} is not on this node; a build from source needs {wanted}",
        "{remedy}",
        source=VLLM,
    ),
    "build.tool.old": Entry(
        "error",
        "node",
        "{what} is {found}; a build from source needs {wanted}",
        "{remedy}",
        source=VLLM,
    ),
    "build.toolkit.other": Entry(
        "error",
        "node",
        "The CUDA toolkit at {path} is {found}, the stack is meant for {wanted}",
        "Install cuda-toolkit-{packaged} beside it and let CUDA_HOME name its folder; several toolkits may lie beside "
        "each other",
        source=NVIDIA,
    ),
    "build.toolkit.driver": Entry(
        "error",
        "node",
        "The toolkit {toolkit} needs a driver of branch {wanted} or newer; this one is {driver}",
        "Bring the driver to that branch (docs/driver.md), or build with an older toolkit",
        source=NVIDIA,
    ),
    "build.toolkit.newer": Entry(
        "warning",
        "node",
        "The toolkit {toolkit} is made for drivers of branch {wanted}; this one is {driver}",
        "Nothing, if kernels are compiled ahead for this very GPU; what the driver itself must compile does not run",
        source=NVIDIA + ", minor version compatibility",
    ),
    "build.memory.short": Entry(
        "error",
        "node",
        "{available_gib} GiB are available; one compiler of this build and the host need {wanted_gib}",
        "Stop what holds the memory (an engine holds nearly all of it) and run again",
        source="seed 000 built with 18 jobs on 128 GB",
    ),
    "build.memory.killed": Entry(
        "error",
        "node",
        "The kernel ended a compiler of {name} for want of memory, with {jobs} jobs at once",
        "Stop what holds the memory, or raise runtime.build.job_gib (tandem_profile_overrides) so that fewer jobs run; "
        "then run again: what was compiled stays",
        source="gcc and nvcc end with signal 9 where the kernel's OOM killer chose them",
    ),
    "build.engine.serves": Entry(
        "error",
        "node",
        "The engine runs on this node ({units}), and a build takes its processors and its memory for hours",
        "Stop it with ansible-playbook playbooks/stop.yml first, or give this on the same command line: "
        "-e tandem_build=allowed",
        source="on a GB10 engine and compilers share one memory",
    ),
    "build.disk.short": Entry(
        "error",
        "node",
        "{folder} has {free_gib} GiB free, and the build of {names} wants {wanted_gib}",
        "Make room, or name another folder in tandem_build_folder; runtime.build.wheels.disk_gib says what each takes",
        source="disk_gib of the wheels, and tandem_build_reserve_gib",
    ),
    "build.disk.low": Entry(
        "error",
        "node",
        "The build of {name} was ended: {folder} has {free_gib} GiB free, and {reserve_gib} stay the host's",
        "Make room on that disk and run again: what was compiled stays",
        source="a full system disk takes more down than a build",
    ),
    "build.wheel.failed": Entry(
        "error",
        "node",
        "The build of {name} {ended}",
        "Read {log} on that node from its end upwards, mend the cause and run again: what was compiled stays",
        source=VLLM,
    ),
    "build.wheel.other": Entry(
        "error",
        "node",
        "The build of {name} made {found}, wanted is one wheel of {version}",
        "Correct version, or what sets it in environment (VLLM_VERSION_OVERRIDE, PYTORCH_BUILD_VERSION), under "
        "runtime.build.wheels of the profile",
        source="PEP 427, names of wheels",
    ),
    "build.unit.interrupted": Entry(
        "error",
        "node",
        "The build was at {name} when it was ended from outside (a reboot, a stop, or the kernel)",
        "Run again: it goes on where it was. `journalctl -u {unit}` has what was said",
        source="the builder says of itself how it ends, and this one did not",
    ),
    "build.unit.time": Entry(
        "error",
        "node",
        "The build is at {name} after {hours} hours and goes on on its node",
        "Run again to follow it, with a larger tandem_build_limit_h; `journalctl -fu {unit}` shows it meanwhile",
        source="tandem_build_limit_h",
    ),
    "build.unit.other": Entry(
        "error",
        "node",
        "Another build works on this node ({unit}): it is not what this run wants",
        "Let it end (`journalctl -fu {unit}`), or stop it (`systemctl stop {unit}`), and run again",
        source="one build at a time, since each plans with the whole memory",
    ),
    "build.source.missing": Entry(
        "error",
        "group",
        "The source {name} ({what}) could not be brought to the controller",
        "Give the controller a way there, or put the archive that the profile names by its hash at {file}; run again",
        source="runtime.build.sources of the profile",
    ),
    "build.source.other": Entry(
        "error",
        "group",
        "The source {name} ({what}) has the hash {found}, and the profile names {wanted}",
        "Do not build it. Compare with the project's own page, and correct runtime.build.sources only if that is right",
        source="runtime.build.sources of the profile",
    ),
    "build.plan.wrong": Entry(
        "error",
        "group",
        "The build of profile {name} cannot be planned: {problems}",
        "Correct runtime.build of the profile (docs/build.md says what each key means)",
        source="roles/profile/files/profile_schema.yml",
    ),
    "build.head.absent": Entry(
        "error",
        "group",
        "{names} are not built yet, and the head {head}, which builds them, took no part in this run",
        "Run without --limit, or with the head in it",
        source="an engine is built once, on the head",
    ),
    "build.repository.unreachable": Entry(
        "error",
        "node",
        "The key of the CUDA repository could not be read at {address}",
        "Give the node a way there, or name a mirror with the same layout in tandem_cuda_repository",
        source=NVIDIA,
    ),
    "build.repository.key": Entry(
        "error",
        "node",
        "The key at {address} has the fingerprint {found}, wanted is {wanted}",
        "Do not trust it. Compare with NVIDIA's own page, and correct tandem_cuda_repository only if that is right",
        source="NVIDIA CUDA Installation Guide for Linux, the network repository's key 3bf863cc",
    ),
    "build.repository.foreign": Entry(
        "info",
        "node",
        "The CUDA repository is set up already in {files}, and is used as it is there",
        "Nothing; only the pins that keep its drivers away are added",
        source="apt refuses two sources of one repository with different keys",
    ),
    "build.packages.moves": Entry(
        "error",
        "node",
        "The tools of the build ({packages}) were not installed, since more would change: {moves}",
        "See `apt-cache policy` of what is named. A toolkit needs no driver: leave cuda and cuda-drivers out of it",
        source="NVIDIA's repository has drivers beside toolkits, and its cuda-keyring prefers both",
    ),
    "build.rust.failed": Entry(
        "error",
        "node",
        "rustup could not install Rust {version} to {home}",
        "Give the node a way to static.rust-lang.org, or name a mirror of it in tandem_rust_server, and run again",
        source=VLLM + ", rust-toolchain.toml",
    ),
}
