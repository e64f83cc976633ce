#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status_info
short_description: Whether a rank runs the release that was proven for this very start
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - What C(tandem status) says on the node, in one quick look that changes nothing and asks the model nothing.
  - A green unit and C(/health) 200 are told, and never count for it. Only the record of a proof does, and only for the
    driver, kernel, boot options, boot and start of the unit that it was made with.
  - Needs nothing on the node but Python; what could not be read is null and is told in RV(status.findings).
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  root:
    description:
      - Where the node's file system is seen. With any other path than V(/) only files are read.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Look at the rank
  tandem.spark.status_info:
  register: seen

- name: Stop where it is not as proven
  ansible.builtin.assert:
    that: seen.status.proven
    fail_msg: "{{ seen.status.findings | map(attribute='summary') | join('; ') }}"
"""

RETURN = r"""
status:
  description: The rank as it is.
  returned: success
  type: dict
  contains:
    proven:
      description: Whether there is no finding of severity error.
      type: bool
      sample: true
    group:
      description: The group of the rank; null without a plan. C(rank), C(ranks), C(role) and C(hosts) tell its place.
      type: str
      sample: tandem
    unit:
      description: The unit of the rank as systemd has it.
      type: dict
      sample: {name: tandem-head.service, active: active, sub: running, since: "Mon 2026-11-30 03:45:33 UTC"}
    release:
      description: The release that is linked in and the one proven last, and how it is asked.
      type: dict
      sample: {current: 0123456789abcdef, applied: 0123456789abcdef, profile: v4-flash-next, serving: {port: 8888}}
    proof:
      description:
        - What the records say. C(state) is V(this start), V(earlier start), V(other circumstances), V(rejected) or
          V(none); C(since) says what changed.
      type: dict
      sample: {state: this start, since: null, outcome: proven, reason: 3 of 3 answers right}
    stage:
      description: How far this start came, in words; null where that is unknown. It says nothing of the answers.
      type: str
      sample: came up
    boot:
      description: What M(tandem.spark.engine_log_info) reads in the journal of this start; null without one.
      type: dict
      sample: {stage: serving, version: 0.33.0, nccl: 2.30.4, kv_tokens: 1048576}
    api:
      description: On the head, the address, C(/health) and the counters. They say nothing of the answers.
      type: dict
      sample: {url: "http://127.0.0.1:8888", health: 200, counters: {running: 0, waiting: 0}}
    fabric:
      description: What this start was given, and what a start would be given or refused for now.
      type: dict
      sample: {env: {NCCL_IB_GID_INDEX: "3"}, refused: []}
    caches:
      description: The folders below C(/var/cache/tandem) against their bound.
      type: dict
      sample: {gib: 3.4, max_gib: 20, whole: true, stacks: []}
    guard:
      description: What the guard of this rank says, and C(age_s), how long ago; null where none runs.
      type: dict
      sample: {state: ready, why: a right answer 3 s ago, recoveries: 0, age_s: 1.2}
    history:
      description: The last five lines of C(/var/lib/tandem/history.jsonl).
      type: list
      elements: dict
      sample: [{at: "2026-11-30T03:48:51Z", event: rollout, outcome: proven, digest: 0123456789abcdef}]
    findings:
      description: What is not so, errors first.
      type: list
      elements: dict
      sample: []
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import status, status_data, status_judgement


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    seen = status.look(Path(module.params["root"]))
    module.exit_json(changed=False, status=status_data.as_dict(seen, status_judgement.judge(seen)))


if __name__ == "__main__":
    main()
