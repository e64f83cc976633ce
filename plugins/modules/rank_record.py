#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_record
short_description: Have a rank remember what was proven of a release, or why it failed
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Writes the record of a release under the driver, kernel and boot options that the rank runs with now, marks the
    release as the one proven last where it was, and adds a line to C(/var/lib/tandem/history.jsonl).
  - Once a release is proven, old releases and the environments that only they used are removed. What runs, what was
    proven last, the four proven before and the four written last stay.
attributes:
  check_mode:
    description: Says that it would be written.
    support: full
  diff_mode:
    description: Records are new files, which have no useful diff.
    support: none
options:
  event:
    description: What was done. V(tune) is a trial, which is remembered in the history alone, whatever came of it.
    type: str
    required: true
    choices: [rollout, proof, rollback, start, stop, tune]
  digest:
    description: The release.
    type: str
    required: true
  outcome:
    description:
      - Whether it was proven, rejected or neither, or was stopped by an operator.
      - A trial is V(right), V(wrong) or V(unproven).
    type: str
    required: true
    choices: [proven, rejected, unproven, stopped, right, wrong]
  reason:
    description: Why, in a sentence or two.
    type: str
    required: true
  cases:
    description: The questions, the answers and the judgements.
    type: list
    elements: dict
    default: []
  boot:
    description: What the engine said of its start.
    type: dict
    default: {}
  seconds:
    description: How long each step took.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Remember that the release is proven
  tandem.spark.rank_record:
    event: rollout
    digest: 0123456789abcdef
    outcome: proven
    reason: "one by one: 3 of 3 answers right"
"""

RETURN = r"""
record:
  description: File of the record; null where only the history was written.
  returned: always
  type: str
  sample: /var/lib/tandem/proofs/0123456789abcdef.5b41e6d0.json
removed:
  description: The old releases and environments below C(/opt/tandem) that were removed.
  returned: always
  type: list
  elements: str
  sample: [releases/89abcdef01234567, runtime/75efc079c7ed]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import (
    engine_state,
    files,
    guard_hold,
    old_releases,
    records,
)

ROOT = Path("/")
TRIAL = "tune"


def remember_trial(module: AnsibleModule, record: dict) -> None:
    """Ends the module: a line of the history, and no record that a roll-out would go by."""
    if record["outcome"] not in (*records.OF_TRIALS, "unproven"):
        module.fail_json(
            msg=f"A trial is not {record['outcome']}: it proves and rejects nothing for a roll-out."
        )
    try:
        if not module.check_mode:
            records.note_trial(ROOT, TRIAL, record)
    except files.FilesError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, record=None, removed=[])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "event": {
                "type": "str",
                "required": True,
                "choices": ["rollout", "proof", "rollback", "start", "stop", TRIAL],
            },
            "digest": {"type": "str", "required": True},
            "outcome": {"type": "str", "required": True, "choices": [*records.OUTCOMES, *records.OF_TRIALS]},
            "reason": {"type": "str", "required": True},
            "cases": {"type": "list", "elements": "dict", "default": []},
            "boot": {"type": "dict", "default": {}},
            "seconds": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    record = dict(module.params)
    event = record.pop("event")
    if event == TRIAL:
        remember_trial(module, record)
    runs_as = engine_state.runs_as(ROOT, engine_state.units())
    path = records.proof_path(ROOT, record["digest"], runs_as)
    removed: list[str] = []
    try:
        if not module.check_mode:
            records.write(ROOT, event, record, runs_as)
            if record["outcome"] == "proven":
                guard_hold.drop_playbooks(ROOT)
                removed, troubles = old_releases.prune(ROOT)
                for trouble in troubles:
                    module.warn(trouble)
    except files.FilesError as error:
        module.fail_json(msg=str(error))
    kept = record["outcome"] in ("proven", "rejected")
    module.exit_json(changed=True, record=str(path) if kept else None, removed=removed)


if __name__ == "__main__":
    main()
