#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: runtime
short_description: Install the engine offline from one hash-locked wheelhouse
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Wheels are downloaded once, on the controller, with the hashes of the lock list, sent to the node where they are
    missing, and installed there without any network.
  - The node's environment lies at I(base)/KEY, where KEY stands for the lock list, the machine and the Python.
  - With nothing to do this is one module run.
attributes:
  check_mode:
    description: Says that an environment would be installed; downloads, sends and installs nothing.
    support: full
  diff_mode:
    description: Changes are whole environments, which have no useful diff.
    support: none
options:
  lock:
    description: Lock list on the controller, with a hash for every wheel.
    type: path
    required: true
  python:
    description: The node's Python, such as V(3.11).
    type: str
    required: true
  machine:
    description: The node's machine, as C(uname -m) prints it.
    type: str
    required: true
  extra_indexes:
    description: Package indexes that are asked too when the controller's own cannot give every wheel.
    type: list
    elements: str
    default: []
  made_here:
    description: Program on the controller that makes the wheel which no index has. Called with a folder.
    type: path
  placed:
    description: Wheels that lie on the controller already, such as those that M(tandem.spark.engine_build) made.
    type: list
    elements: path
    default: []
  base:
    description: Folder of the environments on the node.
    type: path
    default: /opt/tandem/runtime
  wheelhouse:
    description: Folder of the wheels on the node.
    type: path
    default: /var/lib/tandem/wheelhouse
  cache:
    description: Folder of the wheelhouses on the controller.
    type: path
    default: ~/.cache/tandem/wheelhouse
  decode:
    description:
      - The sparse decode that the draft needs of FlashInfer, as vLLM asks for it. The installed one is asked once.
      - What it answered, or that it could not be asked, is in RV(decode).
    type: dict
    suboptions:
      heads:
        description: Attention heads of one rank.
        type: int
        required: true
      top_k:
        description: Width of the index of the sliding window with the draft.
        type: int
        required: true
  deepgemm:
    description: Look whether the installed DeepGEMM has the kernels for SM120, which RV(deepgemm) tells.
    type: bool
    default: false
  cuda_home:
    description: Folder of the CUDA toolkit that compiles kernels at run time, where the engine needs one.
    type: path
  library:
    description: Folder that holds the package C(tandem).
    type: path
    default: /opt/tandem/lib
  step:
    description: What the node does in this module run. Set by the action plugin.
    type: str
    choices: [look, missing, install]
    default: look
  key:
    description: Name of the environment. Set by the action plugin.
    type: str
  wheels:
    description: The wheels and their SHA-256. Set by the action plugin.
    type: dict
    default: {}
  incoming:
    description: Folder with transferred wheels. Set by the action plugin.
    type: path
  lock_text:
    description: The lock list itself. Set by the action plugin.
    type: str
"""

EXAMPLES = r"""
- name: Install the engine
  tandem.spark.runtime:
    lock: "{{ role_path }}/files/rehearsal.txt"
    python: "3.11"
    machine: x86_64
  register: __tandem_runtime
"""

RETURN = r"""
path:
  description: The environment on the node.
  returned: always
  type: str
  sample: /opt/tandem/runtime/0f3c5a1be2d4
installed:
  description: Whether there is an engine that was installed to its end.
  returned: always
  type: bool
  sample: true
fingerprint:
  description: SHA-256 over every package's version and file hashes; equal on two ranks with the same engine.
  returned: when installed
  type: str
  sample: 5b41e6d0c8a7f1c2b3a4958677d6e5f4c3b2a190817263544536271809fabcde
files:
  description: A hash for the files of each package, by which two environments of one version are told apart.
  returned: when installed
  type: dict
  sample: {vllm: 5b41e6d0c8a7f1c2}
changed_since:
  description: The packages that are not as they were installed, a sentence each.
  returned: when installed
  type: list
  elements: str
  sample: []
nvcc:
  description: The compiler below O(cuda_home). C(version) is null where there is none.
  returned: when O(cuda_home) is given
  type: dict
  sample: {path: /usr/local/cuda/bin/nvcc, version: "13.0"}
decode:
  description: Whether the installed FlashInfer has O(decode); C(takes) is null where it could not be asked.
  returned: when installed and O(decode) is given
  type: dict
  sample: {takes: true, version: 0.7.2.post1, why: ""}
deepgemm:
  description: What the installed DeepGEMM has, and C(problem), a sentence where that is not enough.
  returned: when installed and O(deepgemm) is given
  type: dict
  sample: {layout: installed, kernels: [sm120_tf32_hc_prenorm_gemm], dispatch: true, good: true, problem: ""}
packages:
  description: Versions of the packages in the environment.
  returned: when installed
  type: dict
  sample: {vllm: 0.33.0, torch: 2.14.0}
"""

import os
import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import runtime as library
from ansible_collections.tandem.spark.plugins.module_utils import sm120_kernels
from ansible_collections.tandem.spark.plugins.module_utils.flashinfer_question import ask

ARGUMENTS = {
    "lock": {"type": "path", "required": True},
    "python": {"type": "str", "required": True},
    "machine": {"type": "str", "required": True},
    "extra_indexes": {"type": "list", "elements": "str", "default": []},
    "made_here": {"type": "path"},
    "placed": {"type": "list", "elements": "path", "default": []},
    "base": {"type": "path", "default": "/opt/tandem/runtime"},
    "wheelhouse": {"type": "path", "default": "/var/lib/tandem/wheelhouse"},
    "cache": {"type": "path", "default": "~/.cache/tandem/wheelhouse"},
    "decode": {
        "type": "dict",
        "options": {"heads": {"type": "int", "required": True}, "top_k": {"type": "int", "required": True}},
    },
    "deepgemm": {"type": "bool", "default": False},
    "cuda_home": {"type": "path"},
    "library": {"type": "path", "default": "/opt/tandem/lib"},
    "step": {"type": "str", "choices": ["look", "missing", "install"], "default": "look"},
    "key": {"type": "str", "no_log": False},
    "wheels": {"type": "dict", "default": {}},
    "incoming": {"type": "path"},
    "lock_text": {"type": "str"},
}


def kernels(path: Path) -> dict:
    """What the DeepGEMM of an environment has, asked of its files."""
    site = next(path.glob("lib/python*/site-packages"), path)
    seen = sm120_kernels.look_at_deepgemm(str(site))
    lacks = sm120_kernels.error(seen)
    return {**seen.as_dict(), "problem": f"{lacks.summary}. {lacks.remedy}. [{lacks.id}]" if lacks else ""}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    options = module.params
    if options["key"] is None:
        module.fail_json(
            msg="tandem.spark.runtime is begun by its action on the controller, which names the key. "
            "Call it as a task."
        )
    path, wheelhouse = Path(options["base"], options["key"]), Path(options["wheelhouse"])
    result = {"changed": False, "path": str(path)}
    if options["cuda_home"]:
        result["nvcc"] = library.nvcc(options["cuda_home"])
    try:
        there = library.read_fingerprint(path) is not None
        if options["step"] == "missing":
            result["missing"] = library.missing(wheelhouse, options["wheels"])
        elif options["step"] == "install" and not there:
            if options["incoming"]:
                library.adopt(Path(options["incoming"]), wheelhouse, options["wheels"])
            library.install(path, options["lock_text"], wheelhouse, options["wheels"], "/usr/bin/python3")
            result["changed"] = True
        result.update(library.described(path))
        if result["installed"] and options["decode"]:
            wish = options["decode"]
            result["decode"] = ask(path, wish["heads"], wish["top_k"], options["library"])
        if result["installed"] and options["deepgemm"]:
            result["deepgemm"] = kernels(path)
    except library.RuntimeInstallError as error:
        module.fail_json(msg=str(error), **result)
    except OSError as error:
        wanted = f"Make {path.parent} and {wheelhouse} folders that root can write, and run again."
        module.fail_json(msg=f"The engine could not be installed at {path}: {error}. {wanted}", **result)
    # pip on the controller must know the newest manylinux tag that this C library takes.
    module.exit_json(
        glibc=platform.libc_ver(os.path.realpath("/usr/bin/python3"))[1],
        **result,
    )


if __name__ == "__main__":
    main()
