#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: build_packages
short_description: Install the CUDA toolkit and the compilers of a build, and never a driver
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Sets up NVIDIA's apt repository, or a mirror with its layout, with a key that is known by its fingerprint, and pins
    by which apt takes no driver from it. Where somebody has set it up already, only the pins are added.
  - Installs the packages that are missing, after apt said what it would do. What would change driver or kernel, remove
    or downgrade anything, is refused.
  - Installs one version of Rust with rustup to C(/opt/tandem/rust), where one is wanted.
  - With nothing to do this is one module run without a network.
attributes:
  check_mode:
    description: Says what would be written and installed; asks nobody and changes nothing.
    support: full
  diff_mode:
    description: Shows the files and the names of packages. The key is shown by its fingerprint.
    support: full
options:
  repository:
    description: The repository of the toolkit. Without it none is set up.
    type: dict
    suboptions:
      uri:
        description: Folder that holds C(InRelease); of http, https or file.
        type: str
        required: true
      key:
        description: Name of the key in that folder, or an address.
        type: str
        required: true
      fingerprint:
        description: Its fingerprint, 40 digits.
        type: str
        required: true
  packages:
    description: Packages that are wanted, whatever their version.
    type: list
    elements: str
    default: []
  rust:
    description: Version of Rust that is wanted, such as V(1.95.0). Without it none is installed.
    type: str
  rust_server:
    description: Address of a mirror that rustup asks in place of its own.
    type: str
  machine:
    description: The node's machine, as C(uname -m) prints it.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Have what a build needs
  tandem.spark.build_packages:
    repository:
      uri: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/sbsa/
      key: 3bf863cc.pub
      fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
    packages: [cuda-toolkit-13-2, g++-13, ninja-build]
    rust: 1.95.0
    machine: aarch64
"""

RETURN = r"""
files:
  description: The files that were written, or would be.
  returned: always
  type: list
  elements: str
  sample: [/etc/apt/sources.list.d/tandem-cuda.sources]
packages:
  description: The packages that were missing.
  returned: always
  type: list
  elements: str
  sample: [cuda-toolkit-13-2]
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import cuda_repository
from ansible_collections.tandem.spark.plugins.module_utils.build_packages import Tools, Wish
from ansible_collections.tandem.spark.plugins.module_utils.driver_host import DriverError
from ansible_collections.tandem.spark.plugins.module_utils.files import FilesError
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError, finding


def main() -> None:
    place = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "repository": {
                "type": "dict",
                # What is public of a key is no secret.
                "options": {"uri": place, "key": {**place, "no_log": False}, "fingerprint": place},
            },
            "packages": {"type": "list", "elements": "str", "default": []},
            "rust": {"type": "str"},
            "rust_server": {"type": "str"},
            "machine": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    repository = cuda_repository.Repository(**params["repository"]) if params["repository"] else None
    if repository and (wrong := cuda_repository.problems(repository)):
        module.fail_json(
            msg=f"The repository cannot be used: {'; '.join(wrong)}. Correct tandem_cuda_repository."
        )
    wish = Wish(repository, params["packages"], params["rust"], params["rust_server"], params["machine"])
    host = Tools()
    result = {"changed": False, "files": [], "packages": [], "findings": []}
    try:
        lack = host.lacks(wish)
        result["files"], result["packages"] = [path for path, *_texts in lack.files], list(lack.packages)
        result["diff"] = [
            {"before_header": path, "after_header": path, "before": before, "after": after}
            for path, before, after in lack.files
        ]
        if lack.packages or lack.rust:
            rows = [*lack.packages, *([f"Rust {lack.rust}"] if lack.rust else [])]
            result["diff"].append({"before": "", "after": "".join(f"install {row}\n" for row in rows)})
        if lack.others:
            found = finding("build.repository.foreign", files=", ".join(lack.others))
            result["findings"] = [found.as_dict()]
        if lack and not module.check_mode:
            host.bring(wish, lack)
        result["changed"] = bool(lack)
    except FindingError as error:
        found = error.finding
        said = f"{found.summary}. {found.remedy} [{found.id}]\n{found.evidence}".strip()
        module.fail_json(msg=said, **{**result, "findings": [found.as_dict()]})
    except (DriverError, FilesError, OSError) as error:
        module.fail_json(msg=f"The tools of the build could not be brought: {error}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
