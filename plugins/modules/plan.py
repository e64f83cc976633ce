#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Make one checked plan for a group of ranks
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs on the controller and sends nothing to a node. Takes what M(tandem.spark.node_info) saw of every host of the
    group (registered as C(__tandem_node)) and the public variables of the inventory.
  - Fails with every problem at once, before anything is touched.
  - A host that this run does not look at (C(--limit)) is left out of the checks and keeps its place in the plan.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  group:
    description: The inventory group whose hosts are the ranks; its first host is the head.
    type: str
    required: true
  mends:
    description:
      - Whether this run mends what was found on the nodes, as C(site.yml) does. Then errors that nothing in it mends
        stop it as well, and the others are told with the role that mends them.
    type: bool
    default: false
  tried:
    description:
      - Laid over C(tandem_profile_overrides) of the inventory, map by map. A value of null takes a key out. For a plan
        of something else than the inventory wants, as C(tune.yml) makes it.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Look at the node
  tandem.spark.node_info:
  register: __tandem_node

- name: Make the plan
  tandem.spark.plan:
    group: tandem
  register: __tandem_plan
"""

RETURN = r"""
plan:
  description: What this node must know to start its rank, the content of /etc/tandem/plan.json.
  returned: success
  type: dict
  sample: {group: tandem, rank: 0, ranks: 2, master_addr: 192.168.177.1, master_port: 25000}
profile:
  description: The named profile with the overrides laid over it.
  returned: success
  type: dict
  sample: {name: rehearsal, tensor_parallel_size: 2}
overridden:
  description: What the inventory changes in the profile; V(null) is what is not there.
  returned: success
  type: list
  elements: dict
  sample: [{key: engine.flags.max-num-seqs, was: 2, now: 4}]
overrides:
  description: The same in the form of C(tandem_profile_overrides), with what was O(tried).
  returned: success
  type: dict
  sample: {engine: {flags: {max-num-seqs: 4}}}
decode:
  description: The sparse decode that the draft needs of FlashInfer. Null where it needs none.
  returned: success
  type: dict
  sample: {heads: 32, top_k: 192}
checkpoint_path:
  description: Folder of the weights on every rank.
  returned: success
  type: str
  sample: /srv/models/lab
engine_yaml:
  description: The engine's configuration file, equal on every rank.
  returned: success
  type: str
  sample: |
    max-num-seqs: 4
arguments:
  description: The words on the engine's command line that differ between head and worker.
  returned: success
  type: dict
  sample: {head: [--host, 0.0.0.0, --port, "8888"], worker: [--headless]}
firewall:
  description: The table of this node's packet filter and the mark that tells it; both null where there is to be none.
  returned: success
  type: dict
  sample: {text: "table inet tandem { }", mark: 606b21d1f44bf6a3/8}
role:
  description: Whether this host is the head or a worker.
  returned: success
  type: str
  sample: head
unit:
  description: The unit of this host's rank.
  returned: success
  type: str
  sample: tandem-head.service
user:
  description: The system user that the engine runs as.
  returned: success
  type: str
  sample: tandem
again:
  description: With O(mends), the findings of the nodes that must be gone at the end of the run.
  returned: success
  type: list
  elements: dict
  sample: [{id: host.packages.missing, host: spark-a}]
findings:
  description: What is wrong with the inventory or with the plan, and with O(mends) what stops the run on the nodes.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

ARGUMENTS = {
    "group": {"type": "str", "required": True},
    "mends": {"type": "bool", "default": False},
    "tried": {"type": "dict", "default": {}},
}


def main() -> None:
    """The action plugin of the same name does the work; this page is its documentation."""
    AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True).fail_json(
        msg="tandem.spark.plan runs on the controller, as an action; it was sent to a node as a module instead."
    )


if __name__ == "__main__":
    main()
