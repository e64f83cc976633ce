#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint_info
short_description: What a checkpoint folder holds, and whether every byte of it is right
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads the configuration, the index and the header of every shard. How the experts are stored and which draft there
    is are told from the tensors, because the configuration may say something else.
  - Compares files with a manifest, by size or by SHA-256, when O(verify) asks for it. All cores hash side by side, and
    the rate and the time left are printed every five seconds.
  - Fails where the folder is no checkpoint, where a file is missing, cut off, damaged, unreadable or of another
    revision, or where the model lacks experts. What only deserves a look is a warning.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  path:
    description: Folder of the checkpoint.
    type: path
    required: true
  manifest:
    description:
      - File on the node that lists the checkpoint's files. What C(sha256sum) writes, or this collection's own
        C(.tandem-manifest.json).
      - Without one, that of the folder itself counts, if it is there. Where there is none at all, V(sha256) compares
        nothing and returns the sums.
    type: path
  verify:
    description:
      - How closely the files are looked at.
      - V(headers) reads no manifest. Each shard must be as long as its own header says.
      - V(sizes) also compares every file's size with O(manifest), V(sha256) every byte.
    type: str
    choices: [headers, sizes, sha256]
    default: headers
  expected:
    description: What a profile says of its checkpoint. What it leaves out is not compared.
    type: dict
    default: {}
    suboptions:
      shards:
        description: Number of files with weights.
        type: int
      bytes:
        description: Size of those files together, to 1 %.
        type: int
      draft:
        description: The draft that the engine is told to use, C(method) and C(block_size).
        type: dict
  user:
    description: The engine's user, who must be able to read all of it where its unit sees it.
    type: str
  ranks:
    description: How many ranks share the weights.
    type: int
    default: 2
  total_timeout:
    description: Seconds for hashing.
    type: float
    default: 7200
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Look at the weights
  tandem.spark.checkpoint_info:
    path: /srv/models/DeepSeek-V4-Flash-0731

- name: Read every byte of them
  tandem.spark.checkpoint_info:
    path: /srv/models/DeepSeek-V4-Flash-0731
    manifest: /srv/models/DeepSeek-V4-Flash-0731/.tandem-manifest.json
    verify: sha256
"""

RETURN = r"""
model:
  description: The architecture that the configuration names.
  returned: always
  type: str
  sample: DeepseekV4ForCausalLM
shards:
  description:
    - How many shards the index names, how many are there, and which files cannot be used.
    - C(problem) is V(missing), V(truncated), V(corrupt), V(other_revision) or V(unreadable).
  returned: always
  type: dict
  sample:
    expected: 48
    present: 47
    bad:
      - file: model-00007-of-00048.safetensors
        problem: missing
        said: model-00007-of-00048.safetensors is missing
dtypes:
  description: Number of tensors of each type.
  returned: always
  type: dict
  sample: {BF16: 1200, F8_E4M3: 2000, F8_E8M0: 36000, I8: 33024}
experts:
  description:
    - How the model's experts are stored, such as V(mxfp4), V(nvfp4), V(fp8) or V(bf16). Several are joined by a plus.
    - Null where it has none.
  returned: always
  type: str
  sample: mxfp4
draft:
  description: The draft that the tensors hold. Null where there is none.
  returned: always
  type: dict
  sample: {method: dspark, block_size: 5, layers: 3, target_layers: [40, 41, 42], experts: mxfp4}
bytes:
  description: Size of all shards together.
  returned: always
  type: int
  sample: 166886535336
per_rank_gib:
  description: GiB of weights that each of O(ranks) holds at least. What every rank keeps a copy of comes on top.
  returned: always
  type: float
  sample: 77.71
revision:
  description: Stands for the configuration, the tokenizer, and the names, sizes and headers of all shards.
  returned: always
  type: str
  sample: 5b41e6d0c8a7f1c2
sha256:
  description: The sum of each file that was hashed.
  returned: always
  type: dict
  sample: {}
ok:
  description: Whether nothing is wrong with it.
  returned: always
  type: bool
  sample: true
listed:
  description:
    - Revision and SHA-256 of the folder's own list, C(.tandem-manifest.json). Null where it has none.
    - The revision is null where the list was not made from the hub's.
  returned: always
  type: dict
  sample: {revision: 9e165c30e2704aec5d9d593cce3eebd58bbef1cb, digest: 5b41e6d0c8a7f1c2}
progress:
  description: What was said on the way.
  returned: always
  type: list
  elements: str
  sample: ["hashed 12.0 of 155.4 GiB, 5.12 GiB/s, 28 s left"]
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint, checkpoint_look
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import (
    MANIFEST,
    ManifestError,
    describe,
)
from ansible_collections.tandem.spark.plugins.module_utils.file_hashes import TooSlow
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "manifest": {"type": "path"},
    "verify": {"type": "str", "choices": ["headers", "sizes", "sha256"], "default": "headers"},
    "expected": {
        "type": "dict",
        "default": {},
        "options": {"shards": {"type": "int"}, "bytes": {"type": "int"}, "draft": {"type": "dict"}},
    },
    "user": {"type": "str"},
    "ranks": {"type": "int", "default": 2},
    "total_timeout": {"type": "float", "default": 7200.0},
    "progress_file": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    if params["ranks"] < 1:
        module.fail_json(msg=f"ranks is {params['ranks']}, wanted is 1 or more.")
    path, progress = Path(params["path"]), Progress(params["progress_file"])
    own = path / MANIFEST
    manifest = Path(params["manifest"]) if params["manifest"] else own if own.is_file() else None
    if params["verify"] == "sizes" and manifest is None:
        module.fail_json(msg=f"sizes want a manifest, and {path} has none: name one, or take sha256.")
    nothing = {"ok": False, "revision": "", "sha256": {}, "listed": None, "progress": progress.lines}
    try:
        look = checkpoint_look.look(
            path,
            manifest,
            params["verify"],
            expected=params["expected"] or {},
            say=progress,
            limit_s=params["total_timeout"],
            user=params["user"],
        )
        listed = describe(own)
    except TooSlow as error:
        module.fail_json(msg=f"{path}: {error}. Give total_timeout more, or look at the disk.", **nothing)
    except (checkpoint.CheckpointError, ManifestError, OSError) as error:
        module.fail_json(msg=str(error), **nothing)
    found = look.found
    result = {
        "changed": False,
        "model": found.model,
        "shards": {
            "expected": found.expected,
            "present": found.present,
            "bad": [asdict(each) for each in found.bad],
        },
        "dtypes": found.dtypes,
        "experts": found.experts,
        "draft": found.draft and asdict(found.draft),
        "bytes": found.bytes,
        "per_rank_gib": round(found.bytes / params["ranks"] / 2**30, 2),
        "revision": found.revision,
        "sha256": look.sha256,
        "ok": not any(each.severity == "error" for each in look.findings),
        "listed": listed,
        "progress": progress.lines,
        "findings": [each.as_dict() for each in look.findings],
    }
    for each in look.findings:
        if each.severity == "warning":
            module.warn(checkpoint_look.sentence(path, each))
    errors = [checkpoint_look.sentence(path, each) for each in look.findings if each.severity == "error"]
    if errors:
        module.fail_json(msg="\n".join(errors), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
