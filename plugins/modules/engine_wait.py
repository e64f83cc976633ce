#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_wait
short_description: Wait until an engine is up on all its ranks, and say how far each is
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Looks at a unit, at the journal of its newest start and at the API, again and again from the controller, and at the
    units of O(workers) on their hosts in the same round.
  - Prints a line when the phase changes, and at each quarter of a phase that counts,
    such as C(spark-a, loading weights, 31 of 48 shards (212 s)).
  - Fails at once when a rank was lost, ended, was started anew or wrote a fatal line, with the cause, the remedy and
    the last lines of its journal. A rank with a fatal line is named before those that only followed it.
  - When the time is over, names the ranks that do not say that they wait for another one.
  - A head is ready when its unit is active and C(/health) answers 200. That does not prove that it generates, so ask it
    with M(tandem.spark.generation_check) next.
  - A worker has no API. It is ready when its unit is active and its KV cache is made.
attributes:
  check_mode:
    description: Returns at once without a look, because nothing was started.
    support: full
  diff_mode:
    description: Changes nothing in any mode.
    support: none
options:
  unit:
    description: The unit to wait for.
    type: str
    required: true
  url:
    description: Base address of the API as seen from the node. Leave it out for a worker.
    type: str
  workers:
    description: Units of the other ranks that are waited for, by the name of their host.
    type: dict
    default: {}
  timeout:
    description: Seconds to wait. A first start that compiles every kernel was seen to take 36 minutes.
    type: float
    default: 3600
  interval:
    description: Seconds between two looks.
    type: float
    default: 3
  invocation_id:
    description: The start that is waited for. By default the one that the first look finds.
    type: str
notes:
  - The action plugin does the waiting. The module itself takes one look.
"""

EXAMPLES = r"""
- name: Wait for both ranks
  tandem.spark.engine_wait:
    unit: tandem-head.service
    url: http://127.0.0.1:8888
    workers:
      spark-b: tandem-worker.service

- name: Wait for a worker
  tandem.spark.engine_wait:
    unit: tandem-worker.service
    timeout: 900
"""

RETURN = r"""
ready:
  description: Whether the engine is up.
  returned: always
  type: bool
  sample: true
seconds:
  description: Seconds waited.
  returned: always
  type: float
  sample: 312.4
phase:
  description: How far the engine is, in words.
  returned: always
  type: str
  sample: loading weights, 31 of 48 shards
outcome:
  description: V(ready), V(waiting) or V(failed).
  returned: when looked
  type: str
  sample: ready
unit_state:
  description: The unit as systemd shows it.
  returned: when looked
  type: dict
  sample:
    load: loaded
    active: active
    sub: running
    result: success
    invocation_id: 0f8c2a4e6b1d4c7f9a3e5d7b8c9d0e1f
    main_pid: 4101
    since: Sun 2026-11-29 18:45:41 UTC
health:
  description: Status of C(/health), null if it does not answer or no O(url) was given.
  returned: when looked
  type: int
  sample: 200
boot:
  description: What the journal of this start says, as M(tandem.spark.engine_log_info) returns it.
  returned: when looked
  type: dict
  sample: {version: 0.33.0, stage: serving, model_gib: 79.17, kv_tokens: 1412421, nccl: 2.30.7}
journal:
  description: The last twenty lines of this start.
  returned: when looked
  type: list
  elements: str
  sample: ["INFO:     Application startup complete."]
ranks:
  description: C(phase), C(outcome), C(unit_state), C(boot) and C(journal) of each rank, by host.
  returned: by the action
  type: dict
  sample:
    spark-a: {phase: ready, outcome: ready}
    spark-b: {phase: ready, outcome: ready}
findings:
  description: Why the engine failed, if it did.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.engine_watch import ARGUMENTS, look


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    found = look(module.params["unit"], module.params["url"], module.params["invocation_id"])
    if found is None:
        module.fail_json(
            msg=f"systemd says nothing about {module.params['unit']}, wanted its state. "
            "Run `systemctl status` on the node: is systemd its first process?"
        )
    module.exit_json(
        changed=False,
        ready=found.outcome == "ready",
        seconds=0.0,
        phase=found.phase,
        outcome=found.outcome,
        unit_state=found.unit,
        health=found.health,
        boot=found.log.as_dict(),
        journal=found.journal,
        findings=[found.cause.as_dict()] if found.cause else [],
    )


if __name__ == "__main__":
    main()
