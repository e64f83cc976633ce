#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint_give
short_description: Give the weights of this rank to another one, once
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Begins a process that listens on the given addresses alone, on free ports, and sends the files that
    C(.tandem-manifest.json) in the folder lists to whoever knows O(secret). It ends by itself when nobody took anything
    for O(idle) seconds. M(tandem.spark.checkpoint_fetch) calls this for each transfer, with a secret of its own.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  path:
    description: Folder of the checkpoint.
    type: path
    required: true
  addresses:
    description: Addresses of this rank's rails.
    type: list
    elements: str
    required: true
  secret:
    description: What opens this transfer.
    type: str
    required: true
  idle:
    description: Seconds without a taker after which it ends.
    type: float
    default: 120
  total_timeout:
    description: Seconds after which it ends in any case.
    type: float
    default: 86400
  library:
    description: Folder that holds the package C(tandem).
    type: path
    default: /opt/tandem/lib
"""

EXAMPLES = r"""
- name: Give the weights over the first rail
  tandem.spark.checkpoint_give:
    path: /srv/models/DeepSeek-V4-Flash-0731
    addresses: [192.168.177.1]
    secret: "{{ lookup('ansible.builtin.password', '/dev/null', length=64) }}"
"""

RETURN = r"""
doors:
  description: Address and port of each rail. Empty in check mode.
  returned: success
  type: list
  elements: list
  sample: [["192.168.177.1", 40123], ["192.168.178.1", 40124]]
"""

import json
import subprocess
import sys

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_wire import SHORTEST_SECRET

PROGRAM = "tandem.checkpoint_giver"


def begin(params: dict) -> dict:
    """What the process says when it listens: {"doors": …} or {"error": …}. It outlives this module."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", PROGRAM],
        env={"PYTHONPATH": params["library"], "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wish = {
        "folder": params["path"],
        "addresses": params["addresses"],
        "secret": params["secret"],
        "idle_s": params["idle"],
        "limit_s": params["total_timeout"],
    }
    try:
        process.stdin.write(json.dumps(wish))
        process.stdin.close()
    except OSError:
        pass  # it ended at once; why is in what it printed
    line = process.stdout.readline()
    if line:
        return json.loads(line)
    return {"error": " ".join(process.stderr.read().split())[-400:] or "it ended without a word"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
            "secret": {"type": "str", "required": True, "no_log": True},
            "idle": {"type": "float", "default": 120.0},
            "total_timeout": {"type": "float", "default": 86400.0},
            "library": {"type": "path", "default": "/opt/tandem/lib"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if len(params["secret"]) < SHORTEST_SECRET or not params["addresses"]:
        module.fail_json(
            msg=f"Wanted are an address at least, and a secret of {SHORTEST_SECRET} characters or more."
        )
    if module.check_mode:
        module.exit_json(changed=False, doors=[])
    try:
        said = begin(params)
    except OSError as error:
        said = {"error": str(error)}
    if "error" in said:
        module.fail_json(
            msg=f"The weights in {params['path']} cannot be given: {said['error'].rstrip('.')}. Look at the rails "
            "of this rank (playbooks/fabric.yml) and at that folder, and run again."
        )
    module.exit_json(changed=False, doors=said["doors"])


if __name__ == "__main__":
    main()
