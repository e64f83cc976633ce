#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_log_info
short_description: What the log of a vLLM rank says
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads the log of one rank, head or worker, of vLLM 0.26 to 0.33, with or without prefixes of journald or containers.
  - Tells how far the newest start in it came, what it measured, and what ended it, with the remedy where one is known.
  - What the log does not say is null.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  path:
    description: The log file.
    type: path
  text:
    description: The log itself.
    type: str
"""

EXAMPLES = r"""
- name: Read a log file
  tandem.spark.engine_log_info:
    path: /var/log/vllm-head.log

- name: Read what the journal has
  tandem.spark.engine_log_info:
    text: "{{ journal.stdout }}"
"""

RETURN = r"""
version:
  description: vLLM's version.
  returned: always
  type: str
  sample: 0.33.0
rank:
  description: The rank that wrote the log.
  returned: always
  type: int
  sample: 0
stage:
  description: How far the rank came, in words, such as V(waiting for the other rank), V(loading weights), V(compiling),
    V(capturing graphs), V(serving), V(stopped) or V(failed).
  returned: always
  type: str
  sample: serving
reached:
  description: The stage, or for a failed engine the stage that it failed in.
  returned: always
  type: str
  sample: serving
progress:
  description: How much of the stage is done, where the log counts.
  returned: always
  type: dict
  sample: {done: 31, of: 48}
model_gib:
  description: Memory of the weights on this rank, in GiB.
  returned: always
  type: float
  sample: 79.17
load_seconds:
  description: Seconds that the weights took.
  returned: always
  type: float
  sample: 214.5
kv_gib:
  description: Memory of the KV cache on this rank, in GiB.
  returned: always
  type: float
  sample: 10.04
kv_tokens:
  description: Tokens that fit the KV cache. A worker does not say.
  returned: always
  type: int
  sample: 1412421
max_concurrency:
  description: How many requests of full length fit at once.
  returned: always
  type: float
  sample: 1.41
nccl:
  description: NCCL's version. Rank 0 alone says it.
  returned: always
  type: str
  sample: 2.30.7
draft_loaded:
  description: Whether a draft model was loaded.
  returned: always
  type: bool
  sample: true
graphs:
  description: Time and memory of the captured CUDA graphs, null if none were.
  returned: always
  type: dict
  sample: {seconds: 37.0, gib: 1.62}
stalled_s:
  description: Seconds that the rank says it has waited for another one. A long compilation looks the same.
  returned: always
  type: int
  sample: 0
ready:
  description: Whether the API was up at the end of the log. Never true for a worker, which has none.
  returned: always
  type: bool
  sample: true
fatal:
  description: What ended the engine, null if nothing did.
  returned: always
  type: dict
  sample:
    id: engine.memory.cuda
    line: "torch.AcceleratorError: CUDA error: out of memory"
    cause: The GPU ran out of memory
    remedy: Lower gpu-memory-utilization or max-num-seqs
findings:
  description: The same as a finding.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.engine_log import read_log


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path"}, "text": {"type": "str"}},
        required_one_of=[("path", "text")],
        mutually_exclusive=[("path", "text")],
        supports_check_mode=True,
    )
    path, text = module.params["path"], module.params["text"]
    try:
        if path is None:
            log = read_log(text.splitlines())
        else:
            with open(path, encoding="utf-8", errors="replace") as lines:
                log = read_log(lines)
    except OSError as error:
        module.fail_json(
            msg=f"{path} cannot be read: {error.strerror}. Name a log file that this user may read."
        )
    findings = [log.fatal.finding().as_dict()] if log.fatal else []
    module.exit_json(changed=False, **log.as_dict(), findings=findings)


if __name__ == "__main__":
    main()
