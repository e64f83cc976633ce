#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint_info
short_description: What a checkpoint folder holds, read from its safetensors headers
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads the configuration, the index and the header of every shard; no weight is read.
  - Fails where the folder is no checkpoint, a shard is missing, or a shard's size is not what its header says.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  path:
    description: Folder of the checkpoint.
    type: path
    required: true
  verify:
    description:
      - How closely the shards are looked at.
      - Comparing every byte with SHA-256 is not built yet.
    type: str
    choices: [headers]
    default: headers
"""

EXAMPLES = r"""
- name: Look at the weights
  tandem.spark.checkpoint_info:
    path: /srv/models/DeepSeek-V4-Flash-0731
"""

RETURN = r"""
model:
  description: The architecture that the configuration names.
  returned: success
  type: str
  sample: DeepseekV4ForCausalLM
shards:
  description: How many shards the index names, how many are there, and what is wrong with any.
  returned: success
  type: dict
  sample: {expected: 48, present: 48, bad: []}
dtypes:
  description: Number of tensors of each type.
  returned: success
  type: dict
  sample: {I8: 66048, F8_E8M0: 68000, F8_E4M3: 2000, BF16: 1200}
bytes:
  description: Size of all shards together.
  returned: success
  type: int
  sample: 166886535336
revision:
  description: Stands for the configuration, the tokenizer, and the names, sizes and headers of all shards.
  returned: success
  type: str
  sample: 5b41e6d0c8a7f1c2
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "verify": {"type": "str", "choices": ["headers"], "default": "headers"},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    try:
        found = checkpoint.read(Path(path))
    except (checkpoint.CheckpointError, OSError) as error:
        module.fail_json(msg=str(error))
    shards = {"expected": found.expected, "present": found.present, "bad": found.bad}
    if found.bad:
        module.fail_json(
            msg=f"The checkpoint {path} cannot be used: {'; '.join(found.bad)}. Copy those files again.",
            shards=shards,
        )
    module.exit_json(
        changed=False,
        model=found.model,
        shards=shards,
        dtypes=found.dtypes,
        bytes=found.bytes,
        revision=found.revision,
    )


if __name__ == "__main__":
    main()
