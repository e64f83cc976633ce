#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: release
short_description: Write a content-addressed release of the engine
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Names the release by its content, the engine's fingerprint and the weights' revision, and writes it below
    C(/opt/tandem/releases). Nothing that runs is touched.
  - The name is computed on the controller; the node is sent one M(tandem.spark.managed_files).
attributes:
  check_mode:
    description: Says what would be written.
    support: full
  diff_mode:
    description: Shows every file that would be written.
    support: full
options:
  content:
    description: The files of the release, by their path in it.
    type: dict
    required: true
  fingerprint:
    description: Fingerprint of the engine's environment.
    type: str
    required: true
  runtime:
    description: Folder of that environment on the node.
    type: str
    required: true
  checkpoint_revision:
    description: Revision of the weights.
    type: str
    required: true
  facts:
    description: What else the manifest shall say. It does not count for the digest.
    type: dict
    default: {}
  cache:
    description: Folder on the node for what is compiled lazily.
    type: str
    required: true
  user:
    description: Account that the cache belongs to.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write the release
  tandem.spark.release:
    content:
      engine.yaml: "{{ __tandem_plan.engine_yaml }}"
    fingerprint: "{{ __tandem_runtime.fingerprint }}"
    runtime: "{{ __tandem_runtime.path }}"
    checkpoint_revision: "{{ __tandem_checkpoint.revision }}"
    cache: /var/cache/tandem/5b41e6d0c8a7f1c2
    user: tandem
  register: __tandem_release
"""

RETURN = r"""
digest:
  description: The name of the release.
  returned: always
  type: str
  sample: 0123456789abcdef
changed_paths:
  description: The files that differed.
  returned: always
  type: list
  elements: str
  sample: [/opt/tandem/releases/0123456789abcdef/engine.yaml]
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "content": {"type": "dict", "required": True},
    "fingerprint": {"type": "str", "required": True},
    "runtime": {"type": "str", "required": True},
    "checkpoint_revision": {"type": "str", "required": True},
    "facts": {"type": "dict", "default": {}},
    "cache": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.release begins on the controller, as an action; it was sent to a node as a module."
    )


if __name__ == "__main__":
    main()
