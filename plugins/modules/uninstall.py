#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: uninstall
short_description: Take everything of this collection off a node
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Stops the units, and removes their files, the account of the engine, the packages that a role installed because they
    were missing, and the folders.
  - Driver and rails have a way back of their own, M(tandem.spark.driver_packages) and M(tandem.spark.fabric_rails) with
    C(state=released), and go first. While something of them is not undone, C(/var/lib/tandem) stays, which tells how.
  - What is missing already is no trouble, and neither is a second run.
attributes:
  check_mode:
    description: Says what would go.
    support: full
  diff_mode:
    description: Shows what is there and would go, a line each.
    support: full
options:
  state:
    description:
      - V(stopped) stops the units, the guard first.
      - V(absent) stops them and removes everything.
    type: str
    choices: [stopped, absent]
    default: absent
  user:
    description: The engine's account. It goes only where it is an account of the system with its home in the caches.
    type: str
    default: tandem
  path:
    description: Where the inventory has the weights. Those that a release names are known without it.
    type: str
    default: ""
  weights:
    description: Whether the weights go too.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: See what would go
  tandem.spark.uninstall:
  check_mode: true
  register: going
"""

RETURN = r"""
traces:
  description: What goes, or went. C(kind) is unit, file, table, package, account, image, folder or weights.
  returned: always
  type: list
  elements: dict
  sample:
    - {kind: unit, name: tandem-guard.service}
    - {kind: folder, name: /opt/tandem}
kept:
  description: What stays, and why.
  returned: always
  type: list
  elements: str
  sample: ["the weights in /srv/models/lab; -e tandem_uninstall_weights=true takes them too"]
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import removal


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["stopped", "absent"], "default": "absent"},
            "user": {"type": "str", "default": "tandem"},
            "path": {"type": "str", "default": ""},
            "weights": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params, host = module.params, removal.Host()
    found = removal.look(host, params["user"], params["path"], params["weights"])
    if params["state"] == "stopped":
        found.traces = [trace for trace in found.traces if trace.kind == "unit"]
    result = {"traces": [asdict(trace) for trace in found.traces], "kept": found.kept}
    troubles = []
    if not module.check_mode:
        try:
            removal.stop(host)
            if params["state"] == "absent":
                troubles = removal.remove(host, found)
        except removal.RemovalError as error:
            module.fail_json(msg=str(error), **result)
    if troubles:
        module.fail_json(msg="\n".join(f"{trouble}." for trouble in troubles), **result)
    before = "".join(f"{trace.kind} {trace.name}\n" for trace in found.traces)
    module.exit_json(changed=bool(found.traces), diff={"before": before, "after": ""}, **result)


if __name__ == "__main__":
    main()
