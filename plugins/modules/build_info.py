#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: build_info
short_description: Whether a node can build the engine from source, and whether a build has the kernels it needs
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Looks for the compilers that vLLM is built with and compares the CUDA toolkit with the driver.
  - Asks a tree or an installed copy of DeepGEMM for its kernels for SM120, and an installed FlashInfer for the shape
    that the draft needs. Versions and names of repositories decide nothing.
  - What does not fit is a finding and no failure of the task.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  cuda_home:
    description: Folder of the CUDA toolkit.
    type: path
    default: /usr/local/cuda
  cuda_toolkit:
    description: The toolkit that the stack is meant for, such as V(13.2). Without it any that knows SM120 will do.
    type: str
  driver:
    description: Version of the loaded driver. Without it the toolkit is not compared with it.
    type: str
  deepgemm:
    description: A source tree of DeepGEMM, or the C(site-packages) of an engine. Without it it is not looked at.
    type: path
  python:
    description: Interpreter of the environment that has FlashInfer. Without it it is not asked.
    type: path
  heads:
    description: Query heads of one rank. Needed with O(python).
    type: int
  top_k:
    description:
      - Top_k of the sparse attention, 192 for a window of 128 and 1 to 64 drafted tokens.
      - Needed with O(python).
    type: int
"""

EXAMPLES = r"""
- name: See whether this node can build
  tandem.spark.build_info:
    cuda_toolkit: "13.2"
    driver: "595.84"

- name: See whether an engine has the kernels
  tandem.spark.build_info:
    deepgemm: /opt/tandem/runtime/0f3c5a1be2d4/lib/python3.12/site-packages
    python: /opt/tandem/runtime/0f3c5a1be2d4/bin/python
    heads: 32
    top_k: 192
"""

RETURN = r"""
tools:
  description: The program that was found for each tool, and its version. Null where there is none.
  returned: success
  type: list
  elements: dict
  sample:
    - name: nvcc
      path: /usr/local/cuda/bin/nvcc
      version: "13.2"
max_jobs:
  description: Compilers at once that the available memory and the processors allow. 0 where not even one fits.
  returned: success
  type: int
  sample: 18
deepgemm:
  description: What DeepGEMM has. Null where it was not asked for.
  returned: success
  type: dict
  sample:
    path: /opt/tandem/runtime/0f3c5a1be2d4/lib/python3.12/site-packages/vllm/third_party/deep_gemm
    layout: installed
    kernels: [sm120_bf16_gemm, sm120_tf32_hc_prenorm_gemm]
    dispatch: true
    repository: null
    good: true
flashinfer:
  description: Whether FlashInfer takes the shape. Null where it was not asked for.
  returned: success
  type: dict
  sample:
    has: true
    version: 0.7.2.post1
    why: null
findings:
  description: What an operator should know, worst first.
  returned: success
  type: list
  elements: dict
  sample: []
"""

import os
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import host_memory, sm120_kernels, toolchain
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree

KIB_PER_GIB = 1 << 20


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cuda_home": {"type": "path", "default": toolchain.CUDA_HOME},
            "cuda_toolkit": {"type": "str"},
            "driver": {"type": "str"},
            "deepgemm": {"type": "path"},
            "python": {"type": "path"},
            "heads": {"type": "int"},
            "top_k": {"type": "int"},
        },
        required_by={"python": ("heads", "top_k")},
        supports_check_mode=True,
    )
    options = module.params
    tools = toolchain.look(toolchain.search_path(options["cuda_home"]))
    kib = host_memory.meminfo(Tree("/").text("proc/meminfo") or "").get("MemAvailable")
    available_gib = None if kib is None else kib / KIB_PER_GIB
    cpus = len(os.sched_getaffinity(0))
    deepgemm = sm120_kernels.look_at_deepgemm(options["deepgemm"]) if options["deepgemm"] else None
    shape = (options["heads"], options["top_k"])
    flashinfer = sm120_kernels.ask_flashinfer(options["python"], *shape) if options["python"] else None
    found = toolchain.judge(tools, options["cuda_toolkit"], options["driver"])
    found += toolchain.judge_memory(available_gib, cpus)
    found += sm120_kernels.judge(deepgemm, flashinfer, shape)
    module.exit_json(
        changed=False,
        tools=[each.as_dict() for each in tools],
        max_jobs=toolchain.max_jobs(available_gib or 0.0, cpus),
        deepgemm=deepgemm and deepgemm.as_dict(),
        flashinfer=flashinfer and asdict(flashinfer),
        findings=[each.as_dict() for each in worst_first(found)],
    )


if __name__ == "__main__":
    main()
