# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A platform plugin that lets vLLM believe that it runs on a GB10, where there is no GPU.

Runs in the engine's own Python, also in those that vLLM starts. What it shows is that vLLM takes a configuration;
no kernel can run on it. Figures: a GB10 has compute capability 12.1, 121.69 GiB for CUDA and 48 multiprocessors.
"""

from __future__ import annotations

import sys
import types

import torch

COMPILED = ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch")
FLASH_ATTENTION = ("_vllm_fa2_C", "_vllm_fa3_C")
CAPABILITIES = (
    "cutlass_scaled_mm_supports_fp8",
    "cutlass_scaled_mm_supports_fp4",
    "cutlass_scaled_mm_supports_block_fp8",
    "cutlass_group_gemm_supported",
    "cutlass_sparse_scaled_mm_supported",
)
# Empty modules in place of the compiled ones, before vLLM looks for them.
for _name in (*COMPILED, *(f"vllm_flash_attn.{each}" for each in FLASH_ATTENTION)):
    sys.modules[f"vllm.{_name}"] = types.ModuleType(f"vllm.{_name}")
_library = torch.library.Library("_C", "FRAGMENT")
for _name in CAPABILITIES:
    _library.define(f"{_name}(int capability) -> bool")
    _library.impl(_name, lambda capability: True, "CompositeExplicitAutograd")

from vllm.platforms.cuda import NonNvmlCudaPlatform  # noqa: E402 - after what it needs is set
from vllm.platforms.interface import DeviceCapability  # noqa: E402 - after what it needs is set


def register() -> str:
    """Name the platform, as vLLM's entry points do."""
    return "pretend_gb10.PretendGB10"


class PretendGB10(NonNvmlCudaPlatform):
    @classmethod
    def get_device_capability(cls, device_id=0):
        return DeviceCapability(12, 1)

    @classmethod
    def has_device_capability(cls, capability, device_id=0):
        wanted = capability if isinstance(capability, tuple) else divmod(capability, 10)
        return wanted <= (12, 1)

    @classmethod
    def get_device_name(cls, device_id=0):
        return "NVIDIA GB10"

    @classmethod
    def get_device_uuid(cls, device_id=0):
        return "GPU-of-a-test"

    @classmethod
    def get_device_total_memory(cls, device_id=0):
        return int(121.69 * 2**30)

    @classmethod
    def device_count(cls):
        return 1

    @classmethod
    def num_compute_units(cls, device_id=0):
        return 48

    @classmethod
    def is_integrated_gpu(cls, device_id=0):
        return True

    @classmethod
    def get_cuda_runtime_major(cls):
        return 13

    @classmethod
    def is_arch_support_pdl(cls):
        return True

    @classmethod
    def import_kernels(cls):
        pass

    @classmethod
    def log_warnings(cls):
        pass
