#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall
short_description: Put a table of one's own into the packet filter, and undo it unless it proves good
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Loads the table C(inet tandem), whose text M(tandem.spark.plan) makes. It accepts by default and names only the
    ports that this collection opens and the addresses of the rails. Tables of others are never touched.
  - V(staged) puts it in force under a timer of the node that goes back to the one before. V(persistent) keeps it over a
    reboot and stops the timer. Whoever calls it comes to the node anew between the two.
attributes:
  check_mode:
    description: Compares and changes nothing.
    support: full
  diff_mode:
    description: Shows the kept table before and after.
    support: full
options:
  state:
    description: The step, or V(absent) for no table at all.
    type: str
    choices: [staged, persistent, absent]
    required: true
  text:
    description: The table, as nft reads it.
    type: str
  revert_after_s:
    description: After how many seconds a staged table is undone by the node itself.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Put the table in force for a minute
  tandem.spark.firewall:
    state: staged
    text: "{{ __tandem_plan.firewall.text }}"

- name: Keep it over a reboot
  tandem.spark.firewall:
    state: persistent
    text: "{{ __tandem_plan.firewall.text }}"
"""

RETURN = r"""
before:
  description: Marks of the table that was in force and of the one that the next boot would have loaded, or null.
  returned: success
  type: dict
  sample: {in_force: 606b21d1f44bf6a3/8, kept: 606b21d1f44bf6a3/8, unit: true}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import firewall
from ansible_collections.tandem.spark.plugins.module_utils.files import FilesError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["staged", "persistent", "absent"], "required": True},
            "text": {"type": "str"},
            "revert_after_s": {"type": "int", "default": 60},
        },
        required_if=[("state", "staged", ["text"]), ("state", "persistent", ["text"])],
        supports_check_mode=True,
    )
    state, text, host = module.params["state"], module.params["text"], firewall.Host()
    wanted = None if state == "absent" else text
    try:
        seen, kept = firewall.look(host), host.read(firewall.RULES)
        changed = not firewall.as_wanted(seen, wanted)
        if changed and not module.check_mode:
            if state == "staged":
                firewall.stage(host, text, module.params["revert_after_s"])
            elif state == "persistent":
                firewall.persist(host, text)
            else:
                firewall.leave(host)
    except (firewall.FirewallError, FilesError, OSError) as error:
        way_out = "To do without it, and leave the engine's ports open, set tandem_access_firewall to false"
        module.fail_json(
            msg=f"The packet filter was left as it was or goes back by itself: {error}. {way_out}."
        )
    diff = {"before_header": f"/{firewall.RULES}", "before": kept or "", "after": wanted or ""}
    module.exit_json(changed=changed, before=seen, diff=diff)


if __name__ == "__main__":
    main()
