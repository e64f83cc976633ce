#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: runtime_info
short_description: The engine that a release starts, as it is installed at this moment
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads the environment that a release on this node names, package by package, and says by what it is not as it was
    installed. The filter P(tandem.spark.engine_differences#filter) compares the results of several ranks.
  - M(tandem.spark.runtime) says the same of an environment that it installs.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  release:
    description: Digest of the release.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look at the engine that would be started
  tandem.spark.runtime_info:
    release: 0123456789abcdef
  register: __tandem_runtime
"""

RETURN = r"""
path:
  description: The environment on the node. Where the release itself is missing, where its link to it would be.
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
packages:
  description: Versions of the packages in the environment.
  returned: when installed
  type: dict
  sample: {vllm: 0.33.0, torch: 2.14.0}
image:
  description: The id of its image, where it runs in a container.
  returned: when its image is there
  type: str
  sample: sha256:5b41e6d0c8a7f1c2b3a4958677d6e5f4c3b2a190817263544536271809fabcde
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
  description: The compiler below the C(CUDA_HOME) of the release. C(version) is null where there is none.
  returned: when the release sets C(CUDA_HOME)
  type: dict
  sample: {path: /usr/local/cuda/bin/nvcc, version: "13.0"}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import runtime
from ansible_collections.tandem.spark.plugins.module_utils.engine_state import RELEASES


def main() -> None:
    module = AnsibleModule(
        argument_spec={"release": {"type": "str", "required": True}}, supports_check_mode=True
    )
    release = Path(RELEASES, module.params["release"])
    try:
        found = runtime.of_release(release)
    except OSError as error:
        module.fail_json(
            msg=f"The engine of release {release.name} could not be read: {error}. It was changed by hand, or its "
            "disk is ill. Remove that environment from /opt/tandem/runtime and run site.yml, which installs it anew."
        )
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
