#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_rails
short_description: Set the rails of a node, and undo it unless it proves good
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Gives the rails (the interfaces between the ranks) their addresses and MTU in steps that cannot cut a node
    off.
  - V(staged) sets them where a reboot forgets it, under a timer of the node that undoes it. V(confirmed) asks
    every peer on every rail for full, unfragmented packets. V(persistent) keeps them over a reboot and stops
    the timer. V(reverted) undoes the last change at once, a persistent one too.
  - V(released) makes the rails what they were before this collection, also after reboots. Addresses and MTU are as they
    were found, no file of this collection is left, and files of others that were backed up and are gone come back.
    O(rails) is empty.
  - Between the steps all ranks must be through with the step before; the role fabric sees to that.
  - Only the rails are reconfigured. An interface by which the node is managed is refused, and files of others
    are left as they are, reported, and copied to C(/var/lib/tandem/backup) before the first change.
attributes:
  check_mode:
    description: Compares and reports; stages, asks and writes nothing.
    support: full
  diff_mode:
    description: Shows the rails and the files as wanted against found.
    support: full
options:
  rails:
    description: The rails as wanted, as in C(fabric.rails) of C(/etc/tandem/plan.json).
    type: list
    elements: dict
    required: true
    suboptions:
      netdev:
        description: The interface.
        type: str
        required: true
      address:
        description: Its IPv4 address with prefix length.
        type: str
        required: true
      peers:
        description: The addresses of the other ranks on this rail.
        type: list
        elements: str
        default: []
      index:
        description: The number of the rail; not used here.
        type: int
      hca:
        description: The RDMA device of the rail; not used here.
        type: str
      subnet:
        description: The subnet of the rail; not used here, the address has it.
        type: str
      taken:
        description: Whether the group had the address already; not used here.
        type: bool
  mtu:
    description: The MTU of every rail, in bytes.
    type: int
    default: 9000
  management:
    description: Names of the interfaces by which the node is managed, from M(tandem.spark.node_info).
    type: list
    elements: str
    required: true
  state:
    description: The step.
    type: str
    choices: [staged, confirmed, persistent, reverted, released]
    required: true
  revert_after_s:
    description: After how many seconds a staged change is undone by the node itself.
    type: int
    default: 60
  peer_timeout_s:
    description: For how many seconds V(confirmed) asks before it gives up.
    type: int
    default: 10
  backend:
    description:
      - Who writes the network of this node, as M(tandem.spark.node_info) finds it.
      - V(netplan-networkd), V(netplan-networkmanager), V(networkd) and V(networkmanager) are known; with any other
        nothing is touched and the step fails.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Set the rails for a minute
  tandem.spark.fabric_rails:
    state: staged
    rails:
      - netdev: enp1s0f0np0
        address: 192.168.177.1/29
        peers: [192.168.177.2]
    management: [enP7s7]
    backend: netplan-networkd

- name: Undo the last change at once
  tandem.spark.fabric_rails:
    state: reverted
    rails: []
    management: [enP7s7]
    backend: netplan-networkd
"""

RETURN = r"""
differences:
  description: What of the rails was not as wanted before this step; the subject is address, mtu or down.
  returned: when O(state=staged) or O(state=persistent)
  type: list
  elements: dict
  sample:
    - {netdev: enp1s0f0np0, subject: mtu, found: "1500", wanted: "9000"}
files:
  description: The files that were not as wanted before this step.
  returned: when O(state=staged), O(state=persistent) or O(state=released)
  type: list
  elements: str
  sample: [/etc/netplan/90-tandem-fabric.yaml]
kept:
  description: Backed up files of others that somebody changed since; they are left as they are.
  returned: when O(state=released)
  type: list
  elements: str
  sample: []
interrupted:
  description: Whether a change of an earlier run was found that had been neither confirmed nor undone.
  returned: when O(state=staged)
  type: bool
  sample: false
findings:
  description: What was found, each as in the finding catalogue.
  returned: always
  type: list
  elements: dict
  sample:
    - id: fabric.rail.mtu
      severity: error
      scope: node
      hosts: []
      summary: enp1s0f0np0 has MTU 1500, wanted 9000
      evidence: ""
      remedy: Run `ansible-playbook site.yml --tags fabric`; a firmware update resets the MTU
      fixed_by: fabric
      source: ""
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import rails
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, worst_first
from ansible_collections.tandem.spark.plugins.module_utils.rails_host import Host
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import (
    RailsError,
    line,
    picture,
    read_rails,
)

RAIL_SPEC = {
    "netdev": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "peers": {"type": "list", "elements": "str", "default": []},
    "index": {"type": "int"},
    "hca": {"type": "str"},
    "subnet": {"type": "str"},
    "taken": {"type": "bool"},
}


class Refused(Exception):
    """Findings for which the step is not done."""


def told(findings: list[Finding]) -> list[dict]:
    return [each.as_dict() for each in worst_first(findings)]


def refuse_if(findings) -> None:
    if findings:
        raise Refused(list(findings))


def diff_of(host: Host, wanted: list, seen: rails.Look) -> list[dict]:
    """Rails and files, wanted against found."""
    sides = [(path, host.read(path) or "", text or "") for path, text in seen.files.items()]
    if seen.differences:
        sides.insert(0, ("rails", picture(wanted, seen.links), picture(wanted)))
    return told_sides(sides)


def told_sides(sides: list[tuple[str, str, str]]) -> list[dict]:
    return [
        {"before_header": what, "before": before, "after_header": what, "after": after}
        for what, before, after in sides
    ]


def look(module: AnsibleModule, host: Host, backend, wanted: list) -> tuple[rails.Look, dict]:
    """Wanted against found, and what of it every step returns."""
    seen = rails.look(host, backend, wanted, module.params["management"])
    refuse_if(seen.refusals)
    result = {
        "differences": [asdict(each) for each in seen.differences],
        "files": list(seen.files),
        "findings": told([*seen.notes, *(each.finding() for each in seen.differences)]),
        "diff": diff_of(host, wanted, seen),
    }
    return seen, result


def staged(module: AnsibleModule, host: Host, backend, wanted: list) -> dict:
    interrupted = rails.interrupted(host)
    if interrupted and not module.check_mode:
        rails.revert(host)
    seen, result = look(module, host, backend, wanted)
    if seen.needed and not module.check_mode:
        rails.stage(host, backend, wanted, seen, module.params["revert_after_s"])
    return {**result, "changed": seen.needed or interrupted, "interrupted": interrupted}


def confirmed(module: AnsibleModule, host: Host, backend, wanted: list) -> dict:
    if not module.check_mode:
        refuse_if(rails.confirm(host, wanted, module.params["peer_timeout_s"]))
    return {"changed": False, "findings": []}


def persistent(module: AnsibleModule, host: Host, backend, wanted: list) -> dict:
    seen, result = look(module, host, backend, wanted)
    needed = seen.needed or rails.interrupted(host)
    if needed and not module.check_mode:
        rails.persist(host, backend, wanted)
    return {**result, "changed": needed}


def reverted(module: AnsibleModule, host: Host, backend, wanted: list) -> dict:
    changed = rails.interrupted(host) if module.check_mode else rails.revert(host, unconfirmed_only=False)
    return {"changed": changed, "findings": []}


def released(module: AnsibleModule, host: Host, backend, wanted: list) -> dict:
    seen = rails.leaving(host, backend, module.params["management"])
    refuse_if(seen.refusals)
    sides = [(path, host.read(path) or "", text or "") for path, text in seen.files.items()]
    if seen.commands:
        now = host.links()
        pairs = [(line(now[link.name]), line(link)) for link in seen.record.links]
        sides.insert(
            0, ("rails", *("".join(f"{each}\n" for each in side) for side in zip(*pairs, strict=True)))
        )
    if seen.needed and not module.check_mode:
        rails.leave(host, seen)
    return {
        "changed": seen.needed,
        "files": list(seen.files),
        "kept": list(seen.kept),
        "findings": [],
        "diff": told_sides(sides),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "rails": {"type": "list", "elements": "dict", "required": True, "options": RAIL_SPEC},
            "mtu": {"type": "int", "default": 9000},
            "management": {"type": "list", "elements": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["staged", "confirmed", "persistent", "reverted", "released"],
                "required": True,
            },
            "revert_after_s": {"type": "int", "default": 60},
            "peer_timeout_s": {"type": "int", "default": 10},
            "backend": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    steps = {
        "staged": staged,
        "confirmed": confirmed,
        "persistent": persistent,
        "reverted": reverted,
        "released": released,
    }
    host = Host()
    try:
        if params["peer_timeout_s"] >= params["revert_after_s"]:
            raise RailsError(
                "revert_after_s must be more than peer_timeout_s: the timer would win every time"
            )
        wanted = read_rails(params["rails"], params["mtu"])
        backend = rails.backend_named(params["backend"], wanted)
        if params["state"] == "released":
            backend = rails.leaving_backend(host, params["backend"])
            if backend is None:
                module.exit_json(changed=False, files=[], kept=[], findings=[])
        if isinstance(backend, Finding):
            raise Refused([backend])
        result = steps[params["state"]](module, host, backend, wanted)
    except Refused as refused:
        lines = [f"{each['summary']}. {each['remedy']}" for each in told(refused.args[0])]
        module.fail_json(msg="\n".join(lines), findings=told(refused.args[0]))
    except RailsError as error:
        module.fail_json(msg=str(error), findings=[])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
