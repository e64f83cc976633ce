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
}
